"""A user's own mesh files: OBJ, STL and PLY, from one file or a folder of them.

Nothing but the named file is ever opened: materials and textures are ignored, and nothing is fetched.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from keygrasp.errors import InputError, MeshError
from keygrasp.extras import require
from keygrasp.geometry.meshes import Faces, hull_volume
from keygrasp.geometry.poses import Array
from keygrasp.geometry.repair import repair
from keygrasp.objects.cache import cached, content_key
from keygrasp.objects.decomposition import DecompositionConfig, decompose, was_cut
from keygrasp.objects.objfile import MAX_ELEMENTS, parse_obj
from keygrasp.objects.prepared import STORED, PreparedObject, Rule, Source, assemble, from_arrays, to_arrays
from keygrasp.scene import GripperSpec

Unit = Literal["m", "mm", "cm", "in"]

SUFFIXES = (".obj", ".stl", ".ply")
METRES_PER_UNIT: dict[Unit, float] = {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "in": 0.0254}
MAX_FILE_BYTES = 256 * 2**20
#: Metres: without a stated unit, a mesh that is longer is taken for one in millimetres and refused.
SUSPECT_ABOVE = 1.5
#: Metres that the smallest side of an object needs so that pads, which stay off the table, still meet it.
FLATTEST = 0.003
#: Metres of the longest side that still fits into the camera's view of the table (0.35 m under KG-1).
LONGEST = 0.35
#: Share of its box that an object fills, above which it has no thin part by which it could be held instead.
_BLOCKY = 0.9


def mesh_files(folder: Path) -> tuple[Path, ...]:
    """Mesh files directly in a folder, sorted by name.

    Raises:
        MeshError: If the folder is missing or holds none.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    except OSError as error:
        raise MeshError(f"can't read the folder {folder}: {error.strerror or error}", "Check the path") from error
    if not found:
        raise MeshError(f"{folder} holds no mesh file", f"Put {', '.join(SUFFIXES)} files there")
    return tuple(found)


def prepare_file(
    path: str | Path,
    unit: Unit | None = None,
    rule: Rule = "none",
    *,
    gripper: GripperSpec | None = None,
    decomposition: DecompositionConfig | None = None,
) -> PreparedObject:
    """Prepare a mesh file for physics.

    Args:
        path: An OBJ, STL or PLY file of at most 256 MiB and two million triangles.
        unit: Unit of its numbers. None means metres, and a mesh longer than 1.5 m is then refused as a likely
            mistake; ``"m"`` states metres.
        rule: Scaling rule of KG-1; ``"none"`` keeps the size.
        gripper: What must be able to hold it; None takes KG-1's.
        decomposition: How finely it is cut for contact.

    Raises:
        MeshError: If the file is missing, empty, broken, too big, not finite, flat, in a suspect unit or, after
            scaling, too flat or too large for the gripper or the table; the message says which.
    """
    path = Path(path)
    if unit is not None and unit not in METRES_PER_UNIT:
        raise InputError(f"unknown unit {unit!r}", f"Choose one of {', '.join(get_args(Unit))}")
    data = _read(path)
    prepared = prepare_bytes(
        data, path.suffix.lower(), path.stem, str(path), "file", unit=unit, rule=rule, decomposition=decomposition
    )
    check_graspable(prepared, gripper or GripperSpec(), str(path))
    return prepared


def prepare_bytes(
    data: bytes,
    suffix: str,
    name: str,
    label: str,
    source: Source,
    *,
    unit: Unit | None,
    rule: Rule,
    category: str | None = None,
    decomposition: DecompositionConfig | None = None,
) -> PreparedObject:
    """Prepare a mesh file's content, cached; see ``prepare_file``.

    Args:
        data: The file's content.
        suffix: ``.obj``, ``.stl`` or ``.ply``.
        name: Name of the object.
        label: What error messages call it.
        source: Where it comes from.
        unit: See ``prepare_file``.
        rule: See ``prepare_file``.
        category: Kind of object; None derives a shape class.
        decomposition: How finely it is cut for contact.
    """
    decomposition = decomposition or DecompositionConfig()
    key = content_key(source, name, suffix, unit, rule, category, repr(decomposition), data)

    def compute() -> PreparedObject:
        vertices, faces = parse_mesh(data, suffix)
        vertices = in_metres(vertices, unit)
        return prepare_mesh(vertices, faces, name, source, rule=rule, category=category, decomposition=decomposition)

    try:
        return from_arrays(cached("objects", key, STORED, lambda: to_arrays(compute()), worth_keeping=was_cut))
    except MeshError as error:
        raise MeshError(f"{label}: {error.problem}", error.remedy) from error


def prepare_mesh(
    vertices: Array,
    faces: Faces,
    name: str,
    source: Source,
    *,
    rule: Rule,
    category: str | None,
    decomposition: DecompositionConfig | None = None,
) -> PreparedObject:
    """Repair a mesh in metres, cut it into convex pieces and assemble the object.

    Raises:
        MeshError: If it can't be repaired.
    """
    mended = repair(vertices, faces)
    cut = decompose(mended.vertices, mended.faces, decomposition)
    notes = (*mended.notes, *cut.notes)
    return assemble(name, source, mended.vertices, mended.faces, cut.pieces, rule=rule, category=category, notes=notes)


def parse_mesh(data: bytes, suffix: str) -> tuple[Array, Faces]:
    """Vertices (V, 3) in the file's unit and triangles (F, 3) of an OBJ, STL or PLY file's content.

    Raises:
        MeshError: If the format is unknown, the content broken or empty, or it has too many elements.
    """
    if suffix not in SUFFIXES:
        raise MeshError(f"files of type '{suffix}' are not known", f"Convert it to one of {', '.join(SUFFIXES)}")
    if not data.strip():
        raise MeshError("the file is empty", "Export the mesh anew")
    if suffix == ".obj":
        document = parse_obj(data)
        return document.vertices, document.faces
    _check_counts(data, suffix)
    trimesh: Any = require("trimesh", "grasp")
    try:
        mesh = trimesh.load_mesh(io.BytesIO(data), file_type=suffix[1:], process=False, resolver=None)
        vertices = np.array(mesh.vertices, dtype=float)
        faces = np.array(mesh.faces, dtype=np.int64)
    except Exception as error:  # a parser of foreign bytes may fail in any way; the user needs one clear message
        # A binary file cut short is tried as text, with a module that needn't be there: not what is wrong with it.
        why = "" if isinstance(error, ImportError) else f" ({error})"
        raise MeshError(f"not a valid {suffix[1:].upper()} file{why}", "Export the mesh anew") from error
    if max(len(vertices) // 3, len(faces)) > MAX_ELEMENTS:
        raise MeshError(f"the mesh has more than {MAX_ELEMENTS:,} triangles", "Simplify it first")
    return vertices, faces


def in_metres(vertices: Array, unit: Unit | None) -> Array:
    """Convert vertices (V, 3) to metres, refusing what was hardly meant.

    Raises:
        MeshError: If no unit is stated and the mesh would be longer than 1.5 m.
    """
    if unit is not None:
        return vertices * METRES_PER_UNIT[unit]
    finite = vertices[np.isfinite(vertices).all(axis=1)]
    longest = float(np.ptp(finite, axis=0).max()) if len(finite) else 0.0
    if longest > SUSPECT_ABOVE:
        raise MeshError(
            f"it would be {longest:.4g} m long if its numbers were metres",
            "State its unit, most likely millimetres: unit='mm' (--unit mm); unit='m' if it really is that long"
            if longest * METRES_PER_UNIT["mm"] <= SUSPECT_ABOVE
            else "That is too long in millimetres as well: check the file's numbers, or state their unit (--unit)",
        )
    return vertices


def check_graspable(prepared: PreparedObject, gripper: GripperSpec, label: str) -> None:
    """Refuse an object that no grasp of this gripper on this table could hold.

    Raises:
        MeshError: If its smallest side is below 3 mm, its longest above 0.35 m, or it is a block whose smallest
            side exceeds the opening.
    """
    smallest, _, longest = (float(side) for side in prepared.extents)
    remedy = "Check its unit (--unit) or scale it by a rule (--rule A or E)"
    if smallest < FLATTEST:
        problem = f"it is {smallest * 1e3:.2g} mm thick, too flat for fingers that stay off the table"
        raise MeshError(f"{label}: {problem}; {FLATTEST * 1e3:.0f} mm are needed", remedy)
    if longest > LONGEST:
        raise MeshError(f"{label}: it is {longest:.3g} m long, too large for the table's view of {LONGEST} m", remedy)
    blocky = hull_volume(prepared.vertices) > _BLOCKY * float(prepared.extents.prod())
    if smallest > gripper.max_opening and blocky:
        raise MeshError(
            f"{label}: its smallest side is {smallest * 1e3:.0f} mm, too large for the gripper's "
            f"{gripper.max_opening * 1e3:.0f} mm",
            remedy,
        )


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise MeshError(f"{path} is a folder", "Name one file, or use mesh_files() on the folder")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise MeshError(f"{path} has {size / 2**20:.0f} MiB, more than {MAX_FILE_BYTES // 2**20}", "Simplify it")
        return path.read_bytes()
    except OSError as error:
        raise MeshError(f"can't read {path}: {error.strerror or error}", "Check the path") from error


def _check_counts(data: bytes, suffix: str) -> None:
    """Refuse STL and PLY content that claims or holds too much, before a parser reserves memory for it."""
    if suffix == ".stl":
        counts = [data.count(b"facet") // 2 if data.lstrip()[:5].lower() == b"solid" else len(data) // 50]
    else:
        header = data[: 2**16].split(b"end_header", 1)[0]
        counts = [int(count) for count in re.findall(rb"element\s+\S+\s+([0-9]{1,18})", header)]
        if any(count > len(data) for count in counts):
            raise MeshError("the PLY header claims more elements than the file can hold", "Export the mesh anew")
    if any(count > MAX_ELEMENTS for count in counts):
        raise MeshError(f"the mesh has more than {MAX_ELEMENTS:,} vertices or triangles", "Simplify it first")
