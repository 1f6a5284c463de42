"""Predicates over symbols: pure functions of rows (..., D) that return booleans (...,)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.scene.symbols import COLUMN, STABLE_STEPS

#: Largest horizontal distance in metres between fingertips and object that counts as near.
NEAR_DISTANCE = 0.05
#: Largest height in metres of the fingertips above the object's highest point that counts as near.
NEAR_HEIGHT = 0.15
#: Largest angle in radians between the closing axis and the object's shorter side that counts as aligned.
ALIGNED_ANGLE = math.radians(10)
#: Metres by which an object must have risen to count as lifted.
LIFTED_HEIGHT = 0.05
#: Metres by which the tips must be below the object's highest point to count as around it.
TIP_OVERLAP = 0.005
#: Objects whose horizontal sides differ by less than this share have no shorter side: every yaw is aligned.
_ROUND = 0.1

Booleans = NDArray[np.bool_]


def column(rows: Array, name: str) -> Array:
    """Values (...,) of one symbol."""
    return np.asarray(rows[..., COLUMN[name]])


def relative_offset(rows: Array) -> Array:
    """Middle of the object in the gripper's frame (..., 3): along the closing axis, across it, up from the tips."""
    x = column(rows, "object_x") - column(rows, "gripper_x")
    y = column(rows, "object_y") - column(rows, "gripper_y")
    z = column(rows, "object_z") - column(rows, "gripper_z")
    cos, sin = np.cos(column(rows, "gripper_yaw")), np.sin(column(rows, "gripper_yaw"))
    return np.stack([cos * x + sin * y, cos * y - sin * x, z], axis=-1)


def distance(rows: Array) -> Array:
    """Horizontal metres (...,) between the fingertips' middle and the object's."""
    return np.asarray(np.hypot(*np.moveaxis(relative_offset(rows)[..., :2], -1, 0)))


def misalignment(rows: Array) -> Array:
    """Radians (...,) in [0, π/2] between the closing axis and the object's shorter side; 0 for round objects."""
    turn = column(rows, "gripper_yaw") - column(rows, "object_yaw")
    off = np.abs(np.mod(turn, np.pi) - np.pi / 2)
    length, width = column(rows, "object_length"), column(rows, "object_width")
    return np.where(length - width < _ROUND * length, 0.0, off)


def tips_below_top(rows: Array) -> Array:
    """Metres (...,) by which the fingertips are below the object's highest point; negative above it."""
    top = column(rows, "object_z") + column(rows, "object_height") / 2
    return np.asarray(top - column(rows, "gripper_z"))


def near(rows: Array) -> Booleans:
    """Whether the fingertips are around the object or above it, within the two distances that count as near."""
    return np.asarray((distance(rows) < NEAR_DISTANCE) & (tips_below_top(rows) > -NEAR_HEIGHT))


def aligned(rows: Array) -> Booleans:
    """Whether the fingers would close over the object's shorter side, within :data:`ALIGNED_ANGLE`."""
    return np.asarray(misalignment(rows) < ALIGNED_ANGLE)


def between_fingers(rows: Array) -> Booleans:
    """Whether the object's middle is between the pads, and the tips are below its top."""
    offset = relative_offset(rows)
    half = column(rows, "gripper_width") / 2
    beside = np.abs(offset[..., 0]) <= half
    across = np.abs(offset[..., 1]) <= column(rows, "object_length") / 2
    return np.asarray(beside & across & (tips_below_top(rows) >= TIP_OVERLAP))


def touched(rows: Array) -> Booleans:
    """Whether a pad touches the object."""
    return np.asarray((column(rows, "contact_left") > 0) | (column(rows, "contact_right") > 0))


def grasped(rows: Array) -> Booleans:
    """Whether both pads touch the object."""
    return np.asarray((column(rows, "contact_left") > 0) & (column(rows, "contact_right") > 0))


def lifted(rows: Array) -> Booleans:
    """Whether the object is grasped and has risen by more than :data:`LIFTED_HEIGHT`."""
    return np.asarray(grasped(rows) & (column(rows, "height") > LIFTED_HEIGHT))


def stable(rows: Array) -> Booleans:
    """Whether the object has been lifted for :data:`keygrasp.scene.symbols.STABLE_STEPS` steps in a row."""
    return np.asarray(lifted(rows) & (column(rows, "held_steps") >= STABLE_STEPS))


#: Every predicate by its name, in the order in which a grasp makes them true.
PREDICATES = {
    "near": near,
    "aligned": aligned,
    "between_fingers": between_fingers,
    "touched": touched,
    "grasped": grasped,
    "lifted": lifted,
    "stable": stable,
}
