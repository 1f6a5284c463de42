"""What the camera saw: one overhead depth image with everything needed to read it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ImageError
from keygrasp.geometry.cameras import Intrinsics
from keygrasp.geometry.poses import Array

#: Depths outside this range in metres can't come from an overhead camera that is set up rightly.
PLAUSIBLE_DEPTH = (0.05, 10.0)


@dataclass(frozen=True, eq=False)
class OverheadView:
    """One depth image of the table.

    Attributes:
        depth: (H, W) float32, metres along the optical axis, NaN where invalid.
        intrinsics: Pinhole model of exactly this image (same size, same crop).
        camera_in_workspace: (4, 4) pose of the optical frame (z forward) in the workspace frame.
        stamp: Time of the image in seconds, 0 where it doesn't matter.
    """

    depth: NDArray[np.float32]
    intrinsics: Intrinsics
    camera_in_workspace: Array
    stamp: float = 0.0

    def __post_init__(self) -> None:
        depth = self.depth
        size = (self.intrinsics.height, self.intrinsics.width)
        if depth.shape != size:
            raise ImageError(
                f"the depth image has shape {depth.shape}, its intrinsics are for {size}",
                "Crop or resize the intrinsics together with the image",
            )
        if depth.dtype != np.float32:
            raise ImageError(f"depth must be float32 metres, not {depth.dtype}", "Use geometry.cameras.depth_in_metres")
        valid = depth[np.isfinite(depth)]
        if valid.size == 0:
            raise ImageError("the depth image has no valid pixel", "Check the camera; 0 and NaN count as invalid")
        if valid.min() <= 0:
            raise ImageError("the depth image has values ≤ 0", "Missing depth must be NaN, not 0")
        median = float(np.median(valid))
        if not PLAUSIBLE_DEPTH[0] <= median <= PLAUSIBLE_DEPTH[1]:
            raise ImageError(
                f"the median depth is {median:.4g} m, outside {PLAUSIBLE_DEPTH[0]}–{PLAUSIBLE_DEPTH[1]} m",
                "Is it in millimetres? Depth must be in metres",
            )
        pose = self.camera_in_workspace
        if pose.shape != (4, 4) or not np.all(np.isfinite(pose)):
            raise ImageError("camera_in_workspace must be a finite 4×4 pose", "Check the camera's transform")
        if not np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-4):
            raise ImageError("camera_in_workspace has no rotation in its upper left", "Check the camera's transform")
