"""Pictures by the software renderer: exact conversions between pinhole models and OpenGL-style matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.cameras import Intrinsics
from keygrasp.geometry.poses import Array, invert_pose, make_pose

#: Clipping planes in metres; what lies beyond the far one is background.
NEAR, FAR = 0.02, 5.0

#: From the renderer's camera frame (x right, y up, z backward) to the optical frame (x right, y down, z forward).
_FLIP = np.diag([1.0, -1.0, -1.0, 1.0])


def projection_matrix(intrinsics: Intrinsics, near: float = NEAR, far: float = FAR) -> Array:
    """Clip matrix (4, 4) that makes the renderer's pixel (column, row) that of the pinhole model.

    The renderer samples column ``u`` at normalised coordinate 2u/W − 1 and row ``v`` at 1 − 2(v + 1)/H: columns count
    from the left edge, rows from the bottom edge, both at integers. Hence cx enters as it is and cy plus one.
    """
    width, height = intrinsics.width, intrinsics.height
    matrix = np.zeros((4, 4))
    matrix[0, 0] = 2 * intrinsics.fx / width
    matrix[1, 1] = 2 * intrinsics.fy / height
    matrix[0, 2] = 1 - 2 * intrinsics.cx / width
    matrix[1, 2] = 2 * (intrinsics.cy + 1) / height - 1
    matrix[2, 2] = -(far + near) / (far - near)
    matrix[2, 3] = -2 * far * near / (far - near)
    matrix[3, 2] = -1
    return matrix


def view_matrix(camera_in_workspace: Array) -> Array:
    """World-to-eye matrix (4, 4) of the pose of an optical frame."""
    return invert_pose(camera_in_workspace @ _FLIP)


def metric_depth(buffer: NDArray[np.float32], near: float = NEAR, far: float = FAR) -> NDArray[np.float32]:
    """Metres along the optical axis (H, W) of a depth buffer in [0, 1]; NaN for background."""
    depth = far * near / (far - (far - near) * buffer.astype(np.float64))
    depth[(buffer >= 1.0) | (depth >= 0.999 * far) | (depth <= near)] = np.nan
    return depth.astype(np.float32)


def pinhole(width: int, height: int, field_of_view: float) -> Intrinsics:
    """Intrinsics with square pixels, centred, with a vertical ``field_of_view`` in radians."""
    focal = height / 2 / math.tan(field_of_view / 2)
    return Intrinsics(width, height, focal, focal, (width - 1) / 2, (height - 1) / 2)


def look_at(eye: ArrayLike, target: ArrayLike) -> Array:
    """Pose (4, 4) of an optical frame at ``eye`` that looks at ``target`` with the workspace's z upwards in the image.

    Raises:
        InputError: If the two points coincide or lie above each other (the upward direction is undefined).
    """
    eye_point = np.asarray(eye, dtype=float)
    forward = np.asarray(target, dtype=float) - eye_point
    right = np.cross(forward, [0.0, 0.0, 1.0])
    if np.linalg.norm(right) < 1e-9:
        raise InputError(
            "eye and target lie above each other", "Use geometry.cameras.overhead_pose to look straight down"
        )
    forward /= np.linalg.norm(forward)
    right /= np.linalg.norm(right)
    return make_pose(eye_point, np.stack([right, np.cross(forward, right), forward], axis=1))


def render(
    bullet: Any, client: int, intrinsics: Intrinsics, pose: Array
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """What a camera at the pose (4, 4) of an optical frame sees: colours (H, W, 4), and the depth buffer (H, W)."""
    width, height = intrinsics.width, intrinsics.height
    _, _, colour, depth, _ = bullet.getCameraImage(
        width,
        height,
        view_matrix(pose).T.ravel().tolist(),
        projection_matrix(intrinsics).T.ravel().tolist(),
        renderer=bullet.ER_TINY_RENDERER,
        flags=bullet.ER_NO_SEGMENTATION_MASK,
        lightDirection=[0.4, -0.6, 1.0],
        physicsClientId=client,
    )
    return (
        np.asarray(colour, dtype=np.uint8).reshape(height, width, 4),
        np.asarray(depth, dtype=np.float32).reshape(height, width),
    )
