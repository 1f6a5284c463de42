"""Symbols of a grasp that is only imagined over an image: the object as perceived, the gripper where the grasp is."""

from __future__ import annotations

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.geometry.rectangles import smallest_rectangle
from keygrasp.perception import Perceived
from keygrasp.scene import PlanarGrasp, SymbolicState
from keygrasp.scene.symbols import COLOURS, COLUMN, SHAPES

_GRIPPER = [COLUMN[name] for name in ("gripper_x", "gripper_y", "gripper_z", "gripper_yaw", "gripper_width")]


def seen_object(perceived: Perceived, index: int) -> SymbolicState:
    """The symbols of one perceived object; the gripper's are those of a grasp at the origin.

    An overhead image shows no underside: the object is taken to stand on the table.
    """
    segment, height_map = perceived.segments[index], perceived.height_map
    footprint = smallest_rectangle(height_map.xy_of(np.argwhere(segment.mask).astype(float)))
    x, y = footprint.centre.tolist()
    return SymbolicState(
        object_x=x,
        object_y=y,
        object_z=segment.top / 2,
        object_yaw=footprint.yaw,
        object_length=footprint.length,
        object_width=footprint.width,
        object_height=segment.top,
        object_shape=SHAPES[-1],
        object_colour=COLOURS[-1],
        gripper_x=0.0,
        gripper_y=0.0,
        gripper_z=0.0,
        gripper_yaw=0.0,
        gripper_width=0.0,
    )


def with_grasp(state: SymbolicState, grasp: PlanarGrasp) -> SymbolicState:
    """The same object with the gripper at a grasp, before it closes."""
    return state.replace(
        gripper_x=grasp.x, gripper_y=grasp.y, gripper_z=grasp.z, gripper_yaw=grasp.yaw, gripper_width=grasp.width
    )


def rows_with_grasps(rows: Array, grasps: Array) -> Array:
    """Rows (N, D) of objects with the grippers at grasps (N, 5), before they close; yaws lie in [-π/2, π/2)."""
    rows = np.array(rows, dtype=float)
    rows[:, _GRIPPER] = grasps
    return rows
