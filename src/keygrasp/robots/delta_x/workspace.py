"""Where a Delta robot can go, and whether a whole path stays there.

The firmware checks only the end of a move, and only against a cylinder of which a tenth is out of reach; it ignores
failures of the inverse kinematics on the way. So the host checks every point before it sends anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x.kinematics import inverse, singularity
from keygrasp.robots.delta_x.model import DeltaModel

#: Metres between the points that are checked on a straight move. At 1 mm an arm of X1 turns less than 1.5° between two.
SPACING = 1e-3
#: Metres and radians by which limits may be passed: rounding of what the robot answers (0.01 mm).
_SLACK = 1e-5
_ANGLE_SLACK = 1e-4
#: Points on one path, beyond which it is a mistake.
_MOST_POINTS = 200_000


class Limit(StrEnum):
    """Why the platform can't be somewhere, in the order in which it is checked."""

    NONE = "within the workspace"
    NOT_FINITE = "the position is not finite"
    FLOOR = "below the floor"
    RADIUS = "too far from the axis"
    UNREACHABLE = "out of the legs' reach"
    ARM_ABOVE_HOME = "an arm would be above its home position"
    ARM_TOO_LOW = "an arm would be below its lowest angle"
    SINGULAR = "too near a singularity"


_LIMITS = tuple(Limit)


@dataclass(frozen=True)
class PathFault:
    """The first bad point of a path.

    Attributes:
        leg: Index of the straight move on which it lies; -1 for the path's first point.
        point: x, y, z in metres in the robot's frame.
        limit: What is wrong there.
        detail: The figure that breaks the limit, in words.
    """

    leg: int
    point: tuple[float, float, float]
    limit: Limit
    detail: str

    def __str__(self) -> str:
        x, y, z = (1e3 * value for value in self.point)
        where = "at the start" if self.leg < 0 else f"on move {self.leg + 1}"
        return f"({x:.1f}, {y:.1f}, {z:.1f}) mm {where}: {self.limit}{self.detail and f' ({self.detail})'}"


def violations(model: DeltaModel, points: Array) -> NDArray[np.intp]:
    """For each of points (..., 3) the index of the first :class:`Limit` that it breaks; 0 for none."""
    points = np.asarray(points, dtype=float)
    finite = np.asarray(np.isfinite(points).all(axis=-1))
    points = np.where(finite[..., None], points, 0.0)
    angles = inverse(model.geometry, points)
    condition, leverage = singularity(model.geometry, points)
    with np.errstate(invalid="ignore"):
        tests = (
            ~finite,
            points[..., 2] < model.floor - _SLACK,
            np.hypot(points[..., 0], points[..., 1]) > model.radius + _SLACK,
            ~np.isfinite(angles).all(axis=-1),
            (angles < model.home_angle - _ANGLE_SLACK).any(axis=-1),
            (angles > model.max_angle + _ANGLE_SLACK).any(axis=-1),
            (condition > model.max_condition) | (leverage < model.min_leverage),
        )
    return np.asarray(np.select(tests, range(1, len(_LIMITS)), default=0), dtype=np.intp)


def reachable(model: DeltaModel, points: Array) -> NDArray[np.bool_]:
    """Whether the platform can be at points (..., 3)."""
    return np.asarray(violations(model, points) == 0)


def check_path(model: DeltaModel, waypoints: Array, *, spacing: float = SPACING) -> PathFault | None:
    """Check straight moves between waypoints point by point.

    Args:
        model: The robot.
        waypoints: (n, 3) of the platform in the robot's frame, the first where it is now.
        spacing: Metres between checked points.

    Returns:
        The first bad point, or ``None``.

    Raises:
        InputError: If the array has another shape, or the path is absurdly long.
    """
    waypoints = np.asarray(waypoints, dtype=float)
    if waypoints.ndim != 2 or waypoints.shape[1] != 3 or len(waypoints) == 0:
        raise InputError(f"a path has the shape {waypoints.shape}, not (n, 3)", "Give rows of x, y, z in metres")
    if not np.isfinite(waypoints).all():
        bad = int(np.argmin(np.isfinite(waypoints).all(axis=1)))
        return PathFault(bad - 1, _triple(waypoints[bad]), Limit.NOT_FINITE, "")
    lengths = np.linalg.norm(np.diff(waypoints, axis=0), axis=1)
    if lengths.sum() / spacing > _MOST_POINTS:
        raise InputError(f"a path of {lengths.sum():.0f} m is too long for this robot", "Give metres, not millimetres")
    fault = _first_fault(model, waypoints[:1], -1)
    for leg, (start, end, length) in enumerate(zip(waypoints, waypoints[1:], lengths, strict=False)):
        if fault is not None:
            break
        shares = np.linspace(0.0, 1.0, max(2, math.ceil(length / spacing) + 1))[1:, None]
        fault = _first_fault(model, start + shares * (end - start), leg)
    return fault


def _first_fault(model: DeltaModel, points: Array, leg: int) -> PathFault | None:
    codes = violations(model, points)
    if not codes.any():
        return None
    first = int(np.argmax(codes > 0))
    limit = _LIMITS[codes[first]]
    return PathFault(leg, _triple(points[first]), limit, _detail(model, points[first], limit))


def _detail(model: DeltaModel, point: Array, limit: Limit) -> str:
    """The figure that breaks a limit."""
    angles = np.degrees(inverse(model.geometry, point))
    match limit:
        case Limit.FLOOR:
            return f"the floor is at {model.floor * 1e3:.1f} mm"
        case Limit.RADIUS:
            return f"{math.hypot(point[0], point[1]) * 1e3:.1f} of {model.radius * 1e3:.1f} mm"
        case Limit.ARM_ABOVE_HOME:
            return f"{angles.min():.1f}° of {math.degrees(model.home_angle):.1f}°"
        case Limit.ARM_TOO_LOW:
            return f"{angles.max():.1f}° of {math.degrees(model.max_angle):.1f}°"
        case Limit.SINGULAR:
            condition, leverage = singularity(model.geometry, point)
            return f"condition {float(condition):.1f}, leverage {float(leverage):.2f}"
        case _:
            return ""


def _triple(point: Array) -> tuple[float, float, float]:
    x, y, z = point.tolist()
    return x, y, z
