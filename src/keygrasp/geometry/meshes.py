"""Triangle meshes as plain arrays: mass properties, frames, boxes, hulls and cleaning.

A mesh is ``vertices`` (V, 3) in metres and ``faces`` (F, 3) with indices that turn counter-clockwise seen from
outside. Everything here is a pure function; mending broken meshes is in ``keygrasp.geometry.repair``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from keygrasp.errors import MeshError
from keygrasp.extras import require
from keygrasp.geometry.poses import Array
from keygrasp.geometry.rectangles import smallest_rectangle

Faces = NDArray[np.int64]

#: Points whose hull has less than this share of the volume of a cube of their size are flat, a line or a point.
_FLATNESS = 1e-9
#: Most directions that are tried for an oriented box; smooth scans have thousands of hull faces.
_MAX_BOX_NORMALS = 600


@dataclass(frozen=True)
class MassProperties:
    """What a solid of density 1 kg/m³ weighs and how it turns.

    Attributes:
        volume: Cubic metres; negative where the mesh is inside out.
        center: (3,) centre of mass in the mesh's frame.
        inertia: (3, 3) tensor about the centre of mass along the mesh's axes, in m⁵ (times density: kg·m²).
    """

    volume: float
    center: Array
    inertia: Array


def mass_properties(vertices: Array, faces: Faces) -> MassProperties:
    """Volume, centre of mass and inertia tensor of a closed mesh.

    Sums signed tetrahedra between the faces and a reference point. For the tetrahedron (0, a, b, c) with
    d = a·(b×c): volume d/6, first moment d/24·(a+b+c), second moment d/120·(aaᵀ+bbᵀ+ccᵀ+ssᵀ) with s = a+b+c
    (Tonon, J. Mathematics and Statistics 1(1), 2005).

    Raises:
        MeshError: If the mesh encloses no volume.
    """
    reference = vertices.mean(axis=0)
    corners = (vertices - reference)[faces]
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    d = np.einsum("ij,ij->i", a, np.cross(b, c))
    volume = float(d.sum() / 6)
    size = float(np.ptp(vertices, axis=0).max())
    if not np.isfinite(volume) or abs(volume) <= _FLATNESS * size**3:
        raise MeshError("the mesh encloses no volume", "Give a closed surface, not a sheet or a line")
    s = a + b + c
    center = (d @ s) / 24 / volume
    second = (np.einsum("i,ijk,ijl->kl", d, corners, corners) + np.einsum("i,ik,il->kl", d, s, s)) / 120
    second -= volume * np.outer(center, center)
    inertia = np.trace(second) * np.eye(3) - second
    return MassProperties(volume, center + reference, inertia)


def principal_frame(inertia: Array) -> tuple[Array, Array]:
    """Principal moments, ascending, and axes of an inertia tensor (3, 3).

    Returns:
        Moments (3,) and a rotation (3, 3) whose columns are the principal axes in the tensor's frame. Each of the
        first two axes has its largest component positive, so that the same tensor always gives the same frame.
    """
    moments, axes = np.linalg.eigh((inertia + inertia.T) / 2)
    for k in range(2):
        if axes[np.argmax(np.abs(axes[:, k])), k] < 0:
            axes[:, k] *= -1
    axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    return moments, axes


def oriented_extents(points: Array) -> Array:
    """Sorted side lengths (3,), ascending, of the points' smallest oriented box.

    The box is the smallest one with a side on a face of the convex hull and, in that face's plane, an edge on an
    edge of the projected outline (Freeman and Shapira's rectangle, CACM 18(7), 1975): the usual close approximation.
    Where the hull has more than 600 different faces, the directions with most area are tried.

    Raises:
        MeshError: If the points lie in a plane.
    """
    hull = _qhull(points)
    corners = points[hull.vertices]
    normals = _half_space(hull.equations[:, :3])
    normals = normals[np.unique(np.round(normals, 6), axis=0, return_index=True)[1]]
    if len(normals) > _MAX_BOX_NORMALS:
        normals = _main_normals(points, hull)
    best: tuple[float, Array] | None = None
    for normal in normals / np.linalg.norm(normals, axis=1, keepdims=True):
        height = float(np.ptp(corners @ normal))
        rectangle = smallest_rectangle(corners @ _plane_basis(normal))
        volume = height * (rectangle.length * rectangle.width)
        if best is None or volume < best[0]:
            best = volume, np.sort([height, rectangle.length, rectangle.width])
    if best is None:
        raise MeshError("the mesh has no faces")
    return best[1]


def convex_hull(points: Array) -> tuple[Array, Faces]:
    """Vertices and outward faces of the points' convex hull.

    Raises:
        MeshError: If the points lie in a plane, or there are fewer than four.
    """
    hull = _qhull(points)
    order = np.sort(hull.vertices)
    vertices = points[order]
    faces = np.searchsorted(order, hull.simplices).astype(np.int64)
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return vertices, faces


def hull_volume(points: Array) -> float:
    """Volume of the points' convex hull in m³; zero where they are flat."""
    try:
        return float(_qhull(points).volume)
    except MeshError:
        return 0.0


def union_of_hulls(hulls: tuple[Array, ...]) -> tuple[Array, Faces]:
    """Surface of the union of convex pieces, each given by its points (N, 3).

    Overlaps are counted once and inner walls vanish, so volume and inertia of the result are exact.

    Raises:
        MeshError: If no piece has a volume.
        MissingExtraError: If manifold3d is not installed.
    """
    manifold3d: Any = require("manifold3d", "grasp")
    pieces = [manifold3d.Manifold.hull_points(np.ascontiguousarray(points)) for points in hulls]
    union = manifold3d.Manifold.batch_boolean(pieces, manifold3d.OpType.Add)
    mesh = union.to_mesh64()
    vertices = np.asarray(mesh.vert_properties, dtype=float)[:, :3]
    faces = np.asarray(mesh.tri_verts, dtype=np.int64)
    if not len(faces):
        raise MeshError("none of the mesh's convex pieces has a volume")
    return vertices, faces


def is_watertight(faces: Faces) -> bool:
    """Whether every edge is passed as often in one direction as in the other, so that the mesh encloses a volume.

    Shells that touch along an edge (four faces on it, as scans have them) count as watertight.
    """
    if not len(faces):
        return False
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    forward, there = np.unique(edges, axis=0, return_counts=True)
    backward, back = np.unique(edges[:, ::-1], axis=0, return_counts=True)
    return bool(np.array_equal(forward, backward) and np.array_equal(there, back))


def clean(vertices: Array, faces: Faces, *, tolerance: float = 1e-8) -> tuple[Array, Faces]:
    """Merge vertices at the same place, drop faces whose corners coincide and vertices without faces.

    Args:
        vertices: (V, 3).
        faces: (F, 3).
        tolerance: Share of the mesh's size that counts as the same place (up to rounding to a grid of that size).

    Raises:
        MeshError: If a coordinate is NaN or infinite, an index is out of range or no face remains.
    """
    vertices = np.asarray(vertices, dtype=float).reshape(-1, 3)
    faces = np.asarray(faces, dtype=np.int64).reshape(-1, 3)
    if not len(vertices) or not len(faces):
        raise MeshError("the mesh is empty", "It must have vertices and triangles")
    if not np.isfinite(vertices).all():
        broken = int((~np.isfinite(vertices).all(axis=1)).sum())
        raise MeshError(f"{broken} of {len(vertices)} vertices are NaN or infinite", "Export the mesh anew")
    if faces.min() < 0 or faces.max() >= len(vertices):
        named = faces.max() if faces.max() >= len(vertices) else faces.min()
        raise MeshError(
            f"a face names vertex {named}, counted from 0, but there are {len(vertices)}", "Export the mesh anew"
        )
    size = float(np.ptp(vertices, axis=0).max())
    if size == 0:
        raise MeshError("all vertices are at the same place", "Export the mesh anew")
    grid = np.round((vertices - vertices.min(axis=0)) / (size * tolerance)).astype(np.int64)
    _, first, inverse = np.unique(grid, axis=0, return_index=True, return_inverse=True)
    faces = inverse.reshape(-1)[faces]
    distinct = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    faces = faces[distinct]
    if not len(faces):
        raise MeshError("no face of the mesh has an area", "Export the mesh anew")
    used, compact = np.unique(faces, return_inverse=True)
    return vertices[first[used]], compact.reshape(-1, 3).astype(np.int64)


def _qhull(points: Array) -> ConvexHull:
    points = np.asarray(points, dtype=float)
    if len(points) < 4:
        raise MeshError(f"{len(points)} points enclose no volume")
    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError) as error:
        raise MeshError("the points lie in a plane or are not finite, so they enclose no volume") from error
    size = float(np.ptp(points, axis=0).max())
    if hull.volume <= _FLATNESS * size**3:
        raise MeshError("the points lie in a plane, so they enclose no volume")
    return hull


def _half_space(normals: Array) -> Array:
    """Turn each normal (N, 3) so that opposite faces give the same one."""
    pivot = np.argmax(np.abs(normals) > 1e-6, axis=1)
    return np.asarray(normals * np.sign(normals[np.arange(len(normals)), pivot])[:, None])


def _main_normals(points: Array, hull: ConvexHull) -> Array:
    """Directions (N, 3) of the hull's faces, gathered to about a degree, that have most area."""
    corners = points[hull.simplices]
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    gathered, place = np.unique(np.round(_half_space(hull.equations[:, :3]), 2), axis=0, return_inverse=True)
    total = np.bincount(place.reshape(-1), weights=areas)
    largest = np.argsort(-total, kind="stable")[:_MAX_BOX_NORMALS]
    return np.asarray(gathered[largest])


def _plane_basis(normal: Array) -> Array:
    """Two unit vectors (3, 2) at right angles to a unit normal and to each other."""
    helper = np.eye(3)[np.argmin(np.abs(normal))]
    first = np.cross(normal, helper)
    first /= np.linalg.norm(first)
    return np.column_stack([first, np.cross(normal, first)])
