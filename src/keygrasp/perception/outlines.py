"""Outlines of regions of a height map, to a fraction of a cell, with outward normals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.perception.config import cv2
from keygrasp.perception.heights import sample_linear
from keygrasp.scene import HeightMap

#: Standard deviation in cells of the blur that turns a mask into a smooth field.
_BLUR = 1.0
#: Fine pixels a cell along each axis.
_FINE = 4
_MARGIN = 6
#: Window in fine pixels of the running mean along the outline.
_WINDOW = 9
#: Outlines shorter than this many cells are noise.
_MIN_LENGTH = 8.0


@dataclass(frozen=True, eq=False)
class Outline:
    """One closed outline, counter-clockwise seen from above for the outside, clockwise for a hole.

    Attributes:
        points: (n, 2) workspace x, y in metres, evenly spaced.
        normals: (n, 2) unit normals, pointing away from the object.
        length: Metres around.
        hole: Whether it bounds a hole in the object.
    """

    points: Array
    normals: Array
    length: float
    hole: bool


def trace_outlines(mask: NDArray[np.bool_], height_map: HeightMap, spacing: float) -> tuple[Outline, ...]:
    """Outlines of a region.

    Args:
        mask: (H, W) cells of the region on the map's grid.
        height_map: Gives the grid's place.
        spacing: Wanted distance in metres between neighbouring points.

    Returns:
        Longest first; empty where the mask is empty.
    """
    box = bounding_box(mask)
    if box is None:
        return ()
    crop = padded(mask[box], _MARGIN)
    field = cv2.GaussianBlur(crop, (0, 0), _BLUR)
    # A region thinner than the blur would vanish: it keeps its unblurred outline.
    source = field if field.max() > 0.6 else crop
    fine = cv2.resize(source, None, fx=_FINE, fy=_FINE, interpolation=cv2.INTER_LINEAR)
    curves, hierarchy = cv2.findContours((fine > 0.5).astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    gradient = (cv2.Sobel(field, cv2.CV_32F, 1, 0), cv2.Sobel(field, cv2.CV_32F, 0, 1))
    corner = np.array([box[0].start, box[1].start], dtype=float) - _MARGIN
    outlines = []
    for index, curve in enumerate(curves):
        # Fine pixel f has its centre at cell (f + 0.5) / _FINE - 0.5.
        cells = (curve[:, 0, ::-1].astype(float) + 0.5) / _FINE - 0.5
        outline = _outline(cells, bool(hierarchy[0, index, 3] >= 0), gradient, corner, height_map, spacing)
        if outline is not None:
            outlines.append(outline)
    return tuple(sorted(outlines, key=lambda o: -o.length))


def cells_of(mask: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(n, 2) row and column of the mask's cells in raster order; several times as fast as ``np.argwhere``."""
    return np.stack(np.divmod(np.flatnonzero(mask), mask.shape[1]), axis=1)


def padded(mask: NDArray[np.bool_], margin: int) -> NDArray[np.float32]:
    """A mask as 0 and 1 with a margin of 0."""
    wide = np.zeros((mask.shape[0] + 2 * margin, mask.shape[1] + 2 * margin), np.float32)
    wide[margin:-margin, margin:-margin] = mask
    return wide


def bounding_box(mask: NDArray[np.bool_]) -> tuple[slice, slice] | None:
    """Rows and columns that the mask's cells span; ``None`` where it is empty."""
    rows = np.flatnonzero(mask.any(axis=1))
    if len(rows) == 0:
        return None
    columns = np.flatnonzero(mask.any(axis=0))
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _outline(
    cells: Array,
    hole: bool,
    gradient: tuple[NDArray[np.float32], NDArray[np.float32]],
    corner: Array,
    height_map: HeightMap,
    spacing: float,
) -> Outline | None:
    """Smooth, resample and orient one curve of (row, column) cells; ``None`` where it is too short."""
    if len(cells) < 2 * _WINDOW:
        return None
    half = _WINDOW // 2
    wrapped = np.concatenate([cells[-half:], cells, cells[:half]])
    sums = np.vstack([np.zeros(2), np.cumsum(wrapped, axis=0)])
    smooth = (sums[_WINDOW:] - sums[:-_WINDOW]) / _WINDOW
    closed = np.vstack([smooth, smooth[:1]])
    steps = closed[1:] - closed[:-1]
    travelled = np.append(0.0, np.cumsum(np.sqrt(np.einsum("nk,nk->n", steps, steps))))
    if travelled[-1] < _MIN_LENGTH:
        return None
    count = max(8, round(travelled[-1] * height_map.cell / spacing))
    at = np.arange(count) * (travelled[-1] / count)
    even = np.column_stack([np.interp(at, travelled, closed[:, axis]) for axis in (0, 1)])
    if (_signed_area(even[:, ::-1]) < 0) != hole:
        even = even[::-1]
    normals = -np.column_stack([sample_linear(g, even) for g in gradient]).astype(float)
    lengths = np.sqrt(np.einsum("nk,nk->n", normals, normals))
    flat = np.flatnonzero(lengths <= 1e-3)
    if len(flat):
        # The object lies to the left of the outline; where the field is flat (a thin bridge) that gives the normal.
        normals[flat] = (even[(flat + 1) % count] - even[flat - 1]) * [1.0, -1.0]
        lengths[flat] = np.maximum(np.linalg.norm(normals[flat], axis=1), 1e-12)
    normals /= lengths[:, None]
    # findContours traces the centres of the outermost pixels: the edge lies half a fine pixel outside of them.
    edge = even + 0.5 / _FINE * normals[:, ::-1]
    points = height_map.xy_of(edge + corner)
    # Starting at the point farthest from the centre gives an order that moves with the shape.
    away = points - points.mean(axis=0)
    order = (np.arange(count) + np.argmax(np.einsum("nk,nk->n", away, away))) % count
    return Outline(points[order], normals[order], float(travelled[-1] * height_map.cell), hole)


def _signed_area(points: Array) -> float:
    """Area inside a closed curve of x, y points (n, 2); positive if it runs counter-clockwise."""
    x, y = points.T
    return 0.5 * float(x[:-1] @ y[1:] - y[:-1] @ x[1:] + x[-1] * y[0] - y[-1] * x[0])
