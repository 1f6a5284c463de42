"""The process in which CoACD runs: ``python -m keygrasp.objects.decompose_worker MESH.npz PIECES.npz OPTIONS``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from keygrasp.errors import MeshError
from keygrasp.extras import require
from keygrasp.geometry.meshes import Faces, convex_hull
from keygrasp.geometry.poses import Array

#: Shares of the object's size by which its surface may move when it is simplified, tried in turn.
_TOLERANCES = (0.002, 0.005, 0.01, 0.02)


def cut(vertices: Array, faces: Faces, options: dict[str, Any]) -> list[Array]:
    """Convex pieces of a closed mesh, by CoACD; see ``decomposition.DecompositionConfig`` for the options."""
    coacd: Any = require("coacd", "grasp")
    coacd.set_log_level("error")
    vertices, faces = _simplified(vertices, faces, int(options["max_faces"]))
    pieces = coacd.run_coacd(
        coacd.Mesh(vertices, faces.astype(np.int32)),
        threshold=options["threshold"],
        max_convex_hull=options["max_pieces"],
        decimate=True,
        max_ch_vertex=options["max_vertices"],
        resolution=1000,
        mcts_nodes=12,
        mcts_iterations=60,
        mcts_max_depth=2,
        seed=options["seed"],
    )
    hulls = []
    for points, _ in pieces:
        try:
            hulls.append(convex_hull(np.asarray(points, dtype=float))[0])
        except MeshError:
            continue
    return hulls


def _simplified(vertices: Array, faces: Faces, most: int) -> tuple[Array, Faces]:
    """The mesh with fewer faces, for CoACD's time grows with them; as it is where manifold3d can't take it."""
    manifold3d: Any = require("manifold3d", "grasp")
    size = float(np.ptp(vertices, axis=0).max())
    mesh = manifold3d.Mesh64(vert_properties=vertices, tri_verts=faces.astype(np.uint64))
    mesh.merge()
    solid = manifold3d.Manifold(mesh)
    for tolerance in _TOLERANCES:
        if solid.status() != manifold3d.Error.NoError or solid.num_tri() <= most:
            break
        solid = solid.simplify(tolerance * size)
    if solid.status() != manifold3d.Error.NoError or not solid.num_tri():
        return vertices, faces
    result = solid.to_mesh64()
    corners = np.array(result.vert_properties, dtype=float)[:, :3]
    return np.ascontiguousarray(corners), np.array(result.tri_verts, dtype=np.int64)


def main(arguments: list[str]) -> int:
    """Read a mesh, cut it, write the pieces."""
    given, made, options = Path(arguments[0]), Path(arguments[1]), json.loads(arguments[2])
    with np.load(given, allow_pickle=False) as mesh:
        hulls = cut(mesh["vertices"], mesh["faces"], options)
    if not hulls:
        return 1
    np.savez(made, points=np.concatenate(hulls), sizes=np.array([len(hull) for hull in hulls], dtype=np.int64))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
