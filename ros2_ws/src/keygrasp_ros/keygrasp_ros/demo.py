"""The demo (``python -m keygrasp_ros.demo``): the whole graph, headless, picks objects that it has never seen."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from keygrasp_interfaces.msg import TrialOutcome
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from keygrasp.errors import EXIT_INTERRUPTED, InputError, KeygraspError, RobotError
from keygrasp.files import write_json
from keygrasp.objects import split
from keygrasp.provenance import provenance
from keygrasp_ros.client import PickClient
from keygrasp_ros.demo_report import DemoPick, pictures_of, write_page
from keygrasp_ros.graph import DEFAULT_PLANNER, PLANNERS, default_params, nodes_for
from keygrasp_ros.isolation import isolated_environment
from keygrasp_ros.processes import NodeProcesses
from keygrasp_ros.recorder import Recorder
from keygrasp_ros.up import ros_arguments

#: Objects that can't be set up (they roll away) are replaced, so many times at most.
_MOST_REPLACED = 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo: 0 if the graph worked, whatever the robot dropped."""
    options = _parser().parse_args(argv)
    console = Console()
    try:
        return _run(options, console)
    except KeyboardInterrupt:
        console.print("stopped")
        return EXIT_INTERRUPTED
    except KeygraspError as error:
        print(f"keygrasp: {error}", file=sys.stderr)
        print(f"keygrasp: the nodes' log: {options.out / 'nodes.log'}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace, console: Console) -> int:
    began = time.monotonic()
    environment = isolated_environment()
    os.environ.update(environment)  # this process joins the same corner of the network
    specs = nodes_for(options.planner)
    arguments = ros_arguments(specs, options.planner, default_params())
    graph = NodeProcesses(specs, arguments, environment, log=options.out / "nodes.log")
    with graph, PickClient("demo") as client:

        def check() -> bool:
            for name, status in graph.ended().items():
                raise RobotError(f"node {name} ended with status {status}")
            return False

        with console.status(f"starting {len(specs)} nodes"):
            client.wait_ready(90.0, check)
        console.print(f"{len(specs)} nodes up after {time.monotonic() - began:.1f} s", highlight=False)
        with _recording(client, options, console):
            picks = list(_picks(client, options, console, check))
    return _report(picks, options, console, time.monotonic() - began)


@contextlib.contextmanager
def _recording(client: PickClient, options: argparse.Namespace, console: Console) -> Iterator[None]:
    """Record each pick, where that was asked for."""
    if not options.record:
        yield
        return
    recorder = Recorder(client.node, options.out / "recordings")
    try:
        yield
    finally:
        recorder.close()
    if recorder.fault is not None:
        raise recorder.fault
    console.print(f"recordings: {(options.out / 'recordings').resolve()}", soft_wrap=True, highlight=False)


def _picks(
    client: PickClient, options: argparse.Namespace, console: Console, check: Callable[[], bool]
) -> Iterator[DemoPick]:
    """Pick one object after the other, with a progress bar and one line each."""
    names = list(split("test"))
    random.Random(options.seed).shuffle(names)
    queue, replaced = iter(names), 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("picking", total=options.objects)
        warned = False
        for number in range(options.objects):
            while True:
                name, seed = next(queue), options.seed * 1000 + number
                progress.update(task, description=f"{name}: loading")
                try:
                    client.load_object(name, seed=seed)
                    break
                except InputError as error:
                    replaced += 1
                    if replaced > _MOST_REPLACED:
                        raise
                    progress.console.print(f"  {name}: another object instead ({escape(error.problem)})")
            pick = _pick(client, name, seed, lambda text: progress.update(task, description=text), check)
            if pick.warning and not warned:
                progress.console.print(f"[yellow]{escape(pick.warning)}[/]", highlight=False)
                warned = True
            progress.console.print(_line(number + 1, pick), highlight=False)
            progress.advance(task)
            yield pick


def _pick(client: PickClient, name: str, seed: int, show: Callable[[str], None], check: Callable[[], bool]) -> DemoPick:
    stages: list[str] = []
    warnings: list[str] = []

    def on_feedback(feedback: object) -> None:
        if not stages or stages[-1] != feedback.stage:
            stages.append(feedback.stage)
        if feedback.message.startswith("not refined"):
            warnings.append(feedback.message)
        step = f" step {feedback.refinement_step}" if feedback.refinement_step else ""
        show(f"{name}: {feedback.stage}{step}")

    answer = client.pick(on_feedback=on_feedback, check=check)
    result, plan = answer.result, answer.result.plan
    outcome = result.outcome
    scene_ms = {t.stage: t.milliseconds for t in answer.record.scene.timings} if answer.record else {}
    return DemoPick(
        object_name=name,
        seed=seed,
        outcome=outcome.outcome,
        message=outcome.message or outcome.outcome,
        warning=warnings[0] if warnings else "",
        success=outcome.success,
        planner=plan.planner,
        probability=plan.success_probability if plan.success_probability_known else None,
        steps=max(0, len(plan.path) - 1),
        candidates=len(plan.candidates),
        stages=tuple(stages),
        seconds=result.seconds,
        planning_ms={**scene_ms, **{t.stage: t.milliseconds for t in plan.timings}},
        pictures=pictures_of(answer.record, answer.picture),
    )


def _line(number: int, pick: DemoPick) -> str:
    mark = "[green]✓[/]" if pick.success else "[red]✗[/]"
    stated = f", stated {pick.probability:.0%}" if pick.probability is not None else ""
    refined = f", {pick.steps} refinement steps" if pick.steps else ""
    return f"{mark} {number:2d} {pick.object_name}: {escape(pick.message)} ({pick.seconds:.1f} s{refined}{stated})"


def _broke(pick: DemoPick) -> bool:
    """Whether the graph failed, not the grasp: the goal was refused, or a node that was needed did not do its part."""
    executed = any(stage in pick.stages for stage in ("approach", "descend"))
    return pick.outcome == TrialOutcome.REFUSED or (pick.outcome == TrialOutcome.ROBOT_FAULT and not executed)


def _report(picks: list[DemoPick], options: argparse.Namespace, console: Console, seconds: float) -> int:
    picked, broken = sum(pick.success for pick in picks), [pick for pick in picks if _broke(pick)]
    page = options.out / "report.html"
    setting = {"planner": options.planner, "robot": "ur5", "seed": str(options.seed), "seconds": f"{seconds:.1f}"}
    write_page(page, picks, setting)
    if options.json is not None:
        rows = [{k: v for k, v in dataclasses.asdict(pick).items() if k != "pictures"} for pick in picks]
        write_json(
            options.json, {**provenance(options.seed), "seconds": seconds, "planner": options.planner, "picks": rows}
        )
    console.print(f"{picked} of {len(picks)} objects picked in {seconds:.1f} s", highlight=False)
    console.print(f"report: {page.resolve()}", soft_wrap=True, highlight=False)
    for pick in broken:
        print(f"keygrasp: the graph failed on {pick.object_name}: {pick.message}", file=sys.stderr)
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keygrasp_ros.demo", description="Pick objects in simulation through the ROS 2 graph."
    )
    parser.add_argument(
        "--objects", type=_count, default=10, metavar="N", help="how many objects (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="S", help="choice and poses of the objects (default: %(default)s)"
    )
    parser.add_argument("--planner", choices=PLANNERS, default=DEFAULT_PLANNER, help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--record", action="store_true", help="record each pick (rosbag2, MCAP) beside the report")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="report and log (default: %(default)s)"
    )
    return parser


def _count(text: str) -> int:
    return _between(text, 1, 200)


def _seed(text: str) -> int:
    return _between(text, 0, 2**31 - 1)


def _between(text: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{value} is not in {low}–{high}")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
