"""Shape classes, so that reports can give success by kind of object where objects have no names."""

from __future__ import annotations

from keygrasp.geometry.meshes import hull_volume
from keygrasp.geometry.poses import Array

#: Share of its convex hull that an object fills, below which it is called concave.
CONCAVE_BELOW = 0.5
#: Smallest over middle box side below which it is called flat.
FLAT_BELOW = 0.45
#: Middle over longest box side below which it is called elongated.
ELONGATED_BELOW = 0.7

SHAPE_CATEGORIES = ("concave", "flat", "elongated", "compact")


def shape_category(vertices: Array, volume: float, extents: Array) -> str:
    """Name the shape class of an object; the first that fits of concave, flat, elongated, compact.

    Args:
        vertices: (V, 3) of the surface.
        volume: What it encloses, in the cube of the vertices' unit.
        extents: (3,) sides of the oriented box, ascending, in the vertices' unit.
    """
    smallest, middle, longest = extents
    if volume < CONCAVE_BELOW * hull_volume(vertices):
        return "concave"
    if smallest < FLAT_BELOW * middle:
        return "flat"
    if middle < ELONGATED_BELOW * longest:
        return "elongated"
    return "compact"
