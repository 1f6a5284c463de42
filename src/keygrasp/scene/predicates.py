"""Predicates over symbols: pure functions of rows (..., D) that return booleans (...,).

Rows are NumPy arrays or torch tensors, on any device; what comes back is of the same kind.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

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

#: An array or a tensor, and one of booleans.
Values = Any
Booleans = Any


def _functions(rows: Values) -> Any:
    """NumPy or torch, whichever the rows are of; torch is not imported for this."""
    return np if isinstance(rows, (np.ndarray, np.generic)) else sys.modules["torch"]


def column(rows: Values, name: str) -> Values:
    """Values (...,) of one symbol."""
    return rows[..., COLUMN[name]]


def relative_offset(rows: Values) -> Values:
    """Middle of the object in the gripper's frame (..., 3): along the closing axis, across it, up from the tips."""
    functions = _functions(rows)
    x = column(rows, "object_x") - column(rows, "gripper_x")
    y = column(rows, "object_y") - column(rows, "gripper_y")
    z = column(rows, "object_z") - column(rows, "gripper_z")
    yaw = column(rows, "gripper_yaw")
    cos, sin = functions.cos(yaw), functions.sin(yaw)
    return functions.stack([cos * x + sin * y, cos * y - sin * x, z], -1)


def distance(rows: Values) -> Values:
    """Horizontal metres (...,) between the fingertips' middle and the object's."""
    offset = relative_offset(rows)
    return _functions(rows).hypot(offset[..., 0], offset[..., 1])


def misalignment(rows: Values) -> Values:
    """Radians (...,) in [0, π/2] between the closing axis and the object's shorter side; 0 for round objects."""
    turn = column(rows, "gripper_yaw") - column(rows, "object_yaw")
    off = abs(turn % math.pi - math.pi / 2)
    length, width = column(rows, "object_length"), column(rows, "object_width")
    return _functions(rows).where(length - width < _ROUND * length, 0.0, off)


def tips_below_top(rows: Values) -> Values:
    """Metres (...,) by which the fingertips are below the object's highest point; negative above it."""
    top = column(rows, "object_z") + column(rows, "object_height") / 2
    return top - column(rows, "gripper_z")


def near(rows: Values) -> Booleans:
    """Whether the fingertips are around the object or above it, within the two distances that count as near."""
    return (distance(rows) < NEAR_DISTANCE) & (tips_below_top(rows) > -NEAR_HEIGHT)


def aligned(rows: Values) -> Booleans:
    """Whether the fingers would close over the object's shorter side, within :data:`ALIGNED_ANGLE`."""
    return misalignment(rows) < ALIGNED_ANGLE


def between_fingers(rows: Values) -> Booleans:
    """Whether the object's middle is between the pads, and the tips are below its top."""
    offset = relative_offset(rows)
    half = column(rows, "gripper_width") / 2
    beside = abs(offset[..., 0]) <= half
    across = abs(offset[..., 1]) <= column(rows, "object_length") / 2
    return beside & across & (tips_below_top(rows) >= TIP_OVERLAP)


def touched(rows: Values) -> Booleans:
    """Whether a pad touches the object."""
    return (column(rows, "contact_left") > 0) | (column(rows, "contact_right") > 0)


def grasped(rows: Values) -> Booleans:
    """Whether both pads touch the object."""
    return (column(rows, "contact_left") > 0) & (column(rows, "contact_right") > 0)


def lifted(rows: Values) -> Booleans:
    """Whether the object is grasped and has risen by more than :data:`LIFTED_HEIGHT`."""
    return grasped(rows) & (column(rows, "height") > LIFTED_HEIGHT)


def stable(rows: Values) -> Booleans:
    """Whether the object has been lifted for :data:`keygrasp.scene.symbols.STABLE_STEPS` steps in a row."""
    return lifted(rows) & (column(rows, "held_steps") >= STABLE_STEPS)


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
