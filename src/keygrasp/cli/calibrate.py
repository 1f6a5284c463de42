"""``keygrasp calibrate``: make the refiner's success probability honest."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Annotated

import tyro

from keygrasp.cli import console, steps


@dataclass(frozen=True)
class Options:
    """Execute chosen grasps on validation objects and fit the weights' success probability to what happened."""

    weights: console.OptionalPath = None
    """Weights to calibrate (rewritten); runs/refiner/weights.safetensors where none are named."""
    objects: int = 100
    """Validation objects."""
    poses: int = 3
    """Scenes with each object."""
    workers: Annotated[int, tyro.conf.arg(help_behavior_hint="")] = 0
    """Worker processes; 0 means one a core."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="calibrate")
    from keygrasp.refine.calibration import CalibrationConfig, calibrate
    from keygrasp.trials.running import Progress

    config = CalibrationConfig(objects=options.objects, poses=options.poses, workers=options.workers)
    if options.weights is not None:
        config = dataclasses.replace(config, weights=options.weights)
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(steps.StepBar("scenes"))

        def show(now: Progress) -> None:
            bar.update(now.done, now.total, {"success": now.successes.get("refined", 0) / max(1, now.done)})

        fitted = calibrate(config, show)
    console.output().print(f"slope {fitted.slope:.3f}, offset {fitted.offset:.3f} written to {config.weights}")
    return 0
