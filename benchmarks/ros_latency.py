"""Image → refined grasp through the ROS 2 graph, by stage, against the library alone, in turns in one run.

Each image goes through the three services over DDS (one process a node), and through the same steps of the library in
this process; what the graph adds is the difference of the two for the same image. Nothing runs at the same time in it,
so that the processor time of all processes together is what the way would take on a machine with nothing else to do,
but for the wake-ups; it is given too, because wall-clock times say little on a busy machine. For the same reason "best"
compares the best repeat of each image: other work can only make a repeat slower.

    . scripts/env.sh
    python benchmarks/ros_latency.py --images 20 --json benchmarks/results/ros-latency.json
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from keygrasp_interfaces.msg import Target
from keygrasp_ros.client import PickClient
from keygrasp_ros.conversions import camera_info_message, depth_message
from keygrasp_ros.graph import default_params, nodes_for
from keygrasp_ros.isolation import isolated_environment
from keygrasp_ros.processes import NodeProcesses
from keygrasp_ros.topics import EXTRACT, GENERATE, REFINE, Endpoint
from keygrasp_ros.up import ros_arguments
from keygrasp_ros.waiting import wait_for, wait_until
from rich.console import Console
from rich.table import Table
from std_msgs.msg import Header

from keygrasp.errors import RobotError
from keygrasp.files import write_json
from keygrasp.grasps import GraspGenerator
from keygrasp.perception import perceive
from keygrasp.protocol import build_scene
from keygrasp.provenance import provenance
from keygrasp.refine.refiner import Refiner, default_weights
from keygrasp.scene import GripperSpec, OverheadView
from keygrasp.trials import TrialsConfig
from keygrasp.trials.worker import limit_threads

_CPU = "its processor time"
_STAGES = ("perceive", "generate", "refine", "image to grasp", _CPU)
_COLUMNS = ("p50", "p99", "best")
_CAMERA = "camera_depth_optical_frame"
_T = TypeVar("_T")


def timed(laps: dict[str, float], stage: str, work: Callable[[], _T]) -> _T:
    """Do one stage's work and keep its milliseconds."""
    start = time.perf_counter()
    result = work()
    laps[stage] = (time.perf_counter() - start) * 1e3
    return result


def processor_ms(pids: list[int]) -> float:
    """Processor time so far of all threads of some processes."""
    stats = (file for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(file.read_text().split()[0]) for file in stats) / 1e6


class Services:
    """The three services of the graph."""

    def __init__(self, client: PickClient) -> None:
        self._node = client.node
        self._clients = {end.name: self._node.create_client(end.type, end.name) for end in (EXTRACT, GENERATE, REFINE)}
        for name, service in self._clients.items():
            wait_until(service.service_is_ready, f"no {name}", 60.0, lambda: False)

    def call(self, endpoint: Endpoint, **request: Any) -> Any:
        """The answer of a service; an answer that says no is an error."""
        future = self._clients[endpoint.name].call_async(endpoint.type.Request(**request))
        answer = wait_for(future, f"no answer from {endpoint.name}", 30.0, lambda: False)
        if not answer.ok:
            raise RobotError(f"{endpoint.name}: {answer.message}")
        return answer

    def plan(self, view: OverheadView) -> dict[str, float]:
        """Milliseconds by stage of one image; conversion of the image included."""
        laps: dict[str, float] = {}
        start = time.perf_counter()
        header = Header(stamp=self._node.get_clock().now().to_msg(), frame_id=_CAMERA)
        depth, info = depth_message(view.depth, header), camera_info_message(view.intrinsics, header)
        scene = timed(laps, "perceive", lambda: self.call(EXTRACT, depth=depth, camera_info=info).scene)
        plan = timed(laps, "generate", lambda: self.call(GENERATE, scene=scene, target=Target()).plan)
        timed(laps, "refine", lambda: self.call(REFINE, scene=scene, plan=plan))
        laps["image to grasp"] = (time.perf_counter() - start) * 1e3
        return laps


def plan_alone(view: OverheadView, refiner: Refiner, seed: int) -> dict[str, float]:
    """Milliseconds by stage of one image with the library alone."""
    laps: dict[str, float] = {}
    gripper, start = GripperSpec(), time.perf_counter()
    perceived = timed(laps, "perceive", lambda: perceive(view))
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


def measure(images: int, repeats: int, seed: int) -> dict[str, Any]:
    refiner, shown = Refiner.load(default_weights()), views(images, seed)
    samples: dict[str, dict[str, list[float]]] = {who: defaultdict(list) for who in ("library", "graph")}
    before_load = os.getloadavg()[0]
    specs = nodes_for("refined")
    os.environ.update(isolated_environment())
    arguments = ros_arguments(specs, "refined", default_params())
    with (
        tempfile.TemporaryDirectory() as folder,
        NodeProcesses(specs, arguments, log=Path(folder) / "nodes.log") as processes,
        PickClient("latency") as client,
    ):
        client.wait_ready(120.0)
        services = Services(client)
        pids = [os.getpid(), *(child.pid for child in processes.children.values())]
        for _ in range(2):  # the first images also pay for imports and caches
            services.plan(shown[0]), plan_alone(shown[0], refiner, seed)
        for _ in range(repeats):
            for view in shown:
                before = processor_ms(pids)
                graph = services.plan(view)
                between, own = processor_ms(pids), processor_ms([os.getpid()])
                library = plan_alone(view, refiner, 0)
                graph[_CPU], library[_CPU] = between - before, processor_ms([os.getpid()]) - own
                for stage in _STAGES:
                    samples["graph"][stage].append(graph[stage])
                    samples["library"][stage].append(library[stage])
    return {
        "images": len(shown),
        "repeats": repeats,
        "load": {"before": before_load, "after": os.getloadavg()[0], "cores": os.cpu_count()},
        "milliseconds": _summary(samples, repeats),
    }


def _summary(samples: dict[str, dict[str, list[float]]], repeats: int) -> dict[str, dict[str, dict[str, float]]]:
    """Quantiles over all samples, and the median over images of the best repeat; by whose they are and stage."""
    times = {
        who: {stage: np.reshape(values, (repeats, -1)) for stage, values in by_stage.items()}
        for who, by_stage in samples.items()
    }
    figures: dict[str, dict[str, dict[str, float]]] = {who: {} for who in (*times, "added")}
    for stage in _STAGES:
        library, graph = times["library"][stage], times["graph"][stage]
        rows = {
            "library": (library, library.min(axis=0)),
            "graph": (graph, graph.min(axis=0)),
            "added": (graph - library, graph.min(axis=0) - library.min(axis=0)),
        }
        for who, (every, best) in rows.items():
            p50, p99 = np.quantile(every, [0.5, 0.99]).tolist()
            figures[who][stage] = {"p50": p50, "p99": p99, "best": float(np.median(best))}
    return figures


def show(figures: dict[str, Any]) -> None:
    table = Table(title=f"Milliseconds, {figures['images']} images × {figures['repeats']}")
    table.add_column("stage")
    for who in ("library", "graph", "added"):
        for quantile in _COLUMNS:
            table.add_column(f"{who} {quantile}", justify="right")
    for stage in _STAGES:
        cells = [figures["milliseconds"][who][stage][q] for who in ("library", "graph", "added") for q in _COLUMNS]
        table.add_row(stage, *(f"{value:.1f}" for value in cells))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20, help="validation scenes")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each image")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    limit_threads()
    figures = measure(arguments.images, arguments.repeats, arguments.seed)
    show(figures)
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance(arguments.seed)})


if __name__ == "__main__":
    main()
