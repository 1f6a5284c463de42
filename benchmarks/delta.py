"""The Delta X driver against the emulator in a process of its own: picks in a row, overhead, emergency stop.

*Picks*: grasp and place at random poses at a time scale of 50; what the driver complains about is counted, and after
each move it compares the robot's position with its own. *Overhead*: wall-clock time of picks at real speed against the
time for which the emulator executed commands meanwhile. *Stop*: time until an emergency stop has been written.

    OMP_NUM_THREADS=1 python benchmarks/delta.py --picks 1000 --json benchmarks/results/delta.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.robots.delta_x import DeltaConfig, DeltaRobot, DeltaX, MotionConfig, table_below
from keygrasp.scene import PlanarGrasp

_TABLE = table_below(-0.44)
_LOGGER = "keygrasp.robots.delta_x"


class Warnings(logging.Handler):
    """Counts what the driver complains about: missing acknowledgements and unexpected answers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count it."""
        self.count += 1


@contextlib.contextmanager
def emulated(scale: float, *options: str) -> Iterator[tuple[str, Path]]:
    """An emulator in a process of its own: its port and its log."""
    with tempfile.TemporaryDirectory() as folder:
        link, log = Path(folder) / "port", Path(folder) / "events.jsonl"
        command = [sys.executable, "-m", "keygrasp.cli.main", "delta", "emulate", "--scale", str(scale)]
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            [*command, "--link", str(link), "--log", str(log), *options], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield str(link), log
        finally:
            process.terminate()
            process.wait()


def events(log: Path) -> list[dict[str, Any]]:
    """What the emulator noted."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def set_up(port: str, **motion: float) -> DeltaConfig:
    return DeltaConfig(port=port, boot_seconds=0.2, motion=MotionConfig(**motion))  # type: ignore[arg-type]


def measure_picks(picks: int, scale: float, seed: int) -> dict[str, Any]:
    """Pick and place at random poses."""
    rng, warnings = np.random.default_rng(seed), Warnings()
    logging.getLogger(_LOGGER).addHandler(warnings)
    with emulated(scale) as (port, log), DeltaX(set_up(port)) as driver:
        robot, failures = DeltaRobot(driver, _TABLE, holding=lambda: True), 0
        began = time.perf_counter()
        for _ in range(picks):
            grasp, place = (
                PlanarGrasp(*rng.uniform(-0.07, 0.07, 2), rng.uniform(0.004, 0.03), rng.uniform(-1.5, 1.5), 0.03)
                for _ in range(2)
            )
            failures += not (robot.execute(grasp).success and robot.place(place).success)
        seconds = time.perf_counter() - began
        driver.move(driver.model.home[None])
        drift = float(np.linalg.norm(driver.position - driver.model.home))
        time.sleep(0.2)
        noted = events(log)
    logging.getLogger(_LOGGER).removeHandler(warnings)
    commands = [event for event in noted if event["event"] == "end" and event["line"]]
    return {
        "picks": picks,
        "scale": scale,
        "failures": failures,
        "commands": len(commands),
        "homings": sum(event["line"] == "G28" for event in commands),
        "warnings": warnings.count,
        "drift_mm": drift * 1e3,
        "seconds": seconds,
        "emulated_seconds": noted[-1]["t"],
    }


def measure_overhead(picks: int, seed: int) -> dict[str, Any]:
    """Wall-clock time of picks at real speed against the emulator's own time of what it executed meanwhile."""
    rng = np.random.default_rng(seed)
    with emulated(1.0) as (port, log), DeltaX(set_up(port)) as driver:
        robot = DeltaRobot(driver, _TABLE, holding=lambda: True)
        time.sleep(0.2)
        before = len(events(log))
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(picks):
            x, y, yaw = rng.uniform(-0.07, 0.07, 3)
            robot.execute(PlanarGrasp(x, y, 0.01, yaw, 0.03))
            robot.place(PlanarGrasp(y, x, 0.01, yaw, 0.03))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        time.sleep(0.2)
        moving = sum(event["seconds"] for event in events(log)[before:] if event["event"] == "begin")
    return {"picks": picks, "wall_s": wall, "emulated_s": moving, "overhead": wall / moving - 1, "driver_cpu_s": cpu}


def measure_stop(times: int, model: Path) -> dict[str, Any]:
    """Until the bytes are written, and whether the robot got each."""
    calls = []
    with emulated(1.0, "--model", str(model)) as (port, log):
        driver = DeltaX(DeltaConfig(port=port, model=str(model), boot_seconds=0.2))
        with driver:
            for _ in range(times):
                began = time.perf_counter()
                driver.emergency_stop()
                calls.append(time.perf_counter() - began)
                driver.reset()
        time.sleep(0.2)
        stops = sum(event["event"] == "stop" for event in events(log))
    return {"times": times, "received": stops >= times, "call_ms_max": max(calls) * 1e3}


def show(figures: dict[str, Any]) -> None:
    table = Table("figure", "value", title="Delta X driver against the emulator")
    for group, values in figures.items():
        for name, value in values.items():
            table.add_row(f"{group} {name}", f"{value:.4g}" if isinstance(value, float) else str(value))
    Console().print(table)


_X2 = """\
{name: X2-like, units: mm, convention: side, base: 259.04, effector: 120.0, upper_arm: 130.0, forearm: 315.0,
 home_angle: -38.5, home_z: -200.31, floor: -402.0, radius: 170.0, max_speed: 850.0, max_acceleration: 30000.0,
 dialect: x2}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picks", type=int, default=1000, help="picks in a row")
    parser.add_argument("--real-picks", type=int, default=5, help="picks at real speed, for the overhead")
    parser.add_argument("--scale", type=float, default=50.0)
    parser.add_argument("--stops", type=int, default=10, help="emergency stops")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "x2.yaml"
        model.write_text(_X2, encoding="utf-8")
        figures = {
            "stop": measure_stop(arguments.stops, model),
            "overhead": measure_overhead(arguments.real_picks, arguments.seed),
            "picks": measure_picks(arguments.picks, arguments.scale, arguments.seed),
        }
    show(figures)
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance(arguments.seed)})


if __name__ == "__main__":
    main()
