"""``keygrasp delta``: an emulated Delta X on a serial port; calibrating a real one, and comparing it with its twin."""

from __future__ import annotations

import math
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from keygrasp.cli import console
from keygrasp.configuration import load_config
from keygrasp.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from keygrasp.robots.delta_x.config import DeltaConfig

    Points = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Emulate:
    """Be a Delta X: open a pseudo-terminal that answers as the robot's firmware does, until Ctrl-C.

    Any program that drives the robot can open the port that is printed. Faults are named KIND@N: noise, lost-ack,
    reset, unplug and stall at the N-th command, end-stop at the N-th homing.
    """

    model: str = "X1"
    """X1, V2, or a YAML file with a model of yours."""
    link: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    """Make this symbolic link to the port; it stays the same when the port is unplugged and comes back."""
    scale: float = 1.0
    """How many times faster than the real robot, 1 to 100."""
    fault: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[KIND@N ...]", help_behavior_hint="")] = ()
    """Faults to inject."""
    boot_seconds: float = 0.0
    """Seconds from the start to the boot text."""
    unplug_seconds: float = 2.0
    """Seconds for which an unplugged port is gone."""
    log: console.OptionalPath = None
    """Write each event as a line of JSON."""
    seed: int = 0
    """Seed of the noise."""


@dataclass(frozen=True)
class Calibrate:
    """Find where the table or the camera is, from points known in its frame and touched with the fingertips.

    Where a point of the file has no position in the robot's frame yet, the robot is connected and you move its tip
    there with typed steps. Refused if the points don't fit.
    """

    points: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="POINTS")]
    """YAML file: frame, and points with 'at' (metres in that frame) and perhaps 'robot' (metres of the tip)."""
    out: Path = Path("delta-calibration.yaml")
    """Where to write the calibration."""
    config: console.OptionalPath = None
    """The robot's YAML file, with which points are touched; checked also where all are measured."""
    limit_mm: float = 3.0
    """Largest residual that is accepted, in millimetres."""


@dataclass(frozen=True)
class Compare:
    """Make the grasps of a real robot again with its twin in simulation, and say where the two differ."""

    tries: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TRIES")]
    """YAML file: block (sides in metres), mass, and tries with grasp, outcome and perhaps block_at."""
    config: console.OptionalPath = None
    """The robot's YAML file; an X1 with its usual tool where left out."""
    json: console.OptionalPath = None
    """Also write both outcomes of each grasp to this file."""


@dataclass(frozen=True)
class KnownPoint:
    """A point of a file: metres in the frame, and of the fingertips in the robot's."""

    at: tuple[float, float, float]
    robot: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class PointsFile:
    """A file of points."""

    frame: Literal["workspace", "camera_optical"]
    points: tuple[KnownPoint, ...]


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Emulate | Calibrate | Compare, argv, command="delta")  # type: ignore[arg-type]
    if isinstance(options, Compare):
        return _compare(options)
    return _emulate(options) if isinstance(options, Emulate) else _calibrate(options)


def _emulate(options: Emulate) -> int:
    from keygrasp.robots.delta_x.emulator import Emulator, parse_fault
    from keygrasp.robots.delta_x.model import load_model

    emulator = Emulator(
        load_model(options.model),
        scale=options.scale,
        link=options.link,
        faults=tuple(parse_fault(text) for text in options.fault),
        boot_seconds=options.boot_seconds,
        unplug_seconds=options.unplug_seconds,
        log=options.log,
        seed=options.seed,
    )

    def stop(_: int, __: FrameType | None) -> None:
        emulator.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    console.output().print(emulator.path, markup=False, soft_wrap=True)
    sys.stdout.flush()
    emulator.serve()
    return 0


def _calibrate(options: Calibrate) -> int:
    import numpy as np

    from keygrasp.robots.delta_x import load_delta_config
    from keygrasp.robots.delta_x.calibration import calibrate, save_calibration

    if not (math.isfinite(options.limit_mm) and options.limit_mm > 0):
        raise InputError(f"--limit-mm {options.limit_mm:g} is no positive length", "Give millimetres, such as 3")
    config = None if options.config is None else load_delta_config(options.config)
    file = load_config(options.points, PointsFile)
    at: Points = np.array([point.at for point in file.points]).reshape(-1, 3)
    if all(point.robot is not None for point in file.points):
        in_robot: Points = np.array([point.robot for point in file.points]).reshape(-1, 3)
    elif config is None:
        raise InputError(f"{options.points} has points without 'robot'", "Name the robot's file with --config")
    else:
        in_robot = _touch(config, at)
    calibration = calibrate(at, in_robot, file.frame, limit=options.limit_mm * 1e-3)
    save_calibration(options.out, calibration)
    out = console.output()
    for index, residual in enumerate(calibration.residuals):
        out.print(f"point {index + 1}     residual {residual * 1e3:.2f} mm")
    out.print(f"rms         {calibration.rms * 1e3:.2f} mm")
    out.print(f"written     {options.out}", markup=False, soft_wrap=True)
    return 0


def _touch(config: DeltaConfig, points: Points) -> Points:
    """Let the user touch the points with the robot's tip."""
    from keygrasp.robots.delta_x import DeltaX, running
    from keygrasp.robots.delta_x.jogging import touch_points

    notes = console.progress_output()
    with running(DeltaX(config)) as driver:
        return touch_points(driver, points, sys.stdin, lambda text: notes.print(text, markup=False, soft_wrap=True))


def _compare(options: Compare) -> int:
    from keygrasp.files import ensure_writable, write_json
    from keygrasp.provenance import provenance
    from keygrasp.robots.delta_x import DeltaConfig, load_delta_config
    from keygrasp.sim.delta_tries import TriesFile, assumed_table, repeat

    tries = load_config(options.tries, TriesFile)
    config = DeltaConfig() if options.config is None else load_delta_config(options.config)
    if options.json is not None:
        ensure_writable(options.json)
    grid = console.table("try", "robot", "twin")
    rows = []
    for number, (one, twin) in enumerate(zip(tries.tries, repeat(tries, config), strict=True), start=1):
        rows.append({"robot": one.outcome, "twin": str(twin.outcome), "message": twin.message})
        grid.add_row(str(number), one.outcome, str(twin.outcome))
    out = console.output()
    out.print(grid)
    for number, row in enumerate(rows, start=1):
        if row["twin"] != "success":
            out.print(f"try {number}: {row['message']}", markup=False, soft_wrap=True)
    if config.calibration is None:
        out.print(
            f"no calibration was given (calibration: FILE in the robot's file): the table was taken to be level, "
            f"{-1e3 * assumed_table(config):.0f} mm below the robot's base and centred under it",
            soft_wrap=True,
        )
    same = sum((row["robot"] == "success") == (row["twin"] == "success") for row in rows)
    out.print(f"same verdict in {same} of {len(rows)}")
    if options.json is not None:
        write_json(options.json, {"same": same, "tries": rows, "provenance": provenance()})
    return 0
