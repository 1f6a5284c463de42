"""Objects' shapes for contact and for pictures, in the physics engine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keygrasp.errors import MeshError
from keygrasp.sim.hulls import deflated, hulls_as_obj

if TYPE_CHECKING:
    from keygrasp.objects import PreparedObject

#: The engine's upload buffer holds no more than this.
_MAX_VISUAL_VERTICES = 100_000
_MAX_HULLS = 256
_MAX_HULL_POINTS = 4096

#: Colours that colour-blind people can tell apart (Okabe and Ito), in the order in which objects are added.
_COLOURS = ((0.90, 0.62, 0.0), (0.34, 0.71, 0.91), (0.0, 0.62, 0.45), (0.94, 0.89, 0.26), (0.80, 0.47, 0.65))


def collision_shape(bullet: Any, client: int, prepared: PreparedObject) -> int:
    """Make a compound of convex hulls; the engine reads compounds from files alone, as groups of an OBJ.

    Raises:
        MeshError: If hulls are missing, not finite, or more than the engine should be given.
    """
    hulls = [np.asarray(hull, dtype=float) for hull in prepared.hulls]
    if not 0 < len(hulls) <= _MAX_HULLS or any(not 4 <= len(hull) <= _MAX_HULL_POINTS for hull in hulls):
        raise MeshError(
            f"'{prepared.name}' has {len(hulls)} hulls with {sum(map(len, hulls))} points",
            f"Decompose it into 1–{_MAX_HULLS} hulls of 4–{_MAX_HULL_POINTS} points",
        )
    if any(not np.all(np.isfinite(hull)) for hull in hulls):
        raise MeshError(f"'{prepared.name}' has hull points that are not finite", "Repair its mesh")
    with tempfile.TemporaryDirectory(prefix="keygrasp-") as folder:
        path = Path(folder) / "hulls.obj"
        path.write_text(hulls_as_obj([deflated(hull) for hull in hulls]), encoding="ascii")
        shape: int = bullet.createCollisionShape(bullet.GEOM_MESH, fileName=str(path), physicsClientId=client)
    return shape


def visual_shape(bullet: Any, client: int, prepared: PreparedObject, index: int) -> int:
    """Make the surface that cameras see, in the colour of the ``index``-th object.

    Raises:
        MeshError: If it has more vertices or faces than the engine takes.
    """
    vertices, faces = np.asarray(prepared.vertices, dtype=float), np.asarray(prepared.faces)
    if len(vertices) > _MAX_VISUAL_VERTICES or len(faces) > _MAX_VISUAL_VERTICES:
        raise MeshError(
            f"'{prepared.name}' has {len(vertices)} vertices and {len(faces)} faces",
            f"Simplify it to at most {_MAX_VISUAL_VERTICES} of each",
        )
    shape: int = bullet.createVisualShape(
        bullet.GEOM_MESH,
        vertices=vertices.tolist(),
        indices=faces.ravel().tolist(),
        rgbaColor=[*_COLOURS[index % len(_COLOURS)], 1],
        physicsClientId=client,
    )
    return shape
