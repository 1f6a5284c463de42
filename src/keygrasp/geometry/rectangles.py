"""The smallest rectangle around points of a plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from keygrasp.geometry.poses import Array, wrap_half_turn


@dataclass(frozen=True, eq=False)
class Rectangle:
    """A rectangle in a plane.

    Attributes:
        centre: (2,) its middle.
        yaw: Radians from x to its longer side, wrapped to [-π/2, π/2).
        length: Its longer side.
        width: Its shorter side.
    """

    centre: Array
    yaw: float
    length: float
    width: float


def smallest_rectangle(points: Array) -> Rectangle:
    """The smallest rectangle around points (N, 2).

    One of its sides lies on a side of the convex outline (Freeman and Shapira, CACM 18(7), 1975). Points on a line, or
    fewer than three, give the rectangle along the axes.
    """
    try:
        outline = points[ConvexHull(points).vertices]
        edges = np.roll(outline, -1, axis=0) - outline
        edges /= np.linalg.norm(edges, axis=1, keepdims=True)
    except (QhullError, ValueError):
        outline, edges = points, np.array([[1.0, 0.0]])
    along = edges @ outline.T
    across = edges @ np.array([[0.0, -1.0], [1.0, 0.0]]) @ outline.T
    best = int(np.argmin(np.ptp(along, axis=1) * np.ptp(across, axis=1)))
    edge = edges[best]
    normal = edge @ np.array([[0.0, -1.0], [1.0, 0.0]])
    low = np.array([along[best].min(), across[best].min()])
    high = np.array([along[best].max(), across[best].max()])
    middle, sides = (low + high) / 2, high - low
    longer = edge if sides[0] >= sides[1] else normal
    return Rectangle(
        centre=middle[0] * edge + middle[1] * normal,
        yaw=wrap_half_turn(float(np.arctan2(longer[1], longer[0]))),
        length=float(sides.max()),
        width=float(sides.min()),
    )
