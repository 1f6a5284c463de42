"""``keygrasp ablate``: what each part of the refiner is worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from keygrasp.cli import console, steps
from keygrasp.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from keygrasp.refine.ablations import AblationConfig


@dataclass(frozen=True)
class Options:
    """Train and search with one thing changed at a time, and compare on validation objects.

    Stopped with Ctrl-C, the same command goes on.
    """

    config: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="CONFIG.yaml", help_behavior_hint="")
    ] = None
    """Settings; without them configs/ablations.yaml."""
    out: console.OptionalPath = None
    """Folder for weights and journals, instead of that of the settings."""
    objects: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Validation objects, instead of those of the settings."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Processes of trials, instead of those of the settings."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="ablate")
    from keygrasp.errors import ConfigurationError
    from keygrasp.files import ensure_writable, write_json
    from keygrasp.refine.ablations import AblationConfig, run_ablations

    config = steps.load_settings(
        AblationConfig,
        options.config,
        Path("configs/ablations.yaml"),
        out=options.out,
        objects=options.objects,
        workers=options.workers,
    )
    if not (config.trainings or config.searches):
        raise ConfigurationError("there is nothing to vary", "Name a file with trainings or searches")
    console.results_folder(config.out)
    if options.json is not None:
        ensure_writable(options.json)
    bars = _Bars()
    try:
        found = run_ablations(config, bars.show)
    except KeyboardInterrupt:
        bars.close()
        console.progress_output().print("keygrasp: stopped; the same command goes on", soft_wrap=True)
        return EXIT_INTERRUPTED
    finally:
        bars.close()
    for path in (options.json, config.out / "ablations.json"):
        if path is not None:
            write_json(path, found)
    _print(config, found)
    return 0


class _Bars:
    """One bar after the other, each for one training or one run of trials."""

    def __init__(self) -> None:
        self._what = ""
        self._bar: steps.StepBar | None = None

    def show(self, what: str, done: int, total: int) -> None:
        """Show how far something is."""
        if what != self._what or self._bar is None:
            self.close()
            self._what, self._bar = what, steps.StepBar(what)
            self._bar.__enter__()
        self._bar.update(done, total, {})

    def close(self) -> None:
        """End the bar that is shown."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


def _print(config: AblationConfig, found: dict[str, Any]) -> None:
    out = console.output()
    for group in ("searches", "trainings"):
        if group not in found:
            continue
        grid = console.table(group, "success", "95%", "change in points", "evaluations", "plan ms")
        for name, data in found[group].items():
            rate, change = data["single_shot"], data["difference"]
            low, high = (100 * end for end in change["interval"])
            grid.add_row(
                name,
                f"{rate['successes']}/{rate['trials']}",
                f"{100 * rate['interval'][0]:.0f}–{100 * rate['interval'][1]:.0f}",
                f"{100 * change['difference']:+.1f} ({low:+.1f} to {high:+.1f})",
                f"{data['evaluations']['p50']:.0f}",
                f"{data['plan_ms']['p50']:.0f}",
            )
        out.print(grid)
    out.print(f"figures: {config.out / 'ablations.json'}", soft_wrap=True)
