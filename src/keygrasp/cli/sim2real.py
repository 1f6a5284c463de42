"""``keygrasp sim2real``: what may differ between simulation and a real Delta, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from keygrasp.cli import console, steps
from keygrasp.errors import EXIT_INTERRUPTED, WorkerError

if TYPE_CHECKING:
    from keygrasp.trials.sim2real import SceneResult, Sim2RealConfig, Sim2RealResults


@dataclass(frozen=True)
class Options:
    """Execute the same refined grasps with the UR5, with the Delta's twin, and with the twin under other conditions.

    Conditions: depth cameras of the Kinect's and the RealSense's class, errors of calibration, friction, mass, latency
    and play. A stand-in for the first day with the robot, not a replacement: docs/real-robot.md has the checklist.
    Stopped with Ctrl-C, the same command goes on.
    """

    objects: int = 300
    """Test objects on which the reference is tried; both robots execute on the scenes where it fails."""
    factors: int = 40
    """On how many of them, evenly spread, every condition is tried too."""
    poses: int = 1
    """Scenes with each object."""
    split: Literal["train", "validation", "test"] = "test"
    """Which objects of the embedded set."""
    planner: str = "refined"
    """Whose grasps are executed."""
    seed: int = 0
    """Evaluation seed."""
    workers: int = 0
    """Worker processes; 0 is one a core."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""
    plot: console.OptionalPath = None
    """Also draw them into this SVG file."""
    report: Path = Path("keygrasp-results/sim2real")
    """Folder of the results."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="sim2real")
    from keygrasp.files import ensure_writable
    from keygrasp.trials.planners import planner_spec
    from keygrasp.trials.report_reading import JOURNAL_FILE
    from keygrasp.trials.sim2real import Sim2RealConfig, read_results, run_sim2real

    config = Sim2RealConfig(
        objects=options.objects,
        factors=options.factors,
        poses=options.poses,
        split=options.split,
        seed=options.seed,
        planner=planner_spec(options.planner),
        workers=options.workers,
    )
    journal = console.results_folder(options.report) / JOURNAL_FILE
    for path in (options.json, options.plot):
        if path is not None:
            ensure_writable(path)
    try:
        results = _with_bar(config, run_sim2real, journal)
    except KeyboardInterrupt:
        if journal.is_file():
            _finish(options, read_results(config, journal))
        console.progress_output().print("keygrasp: stopped; the same command goes on", soft_wrap=True)
        return EXIT_INTERRUPTED
    _finish(options, results)
    faults = [scene.fault for scene in results.scenes]
    if faults and all(faults):
        raise WorkerError(f"none of {len(faults)} scenes could be made: {faults[0]}", "Mend that and run again")
    return 0


def _with_bar(config: Sim2RealConfig, run_sim2real: Any, journal: Path) -> Sim2RealResults:
    from keygrasp.scene import Outcome

    with steps.StepBar("scenes") as bar:
        succeeded: list[bool] = []

        def show(done: int, total: int, latest: SceneResult | None) -> None:
            if latest is not None and latest.outcomes:
                succeeded.append(latest.outcomes["delta"] == Outcome.SUCCESS)
            bar.update(done, total, {"delta": sum(succeeded) / max(1, len(succeeded))})

        results: Sim2RealResults = run_sim2real(config, show, journal=journal)
        return results


def _finish(options: Options, results: Sim2RealResults) -> None:
    from keygrasp.files import write_json
    from keygrasp.trials.report_reading import REPORT_FILE, SUMMARY_FILE
    from keygrasp.trials.sim2real_page import verdict, write_page, write_plot
    from keygrasp.trials.sim2real_summary import summarise

    summary = summarise(results)
    out = console.output()
    grid = console.table("condition", "success", "95%", "change")
    for name, data in summary["conditions"].items():
        low, high = data["interval"]
        share = "–" if data["rate"] is None else f"{100 * data['rate']:.1f}%"
        change = "" if data["difference"] is None else f"{100 * data['difference']['difference']:+.1f}"
        grid.add_row(name, share, f"{100 * low:.0f}–{100 * high:.0f}", change)
    out.print(grid)
    out.print(verdict(summary), soft_wrap=True)
    for path in (options.json, options.report / SUMMARY_FILE):
        if path is not None:
            write_json(path, summary)
    if options.plot is not None:
        write_plot(summary, options.plot)
    out.print(f"report: {write_page(summary, options.report / REPORT_FILE)}", soft_wrap=True)
