"""Wavefront OBJ as arrays: vertices and polygons alone; materials and other files are never opened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keygrasp.errors import MeshError
from keygrasp.geometry.meshes import Faces
from keygrasp.geometry.poses import Array

#: Most vertices or triangles that a mesh may have; more would take minutes and gigabytes to prepare.
MAX_ELEMENTS = 2_000_000


@dataclass(frozen=True)
class ObjDocument:
    """What an OBJ file says.

    Attributes:
        vertices: (V, 3) in the file's unit.
        parts: Triangles (F, 3) of each ``o`` or ``g`` group in order; polygons are cut into fans.
    """

    vertices: Array
    parts: tuple[Faces, ...]

    @property
    def faces(self) -> Faces:
        """(F, 3) triangles of all parts."""
        return np.concatenate(self.parts) if self.parts else np.zeros((0, 3), dtype=np.int64)


def parse_obj(data: bytes) -> ObjDocument:
    """Read an OBJ file's content.

    Lines other than ``v``, ``f``, ``o`` and ``g`` are skipped, so no material library is looked up.

    Raises:
        MeshError: If a vertex or face is malformed, names a vertex that doesn't exist, or there are too many.
    """
    vertices: list[list[float]] = []
    parts: list[list[tuple[int, int, int]]] = [[]]
    count, highest = 0, (0, 0)
    for number, line in enumerate(data.splitlines(), start=1):
        tokens = line.split()
        if not tokens:
            continue
        try:
            if tokens[0] == b"v":
                vertices.append([float(tokens[1]), float(tokens[2]), float(tokens[3])])
            elif tokens[0] == b"f":
                corners = [_corner(token, len(vertices)) for token in tokens[1:]]
                fan = [(corners[0], corners[k], corners[k + 1]) for k in range(1, len(corners) - 1)]
                parts[-1].extend(fan)
                count += len(fan)
                highest = max(highest, (max(corners, default=-1) + 1, number))
            elif tokens[0] in {b"o", b"g"} and parts[-1]:
                parts.append([])
        except (ValueError, IndexError) as error:
            raise MeshError(f"line {number} is not a valid OBJ line ({error})", "Export the mesh anew") from error
        if max(count, len(vertices)) > MAX_ELEMENTS:
            raise MeshError(f"the mesh has more than {MAX_ELEMENTS:,} vertices or triangles", "Simplify it first")
    if highest[0] > len(vertices):
        raise MeshError(
            f"line {highest[1]}: a face names vertex {highest[0]}, but the file has {len(vertices)}",
            "Export the mesh anew",
        )
    filled = tuple(np.array(part, dtype=np.int64).reshape(-1, 3) for part in parts if part)
    return ObjDocument(np.array(vertices, dtype=float).reshape(-1, 3), filled)


def _corner(token: bytes, known: int) -> int:
    """Vertex index from ``7``, ``7/1`` or ``7/1/3``; negative ones count back from the last vertex so far."""
    named = int(token.split(b"/", 1)[0])
    index = named - 1 if named > 0 else known + named
    if named == 0 or index < 0:
        raise ValueError(f"vertex {token.decode('ascii', 'replace')} does not exist")
    return index
