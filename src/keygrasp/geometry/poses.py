"""Rigid transforms as 4×4 arrays, and the conversions that the whole project shares.

``a_in_b`` names the pose of frame ``a`` expressed in frame ``b``: it maps points given in ``a`` to ``b``.
Quaternions are (x, y, z, w), as in ROS and PyBullet.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError

Array = NDArray[np.float64]


def rotation_z(yaw: float) -> Array:
    """Rotation by ``yaw`` radians about z, shape (3, 3)."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def make_pose(position: ArrayLike, rotation: ArrayLike | None = None) -> Array:
    """Homogeneous transform from a position (3,) in metres and a rotation matrix (3, 3)."""
    pose = np.eye(4)
    pose[:3, 3] = np.asarray(position, dtype=float)
    if rotation is not None:
        pose[:3, :3] = np.asarray(rotation, dtype=float)
    return pose


def invert_pose(pose: Array) -> Array:
    """Inverse of a rigid transform (4, 4)."""
    rotation, position = pose[:3, :3], pose[:3, 3]
    return make_pose(-rotation.T @ position, rotation.T)


def transform_points(pose: Array, points: Array) -> Array:
    """Apply a rigid transform (4, 4) to points (..., 3)."""
    return np.asarray(points @ pose[:3, :3].T + pose[:3, 3])


def rotation_from_quaternion(quaternion: ArrayLike) -> Array:
    """Rotation matrix (3, 3) of a quaternion (x, y, z, w) that need not be normalised.

    Raises:
        InputError: If it is not finite or its norm is near zero.
    """
    q = np.asarray(quaternion, dtype=float)
    norm = float(np.linalg.norm(q))
    if q.shape != (4,) or not np.isfinite(norm) or norm < 1e-6:
        raise InputError(f"{q.tolist()} is not a rotation", "Give a quaternion (x, y, z, w) of length 1")
    x, y, z, w = q / norm
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_from_rotation(rotation: ArrayLike) -> Array:
    """Unit quaternion (x, y, z, w) with w ≥ 0 of a rotation matrix (3, 3).

    Uses the largest of the four components as pivot (Shepperd, J. Guidance and Control 1(3), 1978).
    """
    m = np.asarray(rotation, dtype=float)
    trace = np.trace(m)
    pivots = np.array([m[0, 0], m[1, 1], m[2, 2], trace])
    k = int(np.argmax(pivots))
    q = np.empty(4)
    if k == 3:
        q[:] = [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], 1 + trace]
    else:
        i, j, l = k, (k + 1) % 3, (k + 2) % 3  # noqa: E741
        q[i] = 1 - trace + 2 * m[i, i]
        q[j] = m[j, i] + m[i, j]
        q[l] = m[l, i] + m[i, l]
        q[3] = m[l, j] - m[j, l]
    q /= np.linalg.norm(q)
    return q if q[3] >= 0 else -q


def wrap_angle(angle: float) -> float:
    """Wrap an angle in radians to [-π, π)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def wrap_half_turn(angle: float) -> float:
    """Wrap to [-π/2, π/2): the yaw of a parallel gripper, whose two fingers are interchangeable."""
    return (angle + math.pi / 2) % math.pi - math.pi / 2
