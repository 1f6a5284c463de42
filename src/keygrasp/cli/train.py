"""``keygrasp train``: train the refiner on labels that ``keygrasp collect`` made."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from keygrasp.cli import console, steps
from keygrasp.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from keygrasp.refine.train_config import TrainConfig

#: Settings that are used where no file is named, if the folder has them.
_DEFAULT_CONFIG = Path("configs/refiner.yaml")


@dataclass(frozen=True)
class Options:
    """Train the refiner. A run that was stopped goes on where its last checkpoint was."""

    config: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="CONFIG.yaml", help_behavior_hint="")
    ] = None
    """Settings; without them configs/refiner.yaml, or the defaults where there is no such file."""
    out: console.OptionalPath = None
    """Folder for weights, checkpoint and log, instead of that of the settings."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Seed, instead of that of the settings."""
    device: Annotated[str | None, tyro.conf.arg(metavar="{auto,cpu,cuda}", help_behavior_hint="")] = None
    """Where to train, instead of that of the settings."""
    restart: bool = False
    """Start anew even where there is a checkpoint."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="train")
    from keygrasp.refine.train_config import TrainConfig
    from keygrasp.refine.training import train

    config = steps.load_settings(
        TrainConfig, options.config, _DEFAULT_CONFIG, out=options.out, seed=options.seed, device=options.device
    )
    with contextlib.ExitStack() as stack:
        bar = stack.enter_context(steps.StepBar("steps"))
        bar.update(0, config.steps, {})  # labels are read first, which takes its time
        try:
            report = train(
                config, lambda step, figures: bar.update(step, config.steps, figures), resume=not options.restart
            )
        except KeyboardInterrupt:
            stack.close()
            return _stopped(config)
    out = console.output()
    for name, value in report["final"].items():
        out.print(f"{name:<24} {value:.4f}")
    spent = {name: seconds for name, seconds in report["seconds"].items() if seconds > 0}
    if "schedule" in report:
        out.print(_where_batches_went(report["schedule"]))
    total = sum(spent.values())
    if total:
        out.print("time: " + ", ".join(f"{name} {100 * value / total:.0f}%" for name, value in spent.items()))
    out.print(f"weights: {config.out / 'weights.safetensors'}", soft_wrap=True)
    return 0


def _where_batches_went(schedule: dict[str, Any]) -> Any:
    """The schedule's histogram as a table."""
    table = console.table("network right", "scenes", "labels", title="where batches went")
    edges, total = schedule["share_right"], max(sum(schedule["labels"]), 1)
    for low, high, scenes, labels in zip(edges, edges[1:], schedule["scenes"], schedule["labels"], strict=False):
        if scenes:
            table.add_row(f"{100 * low:.0f}–{100 * high:.0f}%", str(scenes), f"{100 * labels / total:.0f}%")
    if schedule["never_drawn"]:
        table.add_row("never drawn", str(schedule["never_drawn"]), "0%")
    return table


def _stopped(config: TrainConfig) -> int:
    notes = console.progress_output()
    kept = (config.out / "checkpoint.safetensors").is_file()
    what = f"the last checkpoint is kept in {config.out}" if kept else "before the first checkpoint; nothing is kept"
    notes.print(f"keygrasp: stopped; {what}", soft_wrap=True)
    if kept:
        notes.print("  The same command goes on from there", soft_wrap=True)
    return EXIT_INTERRUPTED
