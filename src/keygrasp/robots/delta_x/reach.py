"""Which grasps a Delta can reach and turn to: a filter that it gives to planners."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array, transform_points
from keygrasp.robots.delta_x.config import ToolConfig
from keygrasp.robots.delta_x.model import DeltaModel
from keygrasp.robots.delta_x.workspace import reachable

#: Radians by which a turn may pass its limit: what :meth:`ToolConfig.turn` allows too.
_TURN_SLACK = math.radians(0.5)


def yaw_limits(tool: ToolConfig) -> tuple[float, float]:
    """Lowest and highest yaw in radians of the closing axis in the robot's frame."""
    first, second = (math.radians(tool.turn_sign * (limit - tool.turn_zero)) for limit in tool.turn_limits)
    return min(first, second), max(first, second)


def half_turns(tool: ToolConfig, low: Array, high: Array) -> Array:
    """Radians, a multiple of π, to add to yaws from ``low`` to ``high`` so that the tool can make them all; else NaN.

    Both fingers are alike, so half turns are equivalent; none is made where none is needed.
    """
    least, most = yaw_limits(tool)
    fewest = np.ceil((least - _TURN_SLACK - np.asarray(low)) / np.pi)
    largest = np.floor((most + _TURN_SLACK - np.asarray(high)) / np.pi)
    return np.asarray(np.where(fewest <= largest, np.pi * np.clip(0.0, fewest, largest), np.nan))


@dataclass(frozen=True, eq=False)
class GraspReach:
    """Tells for many grasps at once whether the whole execution stays within reach; a ``ReachFilter``.

    It looks at the ends of the motion; what lies between is looked at when a grasp is executed.

    Attributes:
        model: The robot.
        tool: What it carries.
        workspace: (4, 4) pose of the workspace in the robot's frame.
        rise: Metres above the grasp that the tool rises to.
        aside: Metres to each side that it is shaken up there.
        turn: Radians to each side that it is shaken up there.
    """

    model: DeltaModel
    tool: ToolConfig
    workspace: Array
    rise: float
    aside: float = 0.0
    turn: float = 0.0

    def __call__(self, grasps: Array) -> NDArray[np.bool_]:
        """Whether each of grasps (n, 5) of x, y, z, yaw, width in the workspace can be made."""
        a, up = self.aside, self.rise
        ways = np.array([[0, 0, 0], [0, 0, up], [a, 0, up], [-a, 0, up], [0, a, up], [0, -a, up]])
        tips = grasps[:, None, :3] + ways[: 6 if a > 0 else 2]
        platform = transform_points(self.workspace, tips.reshape(-1, 3)) + np.array([0.0, 0.0, self.tool.length])
        there = reachable(self.model, platform).reshape(tips.shape[:2]).all(axis=1)
        yaw = grasps[:, 3] + math.atan2(self.workspace[1, 0], self.workspace[0, 0])
        return np.asarray(there & np.isfinite(half_turns(self.tool, yaw - self.turn, yaw + self.turn)))
