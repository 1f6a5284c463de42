"""Image → refined grasp through the ROS 2 graph, by stage, against the library alone, in turns in one run.

Each image goes through the steps of a pick as the pick server takes them, and through the same steps of the library in
this process; what the graph adds is the difference of the two for the same image. "Around" is what a call took around
the library's work inside it, by the answer's own timings: it does not depend on how fast the machine was for the other
of the two. All of it is measured twice: with the nodes of the graph in this process, as `keygrasp up sim` starts them,
and with one process a node over DDS, as `ros2 launch` and `keygrasp up sim --processes` do. "Best" compares the best
repeat of each image: other work on the machine can only make a repeat slower.

    . scripts/env.sh
    OMP_NUM_THREADS=1 python benchmarks/ros_latency.py --json benchmarks/results/ros-latency.json
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from keygrasp_interfaces.msg import Target
from keygrasp_ros.conversions import camera_info_message, depth_message
from keygrasp_ros.graph import default_params, nodes_for
from keygrasp_ros.isolation import isolated_environment
from keygrasp_ros.pick_steps import PickSteps, steps_of
from keygrasp_ros.processes import NodeProcesses
from keygrasp_ros.running import spinning
from keygrasp_ros.up import ros_arguments
from keygrasp_ros.waiting import wait_until
from rclpy.node import Node
from rich.console import Console
from rich.table import Table
from std_msgs.msg import Header

from keygrasp.errors import RobotError
from keygrasp.files import write_json
from keygrasp.grasps import GraspGenerator
from keygrasp.perception import perceive
from keygrasp.protocol import build_scene
from keygrasp.provenance import provenance
from keygrasp.refine.network import default_weights
from keygrasp.refine.refiner import Refiner
from keygrasp.scene import GripperSpec, OverheadView
from keygrasp.trials import TrialsConfig
from keygrasp.trials.worker import limit_threads

_MODES = ("one process", "a process a node")
_STAGES = ("perceive", "generate", "refine", "image to grasp")
_COLUMNS = ("p50", "p99", "best")
_PLANNER = "refined"
_CAMERA = "camera_depth_optical_frame"
_T = TypeVar("_T")


def timed(laps: dict[str, float], stage: str, work: Callable[[], _T]) -> _T:
    """Do one stage's work and keep its milliseconds."""
    start = time.perf_counter()
    result = work()
    laps[stage] = (time.perf_counter() - start) * 1e3
    return result


@contextlib.contextmanager
def graph(mode: str) -> Iterator[tuple[PickSteps, Node]]:
    """The graph with the simulator, and the steps of a pick for a node of our own."""
    specs, params = nodes_for(_PLANNER), default_params()
    with contextlib.ExitStack() as stack:
        inside = [functools.partial(spec.create, _PLANNER) for spec in specs]
        if mode != _MODES[0]:
            inside = []
            log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "nodes.log"
            stack.enter_context(NodeProcesses(specs, ros_arguments(specs, _PLANNER, params), log=log))
        arguments = ["--ros-args", "--params-file", str(params), "--log-level", "warn"]
        *_, caller = stack.enter_context(spinning([*inside, functools.partial(Node, "latency")], arguments))
        steps = steps_of(caller, _PLANNER)
        wait_until(lambda: not steps.missing(), "the graph is not complete", 120.0, never)
        steps.look(never)  # the camera's frame is known as soon as its image is
        yield steps, caller


def never() -> bool:
    """Nobody cancels."""
    return False


def plan_through(steps: PickSteps, node: Node, view: OverheadView) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds by stage of one image through the graph, and how many of them the library took."""
    laps: dict[str, float] = {}
    start = time.perf_counter()
    header = Header(stamp=node.get_clock().now().to_msg(), frame_id=_CAMERA)
    pair = depth_message(view.depth, header), camera_info_message(view.intrinsics, header)
    scene = timed(laps, "perceive", lambda: steps.extract(pair, never))
    plan = timed(laps, "generate", lambda: steps.generate(scene, Target(), never))
    refined, warning = timed(laps, "refine", lambda: steps.refine(scene, plan, never))
    laps["image to grasp"] = (time.perf_counter() - start) * 1e3
    if warning:
        raise RobotError(warning)
    inside = {timing.stage: timing.milliseconds for timing in refined.timings}
    inside["perceive"] = sum(timing.milliseconds for timing in scene.timings)
    inside["image to grasp"] = inside["perceive"] + inside["generate"] + inside["refine"]
    return laps, inside


def plan_alone(view: OverheadView, refiner: Refiner, seed: int) -> dict[str, float]:
    """Milliseconds by stage of one image with the library alone."""
    laps: dict[str, float] = {}
    gripper, start = GripperSpec(), time.perf_counter()
    # The view is made anew: checking an image belongs to the library's own work.
    perceived = timed(laps, "perceive", lambda: perceive(replace(view)))
    plan = timed(laps, "generate", lambda: GraspGenerator().generate(perceived, 0, gripper))
    rng = np.random.default_rng(seed)
    timed(laps, "refine", lambda: refiner.refine(perceived, 0, plan.candidates, gripper, rng=rng))
    laps["image to grasp"] = (time.perf_counter() - start) * 1e3
    return laps


def views(images: int, seed: int) -> list[OverheadView]:
    """Images of validation scenes that show exactly one object."""
    found = []
    for spec in TrialsConfig(objects=images * 2, split="validation", seed=seed).scenes():
        with build_scene(spec) as scene:
            view = scene.view
        if len(perceive(view).segments) == 1:
            found.append(view)
        if len(found) == images:
            break
    return found


def measure(mode: str, shown: list[OverheadView], repeats: int, seed: int) -> dict[str, Any]:
    """Figures of one way to run the graph, beside the library's."""
    refiner = Refiner.load(default_weights())
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with graph(mode) as (steps, node):
        for _ in range(2):  # the first images also pay for imports and caches
            plan_through(steps, node, shown[0]), plan_alone(shown[0], refiner, seed)
        gc.freeze()  # as the nodes do
        for _ in range(repeats):
            for view in shown:
                through, inside = plan_through(steps, node, view)
                alone = plan_alone(view, refiner, seed)
                for stage in _STAGES:
                    samples["library"][stage].append(alone[stage])
                    samples["graph"][stage].append(through[stage])
                    samples["around"][stage].append(through[stage] - inside[stage])
    return _summary(samples, repeats)


def _summary(samples: dict[str, dict[str, list[float]]], repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Quantiles over all samples, and the median over images of the best repeat; by whose they are and stage."""
    figures: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)
    for stage in _STAGES:
        times = {who: np.reshape(by_stage[stage], (repeats, -1)) for who, by_stage in samples.items()}
        best = {who: values.min(axis=0) for who, values in times.items()}
        times["added"], best["added"] = times["graph"] - times["library"], best["graph"] - best["library"]
        for who, values in times.items():
            p50, p99 = np.quantile(values, [0.5, 0.99]).tolist()
            figures[who][stage] = {"p50": p50, "p99": p99, "best": float(np.median(best[who]))}
    return figures


def show(figures: dict[str, Any]) -> None:
    """Print a table a mode."""
    console = Console()
    for mode, milliseconds in figures["milliseconds"].items():
        table = Table(title=f"Milliseconds, {mode}, {figures['images']} images × {figures['repeats']}")
        table.add_column("stage")
        for column in ("", *_COLUMNS):
            table.add_column(column, justify="right" if column else "left")
        for stage in _STAGES:
            for number, who in enumerate(milliseconds):
                row = milliseconds[who][stage]
                table.add_row("" if number else stage, who, *(f"{row[column]:.1f}" for column in _COLUMNS))
            table.add_section()
        console.print(table)
        totals = {who: milliseconds[who][_STAGES[-1]] for who in ("library", "graph", "around")}
        ratios = ", ".join(f"{who} {row['p99'] / row['p50']:.1f}" for who, row in totals.items())
        console.print(f"p99 / p50 of image to grasp: {ratios}", highlight=False)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20, help="validation scenes")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each image")
    parser.add_argument("--mode", choices=_MODES, action="append", help="how the nodes run; both where it is left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    limit_threads()
    os.environ.update(isolated_environment())
    load, shown = os.getloadavg()[0], views(arguments.images, arguments.seed)
    milliseconds = {mode: measure(mode, shown, arguments.repeats, arguments.seed) for mode in arguments.mode or _MODES}
    figures = {
        "images": len(shown),
        "repeats": arguments.repeats,
        "load": {"before": load, "after": os.getloadavg()[0], "cores": os.cpu_count()},
        "milliseconds": milliseconds,
    }
    show(figures)
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance(arguments.seed)})


if __name__ == "__main__":
    main()
