"""Command lines of the firmware's dialects. Metres, radians and seconds come in; millimetres and degrees go out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

from keygrasp.errors import InputError
from keygrasp.robots.delta_x.model import Dialect

#: Characters after which the firmware discards what it has of a line.
MOST_LINE = 70
#: Makes the firmware discard the beginning of a line that a dead client may have left; the line end comes later.
FILLER = b"~" * (MOST_LINE + 1)


class Effector(IntEnum):
    """End effectors of X1 and X2, as ``M360`` selects them."""

    VACUUM = 0
    GRIPPER = 1
    PEN = 2
    LASER = 3
    PRINTER = 4
    CUSTOM = 5


def number(value: float, digits: int = 3) -> str:
    """A number as the firmware reads it: no exponent, no needless zeros, never ``-0``.

    Raises:
        InputError: If it is not finite.
    """
    if not math.isfinite(value):
        raise InputError(f"{value} can't be sent to a robot", "Give a finite number")
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    return "0" if text == "-0" else text


def line(text: str) -> bytes:
    """A command as bytes.

    Raises:
        InputError: If it is longer than the firmware takes, or holds anything but printable ASCII.
    """
    if not (text.isascii() and text.isprintable()):
        raise InputError(f"the command {text!r} holds more than printable ASCII", "Send one plain line at a time")
    if len(text) > MOST_LINE:
        raise InputError(f"the command '{text}' has {len(text)} characters of at most {MOST_LINE}", "Send shorter ones")
    return text.encode("ascii") + b"\n"


def move(point: Sequence[float], speed: float, turn: float | None = None) -> str:
    """A straight move of the platform to (x, y, z); all axes are always sent (after ``G91`` omitted ones go astray)."""
    x, y, z = (number(value * 1e3) for value in point)
    words = [f"G1 X{x} Y{y} Z{z}"]
    if turn is not None:
        words.append(f"W{number(math.degrees(turn), 2)}")
    words.append(f"F{number(speed * 1e3, 1)}")
    return " ".join(words)


def dwell(seconds: float) -> str:
    """Do nothing for a while."""
    return f"G4 P{number(seconds * 1e3, 0)}"


def speed_limits(dialect: Dialect, speed: float, acceleration: float) -> tuple[str, ...]:
    """Commands that limit speed and acceleration; on XS and X3 ``M203`` would set the jerk, so only the latter."""
    commands = [f"M204 A{number(acceleration * 1e3, 0)}"]
    if dialect is not Dialect.XS:
        commands.insert(0, f"M203 S{number(speed * 1e3, 0)}")
    return tuple(commands)


def select_effector(dialect: Dialect, effector: Effector) -> tuple[str, ...]:
    """Commands that choose an end effector; XS and X3 have numbered outputs instead."""
    return () if dialect is Dialect.XS else (f"M360 E{int(effector)}",)


def close_gripper(dialect: Dialect, share: float, output: int) -> str:
    """Close a gripper by a share in [0, 1] of its travel."""
    if dialect is Dialect.XS:
        return f"M03 P{output} W{number(255 * share, 0)}"
    return f"M03 S{number(100 * share, 0)}"


def open_gripper(dialect: Dialect, output: int) -> str:
    """Open a gripper fully."""
    return f"M05 P{output}" if dialect is Dialect.XS else "M05"


def switch_vacuum(dialect: Dialect, on: bool, output: int) -> str:
    """Switch a vacuum pump."""
    return ("M03" if on else "M05") + (f" D{output}" if dialect is Dialect.XS else "")
