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
    grid = highest.reshape(size, size)
    measured = np.isfinite(grid)
    _fill(grid)
    clipped = np.clip(grid, cv2.erode(grid, _RING), cv2.dilate(grid, _RING))
    return HeightMap(clipped, measured, origin, config.cell)


def _fill(grid: NDArray[np.float32]) -> None:
    """Fill the cells that are -inf, in place."""
    for _ in range(_GAP_PASSES):
        hole, counts = _holes(grid)
        rows, columns = np.nonzero(hole & (counts >= _GAP_NEIGHBOURS))
        # Unmeasured neighbours sort last as +inf, so the lower median sits in the middle of the measured ones.
        ranked = np.sort(_surroundings(grid, rows, columns), axis=1)
        grid[rows, columns] = ranked[np.arange(len(ranked)), (counts[rows, columns].astype(np.intp) - 1) // 2]
    hole, counts = _holes(grid)
    count, labels = cv2.connectedComponents(hole.view(np.uint8), connectivity=8)
    if count == 1:
        return
    rows, columns = np.nonzero(hole & (counts > 0))
    around = _surroundings(grid, rows, columns)
    finite = np.isfinite(around)
    owners, values = np.repeat(labels[rows, columns], finite.sum(axis=1)), around[finite]
    order = np.lexsort((values, owners))
    owners, values = owners[order], values[order]
    first, last = np.searchsorted(owners, np.arange(count)), np.searchsorted(owners, np.arange(count), side="right")
    fill = np.zeros(count, np.float32)
    used = last > first
    fill[used] = values[(first + _HOLE_QUANTILE * (last - first - 1)).astype(np.intp)[used]]
    grid[hole] = fill[labels[hole]]


def _holes(grid: NDArray[np.float32]) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Whether each cell (H, W) is a hole, and how many of its neighbours are none."""
    hole = np.isneginf(grid)
    counts = cv2.boxFilter((~hole).view(np.uint8), -1, (3, 3), normalize=False, borderType=cv2.BORDER_CONSTANT)
    return hole, counts


def _surroundings(grid: NDArray[np.float32], rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float32]:
    """Heights (m, 8) of the eight neighbours of m cells, +inf where unmeasured."""
    padded = cv2.copyMakeBorder(grid, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=-np.inf)
    width = padded.shape[1]
    steps = np.array([dr * width + dc for dr, dc in _NEIGHBOURS])
    around = padded.ravel().take(((rows + 1) * width + columns + 1)[:, None] + steps)
    return np.where(np.isneginf(around), np.float32(np.inf), around)


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
