"""An object ready for physics: KG-1's scaling, mass and inertia, in the frame that PyBullet wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError, MeshError
from keygrasp.geometry.meshes import Faces, convex_hull, mass_properties, oriented_extents, principal_frame
from keygrasp.geometry.poses import Array
from keygrasp.objects.categories import shape_category

Rule = Literal["E", "A", "S", "M", "none"]
Source = Literal["embedded", "ycb", "dexnet", "file"]

#: KG-1: kilograms per cubic metre, and the bounds of an object's mass in kilograms.
DENSITY = 500.0
MASS_BOUNDS = (0.02, 0.5)
#: KG-1 rule E: metres of the oriented box's middle side, and the most that its longest side may have.
RULE_E_MIDDLE = 0.10
RULE_E_LONGEST = 0.22
#: KG-1 rule A: metres that the oriented box's smallest side has at most.
RULE_A_SMALLEST = 0.04
#: Rules S and M, of objects to learn from and no part of KG-1. S: metres that the smallest side has at most, and the
#: longest; M, else like E: metres of the middle side.
RULE_S_SMALLEST = 0.02
RULE_S_LONGEST = 0.20
RULE_M_MIDDLE = 0.07

#: Arrays of a stored object; an entry without them is broken.
STORED = frozenset(
    {"name", "source", "category", "vertices", "faces", "hull_points", "hull_sizes", "mass", "inertia", "volume"}
    | {"extents", "notes"}
)


@dataclass(frozen=True, eq=False)
class PreparedObject:
    """A rigid object in metres, expressed in its body frame: centre of mass, principal axes of inertia.

    Attributes:
        name: Its name in its source.
        source: Where it comes from: ``embedded``, ``ycb``, ``dexnet`` or ``file``.
        category: Kind of object for reports: the source's own, or a shape class (``categories.shape_category``).
        vertices: (V, 3) of the surface, scaled.
        faces: (F, 3) indices, counter-clockwise seen from outside.
        hulls: Convex pieces whose union stands for the object in contact, each (N, 3).
        mass: Kilograms.
        inertia: (3,) principal moments in kg·m², ascending.
        volume: Cubic metres.
        extents: (3,) sides of the smallest oriented box, ascending, in metres.
        notes: What was mended on loading or done in an unusual way, one sentence each; empty where nothing was.
    """

    name: str
    source: Source
    category: str
    vertices: Array
    faces: Faces
    hulls: tuple[Array, ...]
    mass: float
    inertia: Array
    volume: float
    extents: Array
    notes: tuple[str, ...] = ()


def scale_factor(extents: Array, rule: Rule) -> float:
    """Factor by which an object with sorted box sides ``extents`` (3,) in metres is scaled under a rule.

    ``"E"`` makes the middle side 10 cm unless the longest would exceed 22 cm, which is then 22 cm. ``"A"`` shrinks the
    object until its smallest side has 4 cm and leaves smaller ones as they are. ``"S"`` shrinks it until its smallest
    side has at most 2 cm and its longest at most 20 cm: spoons, bricks and bolts. ``"M"`` is ``"E"`` with 7 cm: apples
    and cans, which just fit between the fingers. ``"none"`` keeps the size. KG-1 knows all but ``"S"`` and ``"M"``,
    which are there to learn from.

    Raises:
        InputError: If the rule is unknown.
    """
    smallest, middle, longest = (float(side) for side in extents)
    if rule == "E":
        return min(RULE_E_MIDDLE / middle, RULE_E_LONGEST / longest)
    if rule == "M":
        return min(RULE_M_MIDDLE / middle, RULE_E_LONGEST / longest)
    if rule == "A":
        return min(RULE_A_SMALLEST, smallest) / smallest
    if rule == "S":
        return min(1.0, RULE_S_SMALLEST / smallest, RULE_S_LONGEST / longest)
    if rule == "none":
        return 1.0
    raise InputError(f"unknown scaling rule {rule!r}", f"Choose one of {', '.join(get_args(Rule))}")


def assemble(
    name: str,
    source: Source,
    vertices: Array,
    faces: Faces,
    hulls: tuple[Array, ...],
    *,
    rule: Rule,
    category: str | None = None,
    notes: tuple[str, ...] = (),
) -> PreparedObject:
    """Scale a closed mesh and give it mass, inertia and body frame.

    The mass is volume times 500 kg/m³, clipped to 0.02 to 0.5 kg; the inertia is that of a solid of even density
    with this mass. Both follow the surface; overlapping ``hulls`` don't count twice.

    Args:
        name: The object's name.
        source: Where it comes from.
        vertices: (V, 3) in metres.
        faces: (F, 3), closed; turned round here if it is inside out.
        hulls: Convex pieces (N, 3) in the frame of ``vertices``.
        rule: Scaling rule, see ``scale_factor``.
        category: Kind of object; None derives a shape class.
        notes: What was mended before.

    Raises:
        MeshError: If the mesh encloses no volume or no piece of ``hulls`` does.
    """
    extents = oriented_extents(vertices)
    scale = scale_factor(extents, rule)
    solid = mass_properties(vertices * scale, faces)
    if solid.volume < 0:
        faces = faces[:, ::-1]
        solid = mass_properties(vertices * scale, faces)
        notes = (*notes, "the faces were inside out and have been turned")
    moments, axes = principal_frame(solid.inertia)
    mass = float(np.clip(solid.volume * DENSITY, *MASS_BOUNDS))

    def to_body(points: Array) -> Array:
        return np.ascontiguousarray((points * scale - solid.center) @ axes)

    pieces = tuple(to_body(piece) for piece in solid_pieces(hulls))
    if not pieces:
        raise MeshError(f"{name}: no convex piece has a volume", "Give a closed mesh with some thickness")
    return PreparedObject(
        name=name,
        source=source,
        category=shape_category(vertices, solid.volume / scale**3, extents) if category is None else category,
        vertices=to_body(vertices),
        faces=np.ascontiguousarray(faces),
        hulls=pieces,
        mass=mass,
        inertia=moments * (mass / solid.volume),
        volume=solid.volume,
        extents=extents * scale,
        notes=notes,
    )


def solid_pieces(hulls: tuple[Array, ...]) -> tuple[Array, ...]:
    """Hull vertices of the pieces that have a volume; flat ones are left out."""
    kept = []
    for points in hulls:
        try:
            kept.append(convex_hull(points)[0])
        except MeshError:
            continue
    return tuple(kept)


def to_arrays(prepared: PreparedObject) -> dict[str, NDArray[Any]]:
    """Arrays of an object for the cache; strings become unicode arrays, so that no pickle is needed."""
    return {
        "name": np.array(prepared.name),
        "source": np.array(prepared.source),
        "category": np.array(prepared.category),
        "vertices": prepared.vertices,
        "faces": prepared.faces,
        "hull_points": np.concatenate(prepared.hulls),
        "hull_sizes": np.array([len(piece) for piece in prepared.hulls], dtype=np.int64),
        "mass": np.array(prepared.mass),
        "inertia": prepared.inertia,
        "volume": np.array(prepared.volume),
        "extents": prepared.extents,
        "notes": np.array(prepared.notes, dtype=np.str_),
    }


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> PreparedObject:
    """Inverse of ``to_arrays``."""
    splits = np.cumsum(arrays["hull_sizes"])[:-1]
    return PreparedObject(
        name=str(arrays["name"]),
        source=_as_source(str(arrays["source"])),
        category=str(arrays["category"]),
        vertices=arrays["vertices"],
        faces=arrays["faces"],
        hulls=tuple(np.split(arrays["hull_points"], splits)),
        mass=float(arrays["mass"]),
        inertia=arrays["inertia"],
        volume=float(arrays["volume"]),
        extents=arrays["extents"],
        notes=tuple(str(note) for note in arrays["notes"]),
    )


def _as_source(text: str) -> Source:
    for source in get_args(Source):
        if text == source:
            return source  # type: ignore[no-any-return]
    raise InputError(f"unknown source {text!r}", f"Choose one of {', '.join(get_args(Source))}")
