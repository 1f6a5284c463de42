"""The curves of the patterns, and how far a driven path is from them: from the true path, not from the robot's view."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.skills.core import ONE, PATTERNS, Pose, RawEntry, entry

Array = NDArray[np.float64]
#: Points that one segment of a curve is drawn with.
_POINTS = 8
#: Poses of a path that are skipped between two that are compared; 40 ms then.
_THINNING = 4


@dataclass(frozen=True)
class PathError:
    """How far a driven path is from its curve.

    Attributes:
        cross_track: Root mean square distance in mm, every piece of the way weighted by its length.
        cross_track_share: The same as a share of the pattern's size.
        closure: Distance in mm between the ends of the path and of the curve.
        heading: Angle in radians between their final headings.
    """

    cross_track: float
    cross_track_share: float
    closure: float
    heading: float


def size(pattern: str) -> float:
    """The length in mm that a pattern's errors are measured by: side, diameter of a lobe, or extent."""
    return float(_entry(pattern).size / ONE)


@functools.lru_cache(maxsize=16)
def curve(pattern: str) -> tuple[Array, float]:
    """A pattern's curve in the frame of its start, x forward.

    Returns:
        (N, 2) points in mm, and the heading at the end in radians.

    Raises:
        InputError: If there is no such pattern.
    """
    shape = _entry(pattern)
    points, heading = [np.zeros(2)], 0.0
    for segment in range(shape.count):
        turn = _turn(shape, segment)
        pieces = _POINTS if turn else 1
        for _ in range(pieces):
            middle = heading + turn / pieces / 2
            points.append(points[-1] + shape.length / ONE / pieces * np.array([math.cos(middle), math.sin(middle)]))
            heading += turn / pieces
        heading += shape.corner / ONE
    return np.array(points), heading


def path_error(pattern: str, path: Array, start: Pose) -> PathError:
    """Compare a driven path with a pattern's curve.

    Args:
        pattern: Name of the pattern.
        path: (N, 3) true poses in mm and radians, from the start to the end.
        start: True pose at the start; the curve begins there.
    """
    points, final = curve(pattern)
    last, path = path[-1], path[::_THINNING]
    cosine, sine = math.cos(start.heading), math.sin(start.heading)
    placed = points @ np.array([[cosine, sine], [-sine, cosine]]) + [start.x, start.y]
    steps = np.linalg.norm(np.diff(path[:, :2], axis=0), axis=1)
    weights = np.concatenate([[0.0], steps])
    distance = _distances(path[:, :2], placed)
    cross = math.sqrt(float(np.sum(weights * distance**2) / max(float(weights.sum()), 1e-9)))
    return PathError(
        cross_track=cross,
        cross_track_share=cross / size(pattern),
        closure=float(np.linalg.norm(last[:2] - placed[-1])),
        heading=abs(math.remainder(float(last[2]) - start.heading - final, math.tau)),
    )


def _turn(shape: RawEntry, segment: int) -> float:
    """As ``kg_segment_turn`` of the core."""
    if not shape.radius:
        return 0.0
    turn: float = shape.length / (shape.radius + shape.growth * segment)
    return -turn if (segment + shape.shift) // shape.period % 2 else turn


def _distances(points: Array, line: Array) -> Array:
    """(N,) distances of points to a polyline."""
    begin, along = line[:-1], np.diff(line, axis=0)
    offset = points[:, None] - begin
    share = np.clip((offset * along).sum(-1) / (along**2).sum(-1), 0, 1)
    nearest: Array = np.linalg.norm(offset - share[..., None] * along, axis=-1).min(axis=1)
    return nearest


def _entry(pattern: str) -> RawEntry:
    if pattern not in PATTERNS:
        raise InputError(f"'{pattern}' is no pattern", f"Known: {', '.join(PATTERNS)}")
    return entry(pattern)
