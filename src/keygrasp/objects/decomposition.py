"""Cutting a closed mesh into convex pieces for contact physics, by CoACD (Wei et al., ACM TOG 41(4), 2022).

CoACD runs in a process of its own: it is native code, and what kills it must not kill a run of trials. Its result is
cached by the mesh's content, the options and CoACD's version.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keygrasp.extras import require
from keygrasp.geometry.meshes import Faces, convex_hull, hull_volume, mass_properties
from keygrasp.geometry.poses import Array
from keygrasp.objects.cache import cached, content_key

#: How the note begins that says that an object could not be cut.
CUTTING_FAILED = "cutting into convex pieces failed"

_REQUIRED = frozenset({"points", "sizes"})
#: A piece that comes from a plain hull keeps about this many vertices: contact search visits each of them.
_MAX_PIECE_VERTICES = 128


@dataclass(frozen=True)
class DecompositionConfig:
    """How finely an object is cut.

    Attributes:
        threshold: CoACD's concavity at which it stops cutting, as a share of the object's size.
        max_pieces: Most convex pieces.
        max_vertices: Most vertices of a piece.
        convex_above: An object that fills this share of its hull is taken as convex and not cut.
        max_faces: The mesh is simplified for cutting until it has at most this many faces, where the object's shape
            stays within 2% of its size.
        seed: Seed of CoACD's tree search.
        timeout: Seconds after which cutting is given up.
    """

    threshold: float = 0.05
    max_pieces: int = 32
    max_vertices: int = 64
    convex_above: float = 0.97
    max_faces: int = 1500
    seed: int = 0
    timeout: float = 600.0


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Convex pieces of an object.

    Attributes:
        pieces: Hull vertices of each, (N, 3), in the mesh's frame.
        notes: One sentence where the pieces are not CoACD's; else empty.
    """

    pieces: tuple[Array, ...]
    notes: tuple[str, ...] = ()


def decompose(vertices: Array, faces: Faces, config: DecompositionConfig | None = None) -> Decomposition:
    """Cut a closed mesh into convex pieces.

    An object that is nearly convex becomes one piece. Where CoACD fails or takes too long, the whole convex hull is
    returned with a note, and nothing is cached.

    Args:
        vertices: (V, 3) in metres.
        faces: (F, 3), watertight and outward.
        config: Options; None takes the defaults.

    Raises:
        MeshError: If the mesh encloses no volume.
        MissingExtraError: If CoACD or manifold3d is not installed.
    """
    config = config or DecompositionConfig()
    if abs(mass_properties(vertices, faces).volume) >= config.convex_above * hull_volume(vertices):
        return Decomposition((few_vertices(vertices),))
    require("coacd", "grasp")
    options = dataclasses.asdict(config)
    version = importlib.metadata.version("coacd")
    key = content_key("decomposition", vertices, faces, json.dumps(options, sort_keys=True), version)
    try:
        entry = cached("decompositions", key, _REQUIRED, lambda: _run_worker(vertices, faces, options))
    except _CuttingError as error:
        note = f"{CUTTING_FAILED} ({error}): its CONVEX HULL stands for it in contact"
        return Decomposition((few_vertices(vertices),), (note,))
    return Decomposition(tuple(np.split(entry["points"], np.cumsum(entry["sizes"])[:-1])))


def few_vertices(points: Array) -> Array:
    """Hull vertices of points (N, 3), thinned to those that lie furthest in 128 directions over the sphere.

    The directions are a Fibonacci lattice. A ball of 10 cm loses less than 1 mm by it, a box nothing.
    """
    corners = convex_hull(points)[0]
    if len(corners) <= _MAX_PIECE_VERTICES:
        return corners
    k = np.arange(_MAX_PIECE_VERTICES)
    height = 1 - (2 * k + 1) / _MAX_PIECE_VERTICES
    angle = np.pi * (1 + 5**0.5) * k
    ring = np.sqrt(1 - height**2)
    directions = np.column_stack([ring * np.cos(angle), ring * np.sin(angle), height])
    return np.asarray(corners[np.unique(np.argmax(directions @ corners.T, axis=1))])


def was_cut(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a stored object's pieces are what was asked for, not the makeshift hull of a cutter that failed."""
    return not any(str(note).startswith(CUTTING_FAILED) for note in arrays["notes"])


class _CuttingError(Exception):
    """CoACD gave no result."""


def _run_worker(vertices: Array, faces: Faces, options: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Cut in another process, with its output silenced."""
    with tempfile.TemporaryDirectory(prefix="keygrasp-") as folder:
        given, made = Path(folder) / "mesh.npz", Path(folder) / "pieces.npz"
        np.savez(given, vertices=vertices, faces=faces)
        command = [sys.executable, "-m", "keygrasp.objects.decompose_worker", str(given), str(made)]
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
                [*command, json.dumps(options)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=options["timeout"],
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _CuttingError(f"no result after {options['timeout']:.0f} s") from error
        if done.returncode != 0 or not made.is_file():
            raise _CuttingError(f"CoACD ended with status {done.returncode}")
        with np.load(made, allow_pickle=False) as result:
            points, sizes = result["points"], result["sizes"]
    if not len(sizes) or sizes.sum() != len(points):
        raise _CuttingError("CoACD returned no piece")
    if not np.isfinite(points).all():
        raise _CuttingError("CoACD returned pieces that are not finite")
    return {"points": points, "sizes": sizes}
