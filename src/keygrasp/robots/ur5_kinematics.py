"""Kinematics of the UR5 in closed form, vectorised over paths.

Frames and signs are those of the Denavit-Hartenberg parameters that Universal Robots publishes: the base frame is the
URDF's ``base`` (``base_link`` turned by π about z), the last frame is ``tool0``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array, make_pose, rotation_z

#: Denavit-Hartenberg parameters in metres and radians.
D1, A2, A3, D4, D5, D6 = 0.089159, -0.425, -0.39225, 0.10915, 0.09465, 0.0823
_D = (D1, 0.0, 0.0, D4, D5, D6)
_A = (0.0, A2, A3, 0.0, 0.0, 0.0)
_ALPHA = (np.pi / 2, 0.0, 0.0, np.pi / 2, -np.pi / 2, 0.0)
#: From ``base_link`` to the Denavit-Hartenberg base.
BASE_IN_BASE_LINK = make_pose((0.0, 0.0, 0.0), rotation_z(np.pi))


def _link(index: int, angle: Array) -> Array:
    """Transforms (..., 4, 4) of one joint, Rz(θ) Tz(d) Tx(a) Rx(α)."""
    c, s = np.cos(angle), np.sin(angle)
    ca, sa = np.cos(_ALPHA[index]), np.sin(_ALPHA[index])
    pose = np.zeros((*np.shape(angle), 4, 4))
    pose[..., 0, :] = np.stack([c, -s * ca, s * sa, _A[index] * c], axis=-1)
    pose[..., 1, :] = np.stack([s, c * ca, -c * sa, _A[index] * s], axis=-1)
    pose[..., 2, 1:] = (sa, ca, _D[index])
    pose[..., 3, 3] = 1.0
    return pose


def forward(joints: Array) -> Array:
    """Poses (..., 4, 4) of ``tool0`` in the base frame for joint angles (..., 6) in radians."""
    pose = _link(0, joints[..., 0])
    for index in range(1, 6):
        pose = pose @ _link(index, joints[..., index])
    return np.asarray(pose)


def _inverse(pose: Array) -> Array:
    result = np.zeros_like(pose)
    rotation = np.swapaxes(pose[..., :3, :3], -1, -2)
    result[..., :3, :3] = rotation
    result[..., :3, 3] = -np.einsum("...ij,...j->...i", rotation, pose[..., :3, 3])
    result[..., 3, 3] = 1.0
    return result


def inverse(tool: Array, *, shoulder: int, wrist: int, elbow: int) -> tuple[Array, NDArray[np.bool_]]:
    """Joint angles that bring ``tool0`` to poses, on one of the eight branches.

    The usual geometric solution: joint 1 from the wrist's centre seen from above, joint 5 and 6 from the tool's
    direction relative to the arm's plane, joints 2–4 as a planar arm.

    Args:
        tool: (n, 4, 4) poses of ``tool0`` in the base frame.
        shoulder: +1 or -1, on which side of the base the arm passes.
        wrist: +1 or -1, sign of joint 5.
        elbow: +1 or -1, sign of joint 3.

    Returns:
        Angles (n, 6) in (-2π, 2π), and (n,) whether each pose is within reach; angles out of reach have no meaning.
    """
    centre = tool[:, :3, 3] - D6 * tool[:, :3, 2]
    distance = np.hypot(centre[:, 0], centre[:, 1])
    ratio = D4 / np.maximum(distance, 1e-9)
    reached = ratio <= 1.0
    q1 = np.arctan2(centre[:, 1], centre[:, 0]) + shoulder * np.arccos(np.clip(ratio, -1, 1)) + np.pi / 2
    s1, c1 = np.sin(q1), np.cos(q1)
    cos5 = (tool[:, 0, 3] * s1 - tool[:, 1, 3] * c1 - D4) / D6
    q5 = wrist * np.arccos(np.clip(cos5, -1, 1))
    s5 = np.sin(q5)
    reached &= (np.abs(cos5) <= 1 + 1e-9) & (np.abs(s5) > 1e-4)
    sign = np.where(s5 >= 0, 1.0, -1.0)
    q6 = np.arctan2((-tool[:, 0, 1] * s1 + tool[:, 1, 1] * c1) * sign, (tool[:, 0, 0] * s1 - tool[:, 1, 0] * c1) * sign)
    arm = _inverse(_link(0, q1)) @ tool @ _inverse(_link(4, q5) @ _link(5, q6))
    offset = arm[:, :3, 3] - D4 * arm[:, :3, 1]
    length = np.hypot(offset[:, 0], offset[:, 1])
    cos3 = (length**2 - A2**2 - A3**2) / (2 * A2 * A3)
    reached &= np.abs(cos3) <= 1
    q3 = elbow * np.arccos(np.clip(cos3, -1, 1))
    q2 = -np.arctan2(offset[:, 1], -offset[:, 0]) + np.arcsin(
        np.clip(A3 * np.sin(q3) / np.maximum(length, 1e-9), -1, 1)
    )
    last = _inverse(_link(1, q2) @ _link(2, q3)) @ arm
    q4 = np.arctan2(last[:, 1, 0], last[:, 0, 0])
    return np.stack([q1, q2, q3, q4, q5, q6], axis=1), reached
