"""Keypoints of an object: a fixed-size set with a mask, in a stable order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array


class KeypointKind(IntEnum):
    """What a keypoint stands for."""

    CONTOUR = 0
    SKELETON = 1
    SURFACE = 2


#: Rows of each kind in every :class:`Keypoints`; unused rows are masked out.
ROWS = {KeypointKind.CONTOUR: 64, KeypointKind.SKELETON: 24, KeypointKind.SURFACE: 40}
#: Rows in all.
TOTAL_ROWS = sum(ROWS.values())


@dataclass(frozen=True, eq=False)
class Keypoints:
    """K = :data:`TOTAL_ROWS` rows: contour rows first, then skeleton, then surface.

    Within a kind the used rows come first, in an order that depends on the shape alone: contour points along the
    outline, skeleton circles by falling radius, surface samples in raster order.

    Attributes:
        position: (K, 3) float32 workspace metres; z is the height of the surface there.
        normal: (K, 2) float32 outward unit normal in the table plane of contour rows, 0 elsewhere.
        radius: (K,) float32 metres: inscribed circle's radius of skeleton rows, 0 elsewhere.
        contacts: (K, 2, 2) float32 workspace x, y of the two tangent contacts of skeleton rows, 0 elsewhere.
        kind: (K,) int8, see :class:`KeypointKind`.
        mask: (K,) bool, true where a row is used.
    """

    position: NDArray[np.float32]
    normal: NDArray[np.float32]
    radius: NDArray[np.float32]
    contacts: NDArray[np.float32]
    kind: NDArray[np.int8]
    mask: NDArray[np.bool_]

    def __post_init__(self) -> None:
        shapes = {
            "position": (TOTAL_ROWS, 3),
            "normal": (TOTAL_ROWS, 2),
            "radius": (TOTAL_ROWS,),
            "contacts": (TOTAL_ROWS, 2, 2),
            "kind": (TOTAL_ROWS,),
            "mask": (TOTAL_ROWS,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InputError(f"keypoints: {name} has shape {getattr(self, name).shape}, expected {shape}")

    def of(self, kind: KeypointKind) -> Array:
        """Used positions (n, 3) of one kind."""
        return np.asarray(self.position[self.mask & (self.kind == kind)], dtype=float)
