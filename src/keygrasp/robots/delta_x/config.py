"""How a Delta X is set up: everything that differs from one robot to the next, from one YAML file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from keygrasp.configuration import load_config
from keygrasp.errors import ConfigurationError
from keygrasp.robots.delta_x.dialects import Effector, close_gripper, open_gripper, select_effector, switch_vacuum
from keygrasp.robots.delta_x.model import Dialect
from keygrasp.scene import GripperSpec

#: Metres of the longest part of a tool: a larger number was meant in another unit.
_LONGEST_PART = 1.0
_PARTS = ("length", "pad_width", "pad_thickness", "pad_height")
#: Degrees of the largest turn that a tool's figures may name.
_LARGEST_TURN = 720.0


@dataclass(frozen=True)
class ToolConfig:
    """What is on the platform.

    Attributes:
        kind: A two-finger gripper, or a vacuum cup.
        table: Calibration of the gripper: pairs of an opening in metres and the ``S`` per cent that gives it, openings
            rising and per cents falling. It is also the gripper's range.
        output: Number of the output on XS and X3.
        settle: Seconds from the acknowledgement until the tool has closed or let go.
        on_stop: What an emergency stop, a crash or closing the connection does with what is held.
        length: Metres from the platform down to the fingertips.
        turn_zero: Degrees of ``W`` at which the closing axis points along the robot's x.
        turn_sign: 1 if ``W`` rises counter-clockwise seen from above, else -1.
        turn_limits: Lowest and highest ``W`` in degrees; equal for a tool that can't turn.
        pad_width: Metres across of a finger pad.
        pad_thickness: Metres along the closing axis of a finger pad.
        pad_height: Metres from the tips to the palm.
        force: Newtons with which it closes.
    """

    kind: Literal["gripper", "vacuum"] = "gripper"
    table: tuple[tuple[float, float], ...] = ((0.002, 100.0), (0.040, 0.0))
    output: int = 0
    settle: float = 0.2
    on_stop: Literal["open", "keep"] = "open"
    length: float = 0.060
    turn_zero: float = 85.0
    turn_sign: Literal[1, -1] = 1
    turn_limits: tuple[float, float] = (0.0, 180.0)
    pad_width: float = 0.012
    pad_thickness: float = 0.006
    pad_height: float = 0.030
    force: float = 10.0

    def __post_init__(self) -> None:
        openings, shares = np.array(self.table, dtype=float).reshape(-1, 2).T
        if len(openings) < 2 or not (np.diff(openings) > 0).all() or not (np.diff(shares) < 0).all():
            raise ConfigurationError(
                f"tool: the table {self.table} does not rise in opening and fall in per cent",
                "Give at least two pairs [opening in metres, per cent]",
            )
        if openings[0] < 0 or shares[0] > 100 or shares[-1] < 0:
            raise ConfigurationError("tool: the table leaves openings ≥ 0 m or 0–100 per cent")
        if not (math.isfinite(self.settle) and self.settle >= 0):
            raise ConfigurationError(f"tool: settle must be seconds and not negative, not {self.settle}")
        for name, metres in (*((name, getattr(self, name)) for name in _PARTS), ("table", float(openings[-1]))):
            if not 0 <= metres <= _LONGEST_PART:
                raise ConfigurationError(
                    f"tool: {name} of {metres:g} is not within 0–{_LONGEST_PART:g} m", "Give metres: 60 mm are 0.060"
                )
        for name, degrees in (("turn_zero", self.turn_zero), *(("turn_limits", turn) for turn in self.turn_limits)):
            if not abs(degrees) <= _LARGEST_TURN:
                raise ConfigurationError(f"tool: {name} of {degrees:g} is not within ±{_LARGEST_TURN:g}°")
        if not self.turn_limits[0] <= self.turn_limits[1]:
            raise ConfigurationError(f"tool: turn_limits {self.turn_limits} are the wrong way round")

    @property
    def openings(self) -> tuple[float | None, float | None]:
        """Metres between the pads closed and open; ``None`` where there are none."""
        return (self.table[0][0], self.table[-1][0]) if self.kind == "gripper" else (None, None)

    @property
    def gripper(self) -> GripperSpec:
        """The tool as planners know it."""
        return GripperSpec(
            max_opening=self.table[-1][0],
            min_opening=max(self.table[0][0], 1e-3),
            pad_width=self.pad_width,
            pad_thickness=self.pad_thickness,
            pad_height=self.pad_height,
            palm_along=self.table[-1][0] + 2 * self.pad_thickness,
            palm_across=max(self.pad_width, 0.02),
            force=self.force,
        )

    def share(self, opening: float) -> float:
        """Share in [0, 1] by which the gripper closes for an opening in metres.

        Raises:
            ConfigurationError: If the opening is outside the table.
        """
        openings, percent = np.array(self.table, dtype=float).T
        if not openings[0] - 1e-9 <= opening <= openings[-1] + 1e-9:
            raise ConfigurationError(
                f"an opening of {opening * 1e3:.1f} mm is outside the gripper's calibration table "
                f"({openings[0] * 1e3:.1f}–{openings[-1] * 1e3:.1f} mm)"
            )
        return float(np.interp(opening, openings, percent)) / 100

    def select(self, dialect: Dialect) -> tuple[str, ...]:
        """Commands that make the firmware drive this tool."""
        return select_effector(dialect, Effector.GRIPPER if self.kind == "gripper" else Effector.VACUUM)

    def set_opening(self, dialect: Dialect, opening: float) -> str:
        """The command for an opening."""
        share = self.share(opening)
        return open_gripper(dialect, self.output) if share == 0 else close_gripper(dialect, share, self.output)

    def hold(self, dialect: Dialect) -> str:
        """The command that grasps: close as far as the table goes, or switch the vacuum on."""
        if self.kind == "vacuum":
            return switch_vacuum(dialect, on=True, output=self.output)
        return self.set_opening(dialect, self.table[0][0])

    def release(self, dialect: Dialect) -> str:
        """The command that lets go."""
        if self.kind == "vacuum":
            return switch_vacuum(dialect, on=False, output=self.output)
        return open_gripper(dialect, self.output)

    def yaw(self, turn: float) -> float:
        """Yaw in radians of the closing axis in the robot's frame for ``W`` in radians."""
        return self.turn_sign * (turn - math.radians(self.turn_zero))

    def turn(self, yaw: float) -> float | None:
        """``W`` in radians for the closing axis at ``yaw`` radians in the robot's frame, or ``None`` out of its range.

        Both fingers are alike, so half turns are equivalent.
        """
        low, high = self.turn_limits
        wanted = self.turn_zero + self.turn_sign * math.degrees(yaw)
        wanted += 180.0 * math.ceil((low - 0.5 - wanted) / 180.0)
        return math.radians(min(max(wanted, low), high)) if wanted <= high + 0.5 else None


@dataclass(frozen=True)
class MotionConfig:
    """How it moves, in metres and seconds.

    Attributes:
        speed: While travelling.
        descend_speed: Onto the object, and while placing.
        lift_speed: With the object.
        acceleration: Of all moves.
        clearance: Height above a grasp from which the tool comes straight down; nothing may stand higher there.
        travel_height: Lowest height of the fingertips above the table while travelling.
        lift_height: How far an object is lifted.
        shake: Whether to shake after lifting, a centimetre to each side.
        hold_time: Seconds of rest before the verdict.
        stop_latency: A robot without a software stop can't be stopped within a move, so moves are sent in pieces that
            take no longer than this.
    """

    speed: float = 0.3
    descend_speed: float = 0.1
    lift_speed: float = 0.15
    acceleration: float = 2.0
    clearance: float = 0.04
    travel_height: float = 0.06
    lift_height: float = 0.06
    shake: bool = False
    hold_time: float = 0.2
    stop_latency: float = 0.5

    def __post_init__(self) -> None:
        for name in ("speed", "descend_speed", "lift_speed", "acceleration", "stop_latency", "lift_height"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigurationError(f"motion: {name} must be positive, not {value}")
        for name in ("clearance", "travel_height", "hold_time"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigurationError(f"motion: {name} must not be negative, but is {value}")


@dataclass(frozen=True)
class DeltaConfig:
    """One robot.

    Attributes:
        port: Path of the serial port.
        serial_number: Serial number of its USB adapter, in quotes; where given, the port is looked up by it.
        model: ``X1``, ``V2``, or a YAML file with the keys of :class:`~keygrasp.robots.delta_x.model.ModelFile`.
        tool: What it carries.
        motion: How it moves.
        calibration: File of where the table is, as ``keygrasp delta calibrate`` writes it.
        assume_held: Count an execution as a success without any check that something is held.
        boot_seconds: Seconds in which the robot boots after the port was opened.
        handshake_seconds: Seconds in which it must answer that it is there.
        margin_seconds: Seconds beyond a command's own duration after which its acknowledgement is missing.
        margin_factor: The same as a factor of the duration.
        position_tolerance: Metres between where the robot says it is and where it was sent. It answers in 0.01 mm.
        reconnect_seconds: How long to wait for a vanished port.
        guardian: Keep a process that applies ``tool.on_stop`` when this one is killed.
    """

    port: str = "/dev/ttyUSB0"
    serial_number: str | None = None
    model: str = "X1"
    tool: ToolConfig = field(default_factory=ToolConfig)
    motion: MotionConfig = field(default_factory=MotionConfig)
    calibration: Path | None = None
    assume_held: bool = False
    boot_seconds: float = 2.5
    handshake_seconds: float = 3.0
    margin_seconds: float = 3.0
    margin_factor: float = 1.5
    position_tolerance: float = 3e-4
    reconnect_seconds: float = 30.0
    guardian: bool = True

    def timeout(self, seconds: float) -> float:
        """When the acknowledgement of something that takes ``seconds`` is missing."""
        return seconds * self.margin_factor + self.margin_seconds

    def __post_init__(self) -> None:
        for name in ("handshake_seconds", "margin_seconds", "position_tolerance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigurationError(f"delta: {name} must be positive, not {value}")
        if self.margin_factor < 1:
            raise ConfigurationError(f"delta: margin_factor must be at least 1, not {self.margin_factor}")


def load_delta_config(path: Path) -> DeltaConfig:
    """Read a robot's YAML file.

    Raises:
        ConfigurationError: If it can't be read, or a key or value is wrong. A serial number without quotes that YAML
            takes for a number (``12345``, ``1.23E+5``) is refused rather than changed.
    """
    return load_config(path, DeltaConfig)
