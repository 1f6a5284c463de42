"""Simple solids as meshes, for machines that are described in code: blocks, rods, balls, and what they are joined to.

A mesh is ``(vertices, faces)`` as in ``keygrasp.geometry.meshes``. Joined parts may overlap: right for pictures, and
close enough for the mass of a part that is estimated anyway.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from keygrasp.geometry.meshes import Faces, convex_hull
from keygrasp.geometry.poses import Array

Mesh = tuple[Array, Faces]

#: A triangle of a binary STL file.
STL_TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("unused", "<u2")])
#: Corners of a round part's outline.
_SIDES = 24


def block(size: ArrayLike, centre: ArrayLike = (0.0, 0.0, 0.0)) -> Mesh:
    """A box with sides along the axes: its size (3,) and its middle (3,)."""
    corners = np.array(np.meshgrid(*[(-0.5, 0.5)] * 3)).reshape(3, -1).T
    return convex_hull(corners * np.asarray(size, dtype=float) + np.asarray(centre, dtype=float))


def rod(start: ArrayLike, end: ArrayLike, radius: float, end_radius: float | None = None) -> Mesh:
    """A round bar between two points (3,); a cone's stump where the radius at its end is another one."""
    return convex_hull(
        np.concatenate(
            [_ring(start, end, start, radius), _ring(start, end, end, radius if end_radius is None else end_radius)]
        )
    )


def ball(centre: ArrayLike, radius: float) -> Mesh:
    """A ball."""
    turns = np.linspace(0, 2 * np.pi, _SIDES, endpoint=False)
    tilts = np.linspace(-np.pi / 2, np.pi / 2, _SIDES // 2 + 1)[1:-1]
    rings = [[math.cos(b) * math.cos(a), math.cos(b) * math.sin(a), math.sin(b)] for b in tilts for a in turns]
    points = np.array([*rings, [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    return convex_hull(radius * points + np.asarray(centre, dtype=float))


def hull(*meshes: Mesh) -> Mesh:
    """The convex hull of parts."""
    return convex_hull(np.concatenate([vertices for vertices, _ in meshes]))


def joined(*meshes: Mesh) -> Mesh:
    """Parts side by side as one mesh."""
    offsets = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    faces = [part + offset for (_, part), offset in zip(meshes, offsets, strict=False)]
    return np.concatenate([vertices for vertices, _ in meshes]), np.concatenate(faces)


def moved(mesh: Mesh, pose: Array) -> Mesh:
    """A mesh at a pose (4, 4)."""
    vertices, faces = mesh
    return vertices @ pose[:3, :3].T + pose[:3, 3], faces


def binary_stl(mesh: Mesh) -> bytes:
    """The mesh as a binary STL file, with the triangles' unit normals."""
    vertices, faces = mesh
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    triangles = np.zeros(len(faces), STL_TRIANGLE)
    triangles["normal"] = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    triangles["corners"] = corners
    return b"keygrasp".ljust(80) + len(faces).to_bytes(4, "little") + triangles.tobytes()


def _ring(start: ArrayLike, end: ArrayLike, centre: ArrayLike, radius: float) -> Array:
    """Points (n, 3) around an axis."""
    axis = np.asarray(end, dtype=float) - np.asarray(start, dtype=float)
    first = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
    first /= np.linalg.norm(first)
    second = np.cross(axis / np.linalg.norm(axis), first)
    turns = np.linspace(0, 2 * np.pi, _SIDES, endpoint=False)[:, None]
    return np.asarray(np.asarray(centre, dtype=float) + radius * (np.cos(turns) * first + np.sin(turns) * second))
