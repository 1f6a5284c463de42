"""Collision of the open gripper with what a height map shows, for many grasps at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import Z, check_grasps, local_samples, sample_local
from keygrasp.perception import smooth_heights
from keygrasp.perception.config import cv2
from keygrasp.scene import GripperSpec, HeightMap

#: Heights up to this many metres can be the table's noise and stop no finger.
TABLE_FLOOR = 0.005
#: Default metres kept to the surface beside the fingers, and beneath fingers and palm.
CLEARANCE = 0.003
#: Metres kept beneath on top of that: a height is read with about this error, and a descending arm overshoots.
_HEIGHT_ERROR = 0.002
#: Cells by which heights are spread before a rectangle is asked: samples can then lie as far apart as twice that.
_FINGER_SPREAD, _PALM_SPREAD = 1, 2


@dataclass(frozen=True, eq=False)
class Footprint:
    """What lies beneath an open gripper.

    Attributes:
        fingers: (n,) highest surface in metres beneath the two fingers.
        palm: (n,) highest surface in metres beneath the palm.
    """

    fingers: NDArray[np.float32]
    palm: NDArray[np.float32]


class FootprintModel:
    """Heights beneath gripper poses over one height map; made once, asked often."""

    def __init__(self, height_map: HeightMap, gripper: GripperSpec, clearance: float = CLEARANCE) -> None:
        self._map = height_map
        self._gripper = gripper
        self._beneath = clearance + _HEIGHT_ERROR
        self._heights = smooth_heights(height_map)
        self._beneath_finger = _spread(self._heights, _FINGER_SPREAD)
        self._beneath_palm = _spread(self._heights, _PALM_SPREAD)
        self._fingers, self._palm = _samples(gripper, clearance, height_map.cell)

    @property
    def heights(self) -> NDArray[np.float32]:
        """(H, W) the median-filtered heights that are asked."""
        return self._heights

    def finger_heights(self, grasps: Array) -> NDArray[np.float32]:
        """(n,) highest surface beneath the fingers of open grasps (n, 5), each finger widened by the clearance."""
        return self._highest(self._beneath_finger, grasps, self._fingers)

    def palm_heights(self, grasps: Array) -> NDArray[np.float32]:
        """(n,) highest surface beneath the palm of grasps (n, 5)."""
        return self._highest(self._beneath_palm, grasps, self._palm)

    def _highest(self, spread: NDArray[np.float32], grasps: Array, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(sample_local(spread, self._map, grasps, samples, repeat_edge=True).max(axis=1))

    def below(self, grasps: Array) -> Footprint:
        """Both heights of grasps (n, 5)."""
        return Footprint(self.finger_heights(grasps), self.palm_heights(grasps))

    def limits(self, footprint: Footprint, table_clearance: float) -> Array:
        """(n, 3) lowest fingertip heights at which the table, the fingers and the palm touch nothing."""
        fingers = np.where(footprint.fingers > TABLE_FLOOR, footprint.fingers + self._beneath, 0.0)
        palm = footprint.palm - self._gripper.pad_height + self._beneath
        return np.stack([np.full(len(palm), table_clearance), fingers, palm], axis=1)

    def clear(self, grasps: Array, footprint: Footprint) -> NDArray[np.bool_]:
        """(n,) whether grasps with these footprints touch nothing while they descend."""
        # A hair of tolerance, so that a grasp at exactly its limit counts as clear.
        room = grasps[:, Z] - self._beneath + 1e-6
        fingers = footprint.fingers <= np.maximum(room, TABLE_FLOOR)
        palm = footprint.palm <= room + self._gripper.pad_height
        return np.asarray(fingers & palm & (grasps[:, Z] >= 0.0))


def footprint_clear(
    height_map: HeightMap, grasps: Array, gripper: GripperSpec, clearance: float = CLEARANCE
) -> NDArray[np.bool_]:
    """Whether the open gripper can descend without touching anything.

    Args:
        height_map: Heights above the table; outside of it they go on as at its edge.
        grasps: (n, 5) x, y, z, yaw, width in metres and radians, workspace frame.
        gripper: The gripper.
        clearance: Metres kept to the surface beside the fingers; beneath fingers and palm 2 mm more are kept, for
            the error of the heights.

    Returns:
        (n,) bool. A grasp whose fingertips lie below the table is not clear.

    Raises:
        InputError: If ``grasps`` has another shape or isn't finite.
    """
    rows = check_grasps(grasps)
    model = footprint_model(height_map, gripper, clearance)
    return model.clear(rows, model.below(rows))


@lru_cache(maxsize=4)
def footprint_model(height_map: HeightMap, gripper: GripperSpec, clearance: float = CLEARANCE) -> FootprintModel:
    """The model of these, kept from the last calls: several searches ask about the same image."""
    return FootprintModel(height_map, gripper, clearance)


@lru_cache(maxsize=4)
def _samples(gripper: GripperSpec, clearance: float, cell: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Samples that together see the fingers, and the palm."""
    reach = _FINGER_SPREAD * cell
    across = gripper.pad_width / 2 + clearance
    outward, aside = _grid(-clearance, gripper.pad_thickness + clearance, across, reach)
    fingers = [local_samples(side * outward, aside, side) for side in (1.0, -1.0)]
    along, aside = _grid(-gripper.palm_along / 2, gripper.palm_along / 2, gripper.palm_across / 2, _PALM_SPREAD * cell)
    return np.concatenate(fingers, axis=1), local_samples(along, aside)


def _spread(heights: NDArray[np.float32], cells: int) -> NDArray[np.float32]:
    """Highest value within ``cells`` cells of each cell, diagonals included."""
    kernel = np.ones((2 * cells + 1, 2 * cells + 1), np.uint8)
    return np.asarray(cv2.dilate(heights, kernel), dtype=np.float32)


def _grid(along_low: float, along_high: float, across: float, reach: float) -> tuple[Array, Array]:
    """Flat along and across coordinates of samples that together see a rectangle.

    Each sees ``reach`` metres around it, so the outermost lie that far inside, and neighbours twice that far apart.
    """
    inset = min(reach, (along_high - along_low) / 2, across)
    low, high, side = along_low + inset, along_high - inset, across - inset
    along = np.linspace(low, high, int(np.ceil((high - low) / (2 * reach) - 1e-9)) + 1)
    sides = np.linspace(-side, side, int(np.ceil(side / reach - 1e-9)) + 1)
    grid = np.meshgrid(along, sides)
    return grid[0].ravel(), grid[1].ravel()
