"""Emergency stop of the Delta's node: milliseconds from publishing the topic until the robot's port has the bytes.

The robot is emulated in this process, with a firmware that knows a stop command, so that its clock is the publisher's.
*alone*: the node in a process of its own, in mid-motion. *graph*: the whole graph in one process, at random moments of
picks, while images are understood and grasps refined beside it.

    OMP_NUM_THREADS=1 python benchmarks/ros_delta.py --stops 20 --json benchmarks/results/ros-delta.json
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.client import PickClient
from keygrasp_ros.graph import EXECUTABLES
from keygrasp_ros.isolation import isolated_environment
from keygrasp_ros.topics import EMERGENCY_STOP, EXECUTE, RESET_STOP
from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until
from rich.console import Console
from rich.table import Table

from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.robots.delta_x import load_model
from keygrasp.robots.delta_x.emulator import Emulator

_X2 = {
    "name": "X2-like", "units": "mm", "convention": "side", "base": 259.04, "effector": 120.0, "upper_arm": 130.0,
    "forearm": 315.0, "home_angle": -38.5, "home_z": -200.31, "floor": -402.0, "radius": 170.0, "max_speed": 850.0,
    "max_acceleration": 30000.0, "dialect": "x2",
}  # fmt: skip
#: Slow, so that there is a motion to stop.
_MOTION = {"speed": 0.1, "descend_speed": 0.02, "lift_speed": 0.02}
#: Milliseconds that were aimed at.
LIMIT_MS = 50.0
_PATIENCE = 60.0


class Watched(Emulator):
    """An emulated robot that notes when a stop arrived."""

    def _note(self, name: str, figures: dict[str, Any]) -> None:
        if name == "stop":
            self.stopped.append(time.perf_counter())
        super()._note(name, figures)

    @property
    def stopped(self) -> list[float]:
        """Moments of the stops so far."""
        return self.__dict__.setdefault("_stopped", [])


@contextlib.contextmanager
def node(command: list[str], emulator: Emulator, folder: Path) -> Iterator[PickClient]:
    """A process that drives the emulated robot, and a client of it."""
    model, robot = folder / "x2.yaml", folder / "robot.yaml"
    model.write_text(yaml.safe_dump(_X2))
    robot.write_text(
        yaml.safe_dump({"port": emulator.path, "model": str(model), "boot_seconds": 0.2, "motion": _MOTION})
    )
    environment = isolated_environment()
    os.environ.update({name: environment[name] for name in ("ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE")})
    given = ["-p", f"delta_robot:robot_file:={robot}", "-p", "delta_robot:table_height:=-0.44"]
    process = subprocess.Popen([*command, *given], env=environment)  # noqa: S603 - this interpreter
    try:
        with PickClient("stop_benchmark") as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def measure(client: PickClient, emulator: Watched, stops: int, begin: Callable[[], float]) -> list[float]:
    """Milliseconds of each stop; ``begin`` sets something going and says how long to wait for the moment to stop."""
    publisher = client.node.create_publisher(EMERGENCY_STOP.type, EMERGENCY_STOP.name, EMERGENCY_STOP.qos)
    reset = client.node.create_client(RESET_STOP.type, RESET_STOP.name)
    wait_until(publisher.get_subscription_count, "nobody listens", _PATIENCE, lambda: False)
    wait_until(Acquaintance(reset.service_is_ready), "no reset", _PATIENCE, lambda: False)
    found = []
    for _ in range(stops):
        time.sleep(begin())
        count, began = len(emulator.stopped), time.perf_counter()
        publisher.publish(EMERGENCY_STOP.type())
        wait_until(lambda count=count: len(emulator.stopped) > count, "no stop", 10.0, lambda: False)
        found.append(1e3 * (emulator.stopped[count] - began))
        answer = wait_for(reset.call_async(RESET_STOP.type.Request()), "no answer", _PATIENCE, lambda: False)
        assert answer.success, answer.message
    return found


def alone(stops: int, folder: Path) -> list[float]:
    """The node in a process of its own, in mid-motion."""
    with Watched(load_model(str(_model(folder))), scale=2.0) as emulator:
        command = [sys.executable, "-m", EXECUTABLES, "delta_robot", "--ros-args"]
        with node(command, emulator, folder) as client:
            action = SureActionClient(client.node, EXECUTE.type, EXECUTE.name)
            wait_until(Acquaintance(action.server_is_ready), "no robot", _PATIENCE, lambda: False)
            goal = EXECUTE.type.Goal()
            goal.header.frame_id, goal.grasp.z, goal.grasp.width = "workspace", 0.01, 0.03

            def begin() -> float:
                moving = threading.Event()
                sent = action.send_goal_async(goal, feedback_callback=lambda _: moving.set())
                wait_for(sent, "no answer", _PATIENCE, lambda: False)
                assert moving.wait(_PATIENCE)
                return 0.3

            return measure(client, emulator, stops, begin)


def graph(stops: int, folder: Path, seed: int) -> list[float]:
    """The whole graph in one process, at random moments of picks."""
    rng = random.Random(seed)
    with Watched(load_model(str(_model(folder))), scale=2.0) as emulator:
        command = [sys.executable, "-m", "keygrasp_ros.up", "delta", "--with", "scene_camera", "--ros-args"]
        with node(command, emulator, folder) as client:
            client.wait_ready(120.0)

            def begin() -> float:
                client.send()
                return rng.uniform(0.0, 3.0)

            return measure(client, emulator, stops, begin)


def _model(folder: Path) -> Path:
    path = folder / "x2.yaml"
    path.write_text(yaml.safe_dump(_X2))
    return path


def summary(milliseconds: list[float]) -> dict[str, float]:
    return {
        "stops": len(milliseconds),
        "median_ms": float(np.median(milliseconds)),
        "max_ms": max(milliseconds),
        "within_limit": sum(value <= LIMIT_MS for value in milliseconds) / len(milliseconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--only", choices=("alone", "graph"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "graph":
            figures["alone"] = summary(alone(options.stops, Path(folder)))
        if options.only != "alone":
            figures["graph"] = summary(graph(options.stops, Path(folder), options.seed))
    table = Table("where", *next(iter(figures.values())), title="Emergency stop, from topic to wire")
    for name, values in figures.items():
        table.add_row(name, *(f"{value:.3g}" for value in values.values()))
    Console().print(table)
    if options.json:
        write_json(options.json, {**figures, "provenance": provenance(options.seed)})


if __name__ == "__main__":
    main()
