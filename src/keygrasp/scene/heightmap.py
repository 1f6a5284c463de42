"""The height of what stands on the table, on a metric grid in the workspace frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array


@dataclass(frozen=True, eq=False)
class HeightMap:
    """Heights above the table plane; cell [i, j] is centred at ``origin + cell · (j, i)``.

    Attributes:
        heights: (H, W) float32 metres above the table, holes filled; rows run along +y, columns along +x.
        measured: (H, W) bool, true where a depth pixel fell into the cell, false where it was filled.
        origin: (2,) workspace x, y in metres of the centre of cell [0, 0].
        cell: Edge of a cell in metres.
    """

    heights: NDArray[np.float32]
    measured: NDArray[np.bool_]
    origin: Array
    cell: float

    def __post_init__(self) -> None:
        if self.heights.ndim != 2 or self.heights.shape != self.measured.shape:
            raise InputError(f"heights {self.heights.shape} and measured {self.measured.shape} must be one 2-D shape")
        if not self.cell > 0:
            raise InputError(f"cell must be positive, not {self.cell}")

    def cells_of(self, xy: Array) -> Array:
        """Fractional (row, column) of workspace points (..., 2)."""
        return np.asarray(((xy - self.origin) / self.cell)[..., ::-1])

    def xy_of(self, cells: Array) -> Array:
        """Workspace points (..., 2) of fractional (row, column)."""
        return np.asarray(cells[..., ::-1] * self.cell + self.origin)

    def sample(self, xy: Array) -> NDArray[np.float32]:
        """Heights (...,) at workspace points (..., 2), nearest cell; 0 (the table) outside the map."""
        rows, columns = np.moveaxis(np.rint(self.cells_of(xy)).astype(np.intp), -1, 0)
        height, width = self.heights.shape
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        values = self.heights[np.where(inside, rows, 0), np.where(inside, columns, 0)]
        return np.where(inside, values, np.float32(0.0))


@dataclass(frozen=True, eq=False)
class Segment:
    """One object's region of a height map.

    Attributes:
        mask: (H, W) bool, the cells that belong to the object.
        centroid: (2,) workspace x, y in metres.
        area: Square metres seen from above.
        top: Height in metres of its highest part (robust against single pixels).
        touches_border: Whether it reaches the edge of what the camera sees, so that part of it may be hidden.
    """

    mask: NDArray[np.bool_]
    centroid: Array
    area: float
    top: float
    touches_border: bool
