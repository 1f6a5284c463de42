"""Convex hulls as the physics engine wants them."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

from keygrasp.geometry.poses import Array

#: Metres by which the engine inflates a convex hull in contact.
ENGINE_MARGIN = 0.001


def deflated(points: Array, margin: float = ENGINE_MARGIN) -> Array:
    """Hull points whose contact surface, once the engine has inflated it by ``margin``, is the given hull's.

    Each face is moved inwards by the margin. A hull that is too thin for that (its centroid lies within 1.5 margins of
    a face) is returned as it is: then it is up to ``2 · margin`` thicker in contact than it looks.

    Args:
        points: (N, 3) metres, the hull's points.
        margin: Metres.

    Returns:
        (M, 3) metres.
    """
    try:
        hull = ConvexHull(points)
        faces = np.unique(np.round(hull.equations, 9), axis=0)
        centre = points[hull.vertices].mean(axis=0)
        if np.max(faces[:, :3] @ centre + faces[:, 3]) > -1.5 * margin:
            return points
        faces[:, 3] += margin
        return np.asarray(HalfspaceIntersection(faces, centre).intersections)
    except QhullError:
        return points


def hulls_as_obj(hulls: list[Array]) -> str:
    """OBJ text with one group a hull; its faces only mention every point, for the engine hulls them anew."""
    lines: list[str] = []
    first = 1
    for index, hull in enumerate(hulls):
        lines.append(f"o hull{index}")
        lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in hull]
        last = first + len(hull) - 1
        lines += [f"f {min(i, last)} {min(i + 1, last)} {min(i + 2, last)}" for i in range(first, last + 1, 3)]
        first = last + 1
    return "\n".join(lines) + "\n"
