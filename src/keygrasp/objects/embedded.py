"""The embedded set: 1,000 random objects that come with PyBullet, each already cut into convex pieces.

Usable are those that satisfy a rule (``is_usable``), not a list: all coordinates finite, and a convex hull of at
least 1 mm³ that is at least 0.1 mm thick.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np

from keygrasp.errors import InputError, MeshError
from keygrasp.extras import require
from keygrasp.geometry.meshes import convex_hull, union_of_hulls
from keygrasp.geometry.poses import Array
from keygrasp.objects.cache import cached, content_key
from keygrasp.objects.objfile import parse_obj
from keygrasp.objects.prepared import STORED, PreparedObject, Rule, assemble, from_arrays, solid_pieces, to_arrays

_MIN_HULL_VOLUME = 1e-9
_MIN_THICKNESS = 1e-4
_SCALE = re.compile(rb'<collision>.*?<mesh[^>]*\bscale="([^"]+)"', re.DOTALL)


def is_usable(vertices: Array) -> bool:
    """Whether points (V, 3) in metres can be an object: finite, at least 1 mm³ and 0.1 mm thick (as a hull)."""
    if len(vertices) < 4 or not np.isfinite(vertices).all():
        return False
    thickness = np.linalg.svd(vertices - vertices.mean(axis=0), full_matrices=False)[2] @ vertices.T
    if np.ptp(thickness, axis=1).min() < _MIN_THICKNESS:
        return False
    try:
        corners, faces = convex_hull(vertices)
    except MeshError:
        return False
    a, b, c = (corners - corners.mean(axis=0))[faces].transpose(1, 0, 2)
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6) >= _MIN_HULL_VOLUME


def folder() -> Path:
    """Where PyBullet keeps the objects.

    Raises:
        MissingExtraError: If PyBullet is not installed.
    """
    return Path(require("pybullet_data", "grasp").getDataPath()) / "random_urdfs"


@functools.lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """Names of the usable objects, sorted; the first call on a machine reads all of them (about ten seconds)."""
    files = sorted(path / f"{path.name}.obj" for path in folder().iterdir() if path.is_dir())
    listing = "\n".join(f"{path.name} {path.stat().st_size}" for path in files if path.is_file())
    key = content_key("embedded names", listing)
    entry = cached("names", key, frozenset({"names"}), lambda: {"names": np.array(_scan(files), dtype=np.str_)})
    return tuple(str(name) for name in entry["names"])


def prepare(name: str, rule: Rule) -> PreparedObject:
    """Prepare one object; see ``Catalog.prepare``.

    Raises:
        InputError: If there is no such object.
        MeshError: If it is not usable.
    """
    if not re.fullmatch(r"[0-9]{3}", name):
        raise InputError(f"no embedded object is named {name!r}", "Names are 000 to 999; see Catalog.names()")
    model = folder() / name
    try:
        mesh, description = (model / f"{name}.obj").read_bytes(), (model / f"{name}.urdf").read_bytes()
    except OSError as error:
        raise InputError(f"can't read the embedded object {name}: {error}", "Install pybullet anew") from error
    key = content_key("embedded", name, rule, mesh, description)

    def compute() -> PreparedObject:
        parts, vertices = _parts(mesh, description)
        if not is_usable(vertices):
            raise MeshError(f"embedded object {name} is not usable (NaN, flat or tiny)", "See Catalog.names()")
        pieces = solid_pieces(parts)
        surface, faces = union_of_hulls(pieces)
        return assemble(name, "embedded", surface, faces, pieces, rule=rule)

    return from_arrays(cached("objects", key, STORED, lambda: to_arrays(compute())))


def _scan(files: list[Path]) -> list[str]:
    return [
        path.stem
        for path in files
        if path.is_file() and is_usable(_parts(path.read_bytes(), path.with_suffix(".urdf").read_bytes())[1])
    ]


def _parts(mesh: bytes, description: bytes) -> tuple[tuple[Array, ...], Array]:
    """Points of each convex piece, and all vertices, in metres: the file's scale stands in the URDF."""
    match = _SCALE.search(description)
    scale = np.array([float(value) for value in match.group(1).split()]) if match else np.ones(3)
    document = parse_obj(mesh)
    vertices = document.vertices * scale
    return tuple(vertices[np.unique(faces)] for faces in document.parts if len(faces)), vertices
