"""``keygrasp collect``: physics outcomes to train on."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from keygrasp.cli import console, steps
from keygrasp.errors import EXIT_INTERRUPTED


@dataclass(frozen=True)
class Options:
    """Execute many grasps on training objects and keep how each ended.

    A run that was stopped goes on with what is missing.
    """

    config: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="CONFIG.yaml", help_behavior_hint="")
    ] = None
    """Settings; without them configs/collect.yaml, or the defaults where there is no such file."""
    out: console.OptionalPath = None
    """Folder for the labels, instead of that of the settings."""
    scenes: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Scenes in all, instead of those of the settings."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Worker processes, instead of those of the settings."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Seed, instead of that of the settings."""


_DEFAULT_CONFIG = Path("configs/collect.yaml")


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="collect")
    from keygrasp.experience.collect import CollectConfig, CollectProgress, collect

    config = steps.load_settings(
        CollectConfig,
        options.config,
        _DEFAULT_CONFIG,
        out=options.out,
        scenes=options.scenes,
        workers=options.workers,
        seed=options.seed,
    )
    state = CollectProgress(0, 0, 0, 0)
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(steps.StepBar("shards"))

        def show(now: CollectProgress) -> None:
            nonlocal state
            state = now
            rate = now.successes / now.grasps if now.grasps else 0.0
            bar.update(now.shards, now.total, {"grasps": now.grasps, "success": rate})

        try:
            state = collect(config, show)
        except KeyboardInterrupt:
            stack.close()
            notes = console.progress_output()
            notes.print(f"keygrasp: stopped; {state.shards} finished shards are kept in {config.out}", soft_wrap=True)
            notes.print("  The same command goes on with the others", soft_wrap=True)
            return EXIT_INTERRUPTED
    out = console.output()
    out.print(
        f"{state.shards} of {state.total} shards, {state.grasps} grasps in this run, {state.successes} successful"
    )
    out.print(f"labels: {config.out}", soft_wrap=True)
    return 0
