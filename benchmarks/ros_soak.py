"""Depth images at 30 Hz from another process over DDS, understood live: latency and memory over time.

A camera process publishes 640×480 images of a real scene; the keypoint extractor understands each of them in a process
of its own; this process hears the results. Latency is from an image's stamp to its result; memory is the extractor's.

    . scripts/env.sh
    python benchmarks/ros_soak.py --minutes 10 --json benchmarks/results/ros-soak.json
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keygrasp_ros.client import PickClient
from keygrasp_ros.conversions import camera_info_message, depth_message, seconds_of
from keygrasp_ros.graph import NODES
from keygrasp_ros.isolation import isolated_environment
from keygrasp_ros.processes import NodeProcesses
from keygrasp_ros.robot_state import transform
from keygrasp_ros.topics import DEPTH, DEPTH_INFO, SCENE, TF_STATIC
from rclpy.callback_groups import ReentrantCallbackGroup
from rich.console import Console
from rich.table import Table
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from keygrasp.files import write_json
from keygrasp.geometry.cameras import Intrinsics
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.scenes import SceneSpec, build_scene
from keygrasp.provenance import provenance

_CAMERA = "soak_camera"
_EXTRACTOR = next(spec for spec in NODES if spec.name == "keypoint_extractor")
#: KG-1's field of view on a common depth camera's grid.
_INTRINSICS = Intrinsics(640, 480, 960.0, 960.0, 319.5, 239.5)
#: Columns of the summary; more is in the JSON.
_BINS = 10


def publish(rate: float) -> None:
    """The camera's process: publish until the parent dies or ends it."""
    from keygrasp.geometry.cameras import overhead_pose

    pose = overhead_pose(PROTOCOL.camera_height)
    with build_scene(SceneSpec("013", "E", 1)) as scene:
        view = scene.world.render_depth(_INTRINSICS, pose)
    with PickClient("soak_camera") as client:
        node, parent = client.node, os.getppid()
        publishers = [node.create_publisher(topic.type, topic.name, topic.qos) for topic in (DEPTH, DEPTH_INFO)]
        static = node.create_publisher(TF_STATIC.type, TF_STATIC.name, TF_STATIC.qos)
        now = node.get_clock().now().to_msg()
        static.publish(TFMessage(transforms=[transform(_CAMERA, "workspace", pose, now)]))
        due = time.monotonic()
        while os.getppid() == parent:
            header = Header(stamp=node.get_clock().now().to_msg(), frame_id=_CAMERA)
            for publisher, message in zip(
                publishers, (depth_message(view, header), camera_info_message(_INTRINSICS, header)), strict=True
            ):
                publisher.publish(message)
            due = max(due + 1.0 / rate, time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))


class Listener:
    """Seconds since the start and latency in milliseconds of each result."""

    def __init__(self, client: PickClient) -> None:
        self._node, self._lock = client.node, threading.Lock()
        self._samples: list[tuple[float, float]] = []
        self.began = time.monotonic()
        client.node.create_subscription(
            SCENE.type, SCENE.name, self._take, SCENE.qos, callback_group=ReentrantCallbackGroup()
        )

    @property
    def samples(self) -> np.ndarray:
        """(n, 2) so far."""
        with self._lock:
            return np.array(self._samples).reshape(-1, 2)

    def _take(self, scene: Any) -> None:
        now = self._node.get_clock().now().nanoseconds * 1e-9
        with self._lock:
            self._samples.append((time.monotonic() - self.began, (now - seconds_of(scene.header.stamp)) * 1e3))


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def soak(seconds: float, rate: float) -> dict[str, Any]:
    """Run for a while after a warm-up of a tenth, at most 10 s."""
    os.environ.update(isolated_environment())
    camera = subprocess.Popen([sys.executable, __file__, "--camera", "--rate", str(rate)])  # noqa: S603 - this file
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            NodeProcesses([_EXTRACTOR], {_EXTRACTOR.name: []}, log=Path(folder) / "log") as nodes,
            PickClient("soak") as client,
        ):
            listener, pid = Listener(client), nodes.children[_EXTRACTOR.name].pid
            _await_first(listener)
            time.sleep(min(10.0, seconds / 10))
            start, memory = time.monotonic() - listener.began, []
            while (elapsed := time.monotonic() - listener.began - start) < seconds:
                memory.append((elapsed, memory_mb(pid)))
                time.sleep(min(1.0, seconds / 20))
            samples = listener.samples
    finally:
        camera.terminate()
        camera.wait()
    return _summary(samples[samples[:, 0] >= start] - [start, 0.0], np.array(memory), seconds, rate)


def _await_first(listener: Listener) -> None:
    deadline = time.monotonic() + 60.0
    while len(listener.samples) == 0:
        if time.monotonic() > deadline:
            raise SystemExit("no result within 60 s: is the workspace built?")
        time.sleep(0.1)


def _summary(samples: np.ndarray, memory: np.ndarray, seconds: float, rate: float) -> dict[str, Any]:
    edges = np.linspace(0.0, seconds, _BINS + 1)
    bins = []
    for low, high in itertools.pairwise(edges):
        latency = samples[(samples[:, 0] >= low) & (samples[:, 0] < high), 1]
        resident = memory[(memory[:, 0] >= low) & (memory[:, 0] < high), 1]
        p50, p99 = np.quantile(latency, [0.5, 0.99]).tolist() if len(latency) else (None, None)
        bins.append(
            {
                "from_s": float(low),
                "results": len(latency),
                "p50_ms": p50,
                "p99_ms": p99,
                "memory_mb": float(resident.max()) if len(resident) else None,
            }
        )
    slope = np.polyfit(memory[:, 0], memory[:, 1], 1)[0] * 60.0
    return {
        "seconds": seconds,
        "rate_hz": rate,
        "size": [_INTRINSICS.width, _INTRINSICS.height],
        "results_hz": len(samples) / seconds,
        "p50_ms": float(np.quantile(samples[:, 1], 0.5)),
        "p99_ms": float(np.quantile(samples[:, 1], 0.99)),
        "memory_mb_a_minute": float(slope),
        "bins": bins,
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures over time."""
    table = Table(title=f"{figures['size'][0]}×{figures['size'][1]} depth at {figures['rate_hz']:g} Hz")
    for column in ("from s", "results", "p50 ms", "p99 ms", "memory MB"):
        table.add_column(column, justify="right")
    for row in figures["bins"]:
        table.add_row(*("–" if value is None else f"{value:.1f}" for value in row.values()))
    Console().print(table)
    Console().print(
        f"{figures['results_hz']:.1f} results a second; latency p50 {figures['p50_ms']:.1f} ms, "
        f"p99 {figures['p99_ms']:.1f} ms; memory grows by {figures['memory_mb_a_minute']:.2f} MB a minute"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=30.0, help="images a second")
    parser.add_argument("--camera", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if arguments.camera:
        publish(arguments.rate)
        return
    figures = soak(arguments.minutes * 60.0, arguments.rate)
    show(figures)
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance()})


if __name__ == "__main__":
    main()
