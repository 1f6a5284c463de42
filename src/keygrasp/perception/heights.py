"""Depth pixels to a metric height map."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.perception.config import PerceptionConfig, cv2
from keygrasp.perception.table import Plane, workspace_points
from keygrasp.scene import HeightMap, OverheadView

#: Measured neighbours, of eight, that a gap between pixels must have to be filled from them.
_GAP_NEIGHBOURS = 3
_GAP_PASSES = 2
#: A larger hole takes this quantile of the heights around it: a shadow behind an object touches the table as well.
_HOLE_QUANTILE = 0.25
_NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
_RING = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.uint8)


def build_height_map(view: OverheadView, plane: Plane, config: PerceptionConfig | None = None) -> HeightMap:
    """Project a view on the grid around the workspace's origin.

    Every cell takes its highest pixel; a cell that rises above all of its neighbours, or lies below them all, is
    clipped to them (a flying pixel at a depth edge). Gaps between pixels take the lower median of their measured
    neighbours; larger holes take a low quantile of the heights around them, so that no fill is higher than what
    was measured beside it.
    """
    return map_of_points(workspace_points(view), plane, config or PerceptionConfig())


def map_of_points(points: NDArray[np.float32], plane: Plane, config: PerceptionConfig) -> HeightMap:
    """Height map of workspace points (3, N); see :func:`build_height_map`."""
    size = config.cells
    origin = np.full(2, -0.5 * (size - 1) * config.cell)
    # Cell i covers i to i + 1 of these coordinates, so truncation finds it.
    columns, rows = (points[:2] - (origin - 0.5 * config.cell).astype(np.float32)[:, None]) / np.float32(config.cell)
    inside = np.flatnonzero((rows >= 0) & (rows < size) & (columns >= 0) & (columns < size))
    heights = (plane.normal.astype(np.float32) @ points).take(inside) - np.float32(plane.offset)
    cells = rows.take(inside).astype(np.intp) * size + columns.take(inside).astype(np.intp)
    highest = np.full(size * size, -np.inf, np.float32)
    np.maximum.at(highest, cells, heights)
    measured = np.isfinite(highest.reshape(size, size))
    grid = _filled(highest.reshape(size, size))
    clipped = np.clip(grid, cv2.erode(grid, _RING), cv2.dilate(grid, _RING))
    return HeightMap(clipped, measured, origin, config.cell)


def _filled(grid: NDArray[np.float32]) -> NDArray[np.float32]:
    """The grid with its cells that are -inf filled."""
    # With a border of unmeasured cells, the neighbours of a cell lie at the same steps of the flat index everywhere.
    padded = cv2.copyMakeBorder(grid, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=-np.inf)
    flat, width = padded.reshape(-1), padded.shape[1]
    steps = np.array([dr * width + dc for dr, dc in _NEIGHBOURS])
    for _ in range(_GAP_PASSES):
        hole, counts = _holes(padded)
        cells = np.flatnonzero(hole & (counts >= _GAP_NEIGHBOURS))
        # Unmeasured neighbours sort first as -inf, the lower median sits in the middle of the others.
        ranked = np.sort(flat.take(cells[:, None] + steps), axis=1)
        measured = counts.reshape(-1)[cells].astype(np.intp)
        flat[cells] = ranked[np.arange(len(cells)), len(steps) - measured + (measured - 1) // 2]
    hole, counts = _holes(padded)
    if hole.any():
        _fill_holes(flat, hole, np.flatnonzero(hole & (counts > 0)), steps)
    return np.ascontiguousarray(padded[1:-1, 1:-1])


def _fill_holes(
    flat: NDArray[np.float32], hole: NDArray[np.bool_], edges: NDArray[np.intp], steps: NDArray[np.int_]
) -> None:
    """Fill each connected hole of a flat grid, in place, from the neighbours of the cells at its edge."""
    count, labels = cv2.connectedComponents(hole.view(np.uint8), connectivity=8)
    labels = labels.reshape(-1)
    around = flat.take(edges[:, None] + steps)
    finite = np.isfinite(around)
    owners, values = np.repeat(labels[edges], finite.sum(axis=1)), around[finite]
    order = np.lexsort((values, owners))
    owners, values = owners[order], values[order]
    first, last = np.searchsorted(owners, np.arange(count)), np.searchsorted(owners, np.arange(count), side="right")
    fill = np.zeros(count, np.float32)
    used = last > first
    fill[used] = values[(first + _HOLE_QUANTILE * (last - first - 1)).astype(np.intp)[used]]
    cells = np.flatnonzero(hole)
    flat[cells] = fill[labels[cells]]


def _holes(padded: NDArray[np.float32]) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Whether each cell of a grid with a border is a hole (the border isn't), and how many neighbours are none."""
    hole = np.isneginf(padded)
    counts = cv2.boxFilter((~hole).view(np.uint8), -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT)
    hole[[0, -1]] = hole[:, [0, -1]] = False
    return hole, counts


@lru_cache(maxsize=4)
def smooth_heights(height_map: HeightMap) -> NDArray[np.float32]:
    """Heights (H, W) after a 3×3 median, which keeps edges in place and removes most of the pixel noise.

    Every stage asks for those of the same map, so the latest are kept; they are read-only.
    """
    smooth: NDArray[np.float32] = cv2.medianBlur(height_map.heights, 3)
    smooth.setflags(write=False)
    return smooth


def sample_linear(image: NDArray[np.float32], cells: Array) -> NDArray[np.float32]:
    """Bilinear samples (n,) of an image (H, W) at fractional (row, column) cells (n, 2); the edge is repeated."""
    if len(cells) == 0:
        return np.zeros(0, np.float32)
    places = cells.astype(np.float32)
    sampled = cv2.remap(
        image,
        np.ascontiguousarray(places[:, 1:2]),
        np.ascontiguousarray(places[:, 0:1]),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return np.asarray(sampled[:, 0], dtype=np.float32)
