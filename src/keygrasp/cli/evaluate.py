"""``keygrasp evaluate``: the whole table of the protocol with one command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from keygrasp.cli import console, steps
from keygrasp.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from keygrasp.trials.evaluation import EvaluationConfig, Part, PartRecords
    from keygrasp.trials.running import Progress

_PICTURES = 12
#: Names of the files in the folder.
_FIGURES, _PAGE, _TABLE = "evaluation.json", "evaluation.html", "evaluation.md"


@dataclass(frozen=True)
class Options:
    """Make the whole table of protocol KG-1: planners and controls, rules, seeds, tail and ceiling, with intervals.

    Every finished scene is kept in the folder: stopped with Ctrl-C, the same command goes on. --report-only writes the
    table and the page of what is there, also while another process goes on.
    """

    out: Path = Path("keygrasp-results/evaluation")
    """Folder of journals, figures, table and page."""
    rules: Annotated[tuple[Literal["E", "A", "none"], ...], tyro.conf.arg(metavar="[{E,A,none} ...]")] = ("E", "A")
    """Scaling rules."""
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="[INT ...]")] = (0, 1, 2)
    """Evaluation seeds."""
    objects: int = 300
    """Objects of the split, with one pose each."""
    tail: int = 300
    """Scenes on which the reference fails to collect of rule E for each seed (T300); 0 draws no further poses."""
    weights: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="[PATH ...]", help_behavior_hint="")] = ()
    """Weights of trainings with different seeds, instead of those that come with it."""
    controls: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME ...]")] = ("geometric", "cem", "argmax")
    """Planners to compare with; the reference always runs."""
    robust_objects: int = 100
    """Objects on which each grasp is also executed ten times with errors; 0 leaves that out."""
    ceiling: bool = True
    """Let the oracle search where everybody failed, for what is graspable at all."""
    split: Literal["train", "validation", "test"] = "test"
    """Which objects of the embedded set."""
    robot: Literal["gripper", "ur5", "delta"] = "gripper"
    """Who executes."""
    workers: int = 0
    """Worker processes; 0 is one a core."""
    pictures: int = _PICTURES
    """Most pictures of failures in the page, and of tail scenes."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""
    report_only: bool = False
    """Try nothing more; only write what is there."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="evaluate")
    from keygrasp.errors import InputError
    from keygrasp.files import ensure_writable
    from keygrasp.trials.evaluation import EvaluationConfig, read_evaluation

    if options.pictures < 0:
        raise InputError(f"--pictures must be at least 0, not {options.pictures}")
    config = EvaluationConfig(
        rules=options.rules,
        seeds=options.seeds,
        objects=options.objects,
        tail=options.tail,
        weights=options.weights,
        controls=options.controls,
        robust_objects=options.robust_objects,
        ceiling=options.ceiling,
        split=options.split,
        robot=options.robot,
        workers=options.workers,
    )
    console.results_folder(options.out)
    if options.json is not None:
        ensure_writable(options.json)
    if options.report_only:
        _finish(options, config, read_evaluation(config, options.out))
        return 0
    try:
        parts = _with_bars(config, options.out)
    except KeyboardInterrupt:
        _finish(options, config, read_evaluation(config, options.out))
        console.progress_output().print("keygrasp: stopped; the same command goes on", soft_wrap=True)
        return EXIT_INTERRUPTED
    _finish(options, config, parts)
    return 0


class _Bars:
    """One bar after the other, each for a part of the evaluation."""

    def __init__(self, total: int) -> None:
        self._total, self._number = total, 0
        self._bar: steps.StepBar | None = None

    def show(self, number: int, part: Part, state: Progress) -> None:
        """Show where a part stands."""
        if number != self._number or self._bar is None:
            self.close()
            self._number = number
            self._bar = steps.StepBar(f"scenes of {part.name} ({number} of {self._total})")
            self._bar.__enter__()
        shown = [name for name in reversed(state.trials) if state.trials[name]]
        rates = {name: 100 * state.successes[name] / state.trials[name] for name in shown if name != "oracle"}
        self._bar.update(state.done, state.total, rates)

    def close(self) -> None:
        """End the bar that is shown."""
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


def _with_bars(config: EvaluationConfig, folder: Path) -> tuple[PartRecords, ...]:
    from keygrasp.trials.evaluation import run_evaluation

    bars = _Bars(len(config.parts()))
    try:
        return run_evaluation(config, folder, bars.show)
    finally:
        bars.close()


def _finish(options: Options, config: EvaluationConfig, parts: tuple[PartRecords, ...]) -> None:
    """Write figures, table and page of what was done."""
    from keygrasp.cli.trials_progress import drawing_progress
    from keygrasp.files import write_json, write_text
    from keygrasp.trials.evaluation_figures import figures
    from keygrasp.trials.evaluation_page import write_page
    from keygrasp.trials.evaluation_table import markdown

    out = console.output()
    if not any(part.records for part in parts):
        out.print("nothing has been tried yet")
        return
    found = figures(config, parts)
    for path in (options.json, options.out / _FIGURES):
        if path is not None:
            write_json(path, found)
    text = markdown(found)
    write_text(options.out / _TABLE, text)
    out.print(text, soft_wrap=True, markup=False)
    with drawing_progress() as on_scene:
        page = write_page(config, found, parts, options.out / _PAGE, pictures=options.pictures, on_scene=on_scene)
    out.print(f"table: {options.out / _TABLE}\npage: {page}", soft_wrap=True)
