"""Mending triangle meshes: winding, inside-out faces, holes; the convex hull where nothing else helps.

Every change is named in ``RepairedMesh.notes``, so that nobody mistakes a mended object for the original.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from keygrasp.errors import MeshError
from keygrasp.extras import require
from keygrasp.geometry.meshes import Faces, clean, convex_hull, is_watertight, mass_properties
from keygrasp.geometry.poses import Array

#: Vertices closer than these shares of the mesh's size are merged, one after the other, until the mesh closes.
_MERGE_TOLERANCES = (1e-6, 1e-5, 1e-4)


@dataclass(frozen=True)
class RepairedMesh:
    """A closed mesh whose faces turn counter-clockwise seen from outside.

    Attributes:
        vertices: (V, 3) in metres.
        faces: (F, 3).
        notes: What was mended, one sentence each; empty where the mesh was sound.
    """

    vertices: Array
    faces: Faces
    notes: tuple[str, ...]


def repair(vertices: Array, faces: Faces) -> RepairedMesh:
    """Close a mesh and turn its faces outward.

    Doubled faces are dropped. Then, in this order, until the mesh is closed: turn faces to agree with their
    neighbours, merge near vertices, fill the loops of open edges, rebuild with manifold3d. What is still open
    becomes its convex hull.

    Raises:
        MeshError: If the mesh is empty, not finite or flat.
        MissingExtraError: If trimesh or manifold3d is needed and not installed.
    """
    vertices, faces = clean(vertices, faces)
    convex_hull(vertices)  # a flat mesh is refused here, before anything is invented to close it
    notes: list[str] = []
    single = _without_doubles(faces)
    if len(single) < len(faces):
        notes.append(f"{len(faces) - len(single)} doubled face(s) have been dropped")
        vertices, faces = clean(vertices, single)
    if not is_watertight(faces):
        vertices, faces, how = _close(vertices, faces)
        notes.append(how)
    vertices, faces, turned = _turn_outward(vertices, faces)
    if turned:
        notes.append(turned)
    return RepairedMesh(vertices, faces, tuple(notes))


def _close(vertices: Array, faces: Faces) -> tuple[Array, Faces, str]:
    """Close an open mesh; returns it with a sentence that says how."""
    faces = _agree(vertices, faces)
    if is_watertight(faces):
        return vertices, faces, "faces that turned against their neighbours have been turned"
    for tolerance in _MERGE_TOLERANCES:
        merged, kept = clean(vertices, faces, tolerance=tolerance)
        kept = _agree(merged, _without_doubles(kept))
        if is_watertight(kept):
            return merged, kept, f"vertices within {tolerance:g} of the mesh's size have been merged to close it"
    filled_vertices, filled = _fill_loops(vertices, faces)
    if is_watertight(filled) and _has_volume(filled_vertices, filled):
        holes = len(filled_vertices) - len(vertices)
        return filled_vertices, filled, f"the mesh was not watertight: {holes} hole(s) have been filled"
    rebuilt = _rebuild(filled_vertices, filled)
    if rebuilt is not None:
        return (*rebuilt, "the mesh was not watertight and has been rebuilt from its parts")
    hull_vertices, hull_faces = convex_hull(vertices)
    return hull_vertices, hull_faces, "the mesh could not be closed: its CONVEX HULL is used instead"


def _without_doubles(faces: Faces) -> Faces:
    """Keep one of the faces with the same corners; a flap of two that face opposite ways goes altogether.

    Where most faces lie double, as in two-sided exports, they are not flaps, and one of each stays.
    """
    _, first, place, count = np.unique(
        np.sort(faces, axis=1), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    place = place.reshape(-1)
    kept = np.sort(first)
    turns = np.zeros(len(first), dtype=np.int64)
    np.add.at(turns, place, _turn(faces))
    flaps = (count > 1) & (turns == 0)
    if flaps.sum() * 2 < len(first):
        kept = np.sort(first[~flaps])
    return faces[kept]


def _turn(faces: Faces) -> NDArray[np.int64]:
    """+1 where a face (N, 3) runs through its corners in ascending cyclic order, else -1."""
    a, b, c = faces.T
    ascending = ((a < b) & (b < c)) | ((b < c) & (c < a)) | ((c < a) & (a < b))
    return np.where(ascending, 1, -1)


def _agree(vertices: Array, faces: Faces) -> Faces:
    """Turn faces so that neighbours go opposite ways along their common edge."""
    trimesh: Any = require("trimesh", "grasp")
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    trimesh.repair.fix_winding(mesh)
    return np.asarray(mesh.faces, dtype=np.int64)


def _fill_loops(vertices: Array, faces: Faces) -> tuple[Array, Faces]:
    """Close each loop of open edges by a fan around its centre."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    backward = {(int(b), int(a)) for a, b in edges}
    follow: dict[int, list[int]] = {}
    for a, b in edges.tolist():
        if (a, b) not in backward:
            follow.setdefault(b, []).append(a)
    points, fans = [vertices], [faces]
    count = len(vertices)
    while follow:
        loop = _take_loop(follow)
        if len(loop) < 3:
            continue
        points.append(vertices[loop].mean(axis=0, keepdims=True))
        fans.append(np.array([[a, b, count] for a, b in zip(loop, loop[1:] + loop[:1], strict=True)], dtype=np.int64))
        count += 1
    return np.concatenate(points), np.concatenate(fans)


def _take_loop(follow: dict[int, list[int]]) -> list[int]:
    """Remove one closed chain from a map of next vertices and return it; empty where the chain is open."""
    start = next(iter(follow))
    chain, place = [start], {start: 0}
    while True:
        here = chain[-1]
        options = follow.get(here)
        if not options:
            return []
        ahead = options.pop()
        if not options:
            del follow[here]
        if ahead in place:
            _put_back(follow, chain[: place[ahead] + 1])
            return chain[place[ahead] :]
        place[ahead] = len(chain)
        chain.append(ahead)


def _put_back(follow: dict[int, list[int]], chain: list[int]) -> None:
    """Return the edges of a chain that led into a loop, for another loop to use."""
    for here, ahead in itertools.pairwise(chain):
        follow.setdefault(here, []).append(ahead)


def _rebuild(vertices: Array, faces: Faces) -> tuple[Array, Faces] | None:
    """Let manifold3d merge open edges and keep what it then accepts as solids; None where nothing is left."""
    manifold3d: Any = require("manifold3d", "grasp")
    solids = []
    labels = _components(len(vertices), faces)
    for label in np.unique(labels[faces[:, 0]]):
        part_vertices, part = clean(vertices, faces[labels[faces[:, 0]] == label])
        mesh = manifold3d.Mesh64(vert_properties=part_vertices, tri_verts=part.astype(np.uint64))
        mesh.merge()
        solid = manifold3d.Manifold(mesh)
        if solid.status() == manifold3d.Error.NoError and abs(solid.volume()) > 0:
            solids.append(solid)
    if not solids:
        return None
    result = manifold3d.Manifold.batch_boolean(solids, manifold3d.OpType.Add).to_mesh64()
    corners = np.asarray(result.vert_properties, dtype=float)[:, :3]
    triangles = np.asarray(result.tri_verts, dtype=np.int64)
    covers = len(triangles) and np.ptp(corners, axis=0).prod() > 0.9 * np.ptp(vertices, axis=0).prod()
    return (corners, triangles) if covers and is_watertight(triangles) else None


def _turn_outward(vertices: Array, faces: Faces) -> tuple[Array, Faces, str]:
    """Turn shells outward; a shell inside another one stays turned inward where it is a cavity."""
    labels = _components(len(vertices), faces)[faces[:, 0]]
    shells = [(label, labels == label) for label in np.unique(labels)]
    volumes = [_signed_volume(vertices, faces[mask]) for _, mask in shells]
    faces = faces.copy()
    note = ""
    if sum(volumes) < 0:
        faces = faces[:, ::-1]
        volumes = [-volume for volume in volumes]
        note = "the faces were inside out and have been turned"
    boxes = [(vertices[faces[mask]].min(axis=(0, 1)), vertices[faces[mask]].max(axis=(0, 1))) for _, mask in shells]
    for k, (_, mask) in enumerate(shells):
        low, high = boxes[k]
        nested = any(
            volumes[j] > 0 and (boxes[j][0] <= low).all() and (high <= boxes[j][1]).all() for j in range(len(shells))
        )
        if volumes[k] < 0 and not nested:
            faces[mask] = faces[mask][:, ::-1]
            note = "the faces were inside out and have been turned"
    return vertices, np.ascontiguousarray(faces), note


def _components(count: int, faces: Faces) -> NDArray[np.int64]:
    """Number (V,) of the connected part that each vertex belongs to."""
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    graph = coo_array((np.ones(len(ends), dtype=bool), (ends[:, 0], ends[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _signed_volume(vertices: Array, faces: Faces) -> float:
    corners = (vertices - vertices.mean(axis=0))[faces]
    return float(np.einsum("ij,ij->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6)


def _has_volume(vertices: Array, faces: Faces) -> bool:
    try:
        mass_properties(vertices, faces)
    except MeshError:
        return False
    return True
