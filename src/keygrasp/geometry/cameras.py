"""Pinhole cameras and depth images (REP-118: metres as float32 with NaN for invalid)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ImageError
from keygrasp.geometry.poses import Array, make_pose

_MAX_PIXELS = 4096 * 4096


@dataclass(frozen=True)
class Intrinsics:
    """Pinhole model without distortion; pixel centres lie at integer coordinates.

    Attributes:
        width: Columns of the image in pixels.
        height: Rows of the image in pixels.
        fx: Focal length along x in pixels.
        fy: Focal length along y in pixels.
        cx: Principal point's column in pixels.
        cy: Principal point's row in pixels.
    """

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    def __post_init__(self) -> None:
        if not (self.width > 0 and self.height > 0 and self.width * self.height <= _MAX_PIXELS):
            raise ImageError(f"an image of {self.width}×{self.height} pixels can't be used", "Check the camera_info")
        if not all(np.isfinite(v) and v > 0 for v in (self.fx, self.fy)):
            raise ImageError(f"focal lengths fx={self.fx}, fy={self.fy} must be positive", "Check K in the camera_info")
        if not (-0.5 <= self.cx <= self.width - 0.5 and -0.5 <= self.cy <= self.height - 0.5):
            raise ImageError(
                f"principal point ({self.cx}, {self.cy}) lies outside the {self.width}×{self.height} image",
                "Was the image cropped or resized without its intrinsics?",
            )

    @property
    def matrix(self) -> Array:
        """Camera matrix K, shape (3, 3)."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])


def deproject(depth: NDArray[np.floating], intrinsics: Intrinsics) -> Array:
    """Points (H, W, 3) in the camera's optical frame of a depth image (H, W) in metres; NaN stays NaN."""
    rows, columns = np.indices(depth.shape, dtype=float)
    x = (columns - intrinsics.cx) / intrinsics.fx * depth
    y = (rows - intrinsics.cy) / intrinsics.fy * depth
    return np.stack([x, y, np.asarray(depth, dtype=float)], axis=-1)


def project(points: Array, intrinsics: Intrinsics) -> Array:
    """Pixels (..., 2) as (column, row) of points (..., 3) in the optical frame with z > 0."""
    z = points[..., 2]
    column = points[..., 0] / z * intrinsics.fx + intrinsics.cx
    row = points[..., 1] / z * intrinsics.fy + intrinsics.cy
    return np.stack([column, row], axis=-1)


def depth_in_metres(image: NDArray[np.generic], encoding: str) -> NDArray[np.float32]:
    """Convert a depth image (H, W) to float32 metres with NaN for invalid.

    Args:
        image: Raw image, float32 for ``32FC1``, uint16 for ``16UC1`` (or its synonym ``mono16``).
        encoding: ROS encoding; ``32FC1`` is metres, ``16UC1`` millimetres with 0 for invalid (REP-118).

    Raises:
        ImageError: If the encoding isn't depth, the type doesn't fit, or values can't be metres.
    """
    if image.ndim != 2:
        raise ImageError(f"a depth image has two axes, this one has shape {image.shape}", "Give one channel")
    if encoding == "32FC1":
        if image.dtype != np.float32:
            raise ImageError(f"encoding 32FC1 needs float32 data, not {image.dtype}", "Check the encoding")
        depth = image.astype(np.float32)
    elif encoding in ("16UC1", "mono16"):
        if image.dtype != np.uint16:
            raise ImageError(f"encoding {encoding} needs uint16 data, not {image.dtype}", "Check the encoding")
        depth = image.astype(np.float32) * np.float32(0.001)
    else:
        raise ImageError(f"encoding '{encoding}' is not a depth image", "Give 32FC1 (metres) or 16UC1 (millimetres)")
    depth[~(depth > 0) | ~np.isfinite(depth)] = np.nan
    return depth


def overhead_pose(height: float) -> Array:
    """Pose (4, 4) in the workspace frame of a camera ``height`` metres above its centre, looking straight down.

    The optical frame has x along the workspace's x, y along its −y, z down.
    """
    return make_pose((0.0, 0.0, height), np.diag([1.0, -1.0, -1.0]))
