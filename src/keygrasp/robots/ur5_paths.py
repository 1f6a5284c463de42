"""Joint paths of a UR5 whose tool points down: what the simulated arm and a real one follow alike."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array, invert_pose
from keygrasp.robots.base import Unreachable
from keygrasp.robots.motion import MotionProfile, trapezoid
from keygrasp.robots.ur5_kinematics import BASE_IN_BASE_LINK, forward, inverse

ARM_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
#: Where the arm waits: folded to the side, outside the view of a camera over the table's centre.
HOME = np.array([-1.8, -1.7, 2.0, -0.3 - math.pi / 2, -math.pi / 2, 0.0])
#: The joints' ranges in radians and speeds in radians a second, as in the robot's URDF.
UPPER = np.array([2 * math.pi, 2 * math.pi, math.pi, 2 * math.pi, 2 * math.pi, 2 * math.pi])
LOWER = -UPPER
MAX_SPEEDS = np.array([3.15, 3.15, 3.15, 3.2, 3.2, 3.2])
#: Elbow above the straight line from shoulder to wrist, tool pointing down.
_BRANCH = {"shoulder": 1, "wrist": -1, "elbow": 1}
#: Share of the joints' speed limits, and radians a second squared, of free motions between poses.
_FREE_SPEED_SHARE = 0.5
_FREE_ACCELERATION = 4.0
#: Metres above the beginning of the descent from which a full motion comes straight down.
_APPROACH_HEIGHT = 0.08


@dataclass(frozen=True, eq=False)
class UR5Paths:
    """Plans in joint space for a UR5 at a known place with a known tool.

    Attributes:
        base_link: (4, 4) pose of ``base_link`` in the workspace.
        tool_length: Metres from ``tool0`` to the fingertips.
        time_step: Seconds between two rows of a path.
        tool_yaw: Radians about ``tool0``'s z from its x axis to the closing axis.
        lower: (6,) least joint angles in radians.
        upper: (6,) largest joint angles in radians.
        speeds: (6,) largest joint speeds in radians a second.
    """

    base_link: Array
    tool_length: float
    time_step: float
    tool_yaw: float = 0.0
    lower: Array = field(default_factory=lambda: LOWER)
    upper: Array = field(default_factory=lambda: UPPER)
    speeds: Array = field(default_factory=lambda: MAX_SPEEDS)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tool_length) and self.tool_length >= 0):
            raise InputError(f"the tool's length is {self.tool_length} m", "Give metres from tool0 to the fingertips")
        if not (math.isfinite(self.time_step) and self.time_step > 0):
            raise InputError(f"the time step is {self.time_step} s", "Give a positive number of seconds")

    def tool(self, angles: Array) -> Array:
        """Where the tips' middle is for joint angles (6,): x, y, z in metres, yaw in radians."""
        pose = self.base @ forward(angles)
        x, y, z = (pose[:3, 3] + self.tool_length * pose[:3, 2]).tolist()
        # The closing axis in the workspace: tool0's x axis turned about its z axis.
        along = math.cos(self.tool_yaw) * pose[:2, 0] + math.sin(self.tool_yaw) * pose[:2, 1]
        return np.array([x, y, z, math.atan2(along[1], along[0])])

    def along(self, path: Array, near: Array) -> Array:
        """Joint angles (n, 6) of a tool path (n, 4) of x, y, z, yaw, all on one branch of the inverse kinematics.

        Of the turns that are equivalent, those that begin nearest ``near`` (6,) are taken.

        Raises:
            Unreachable: If a pose is out of reach, or a joint would leave its range or turn too fast.
        """
        tool = np.zeros((len(path), 4, 4))
        # Pointing down: Rz(yaw) · diag(1, -1, -1), in which tool0's z axis turns the other way.
        yaw = path[:, 3] + self.tool_yaw
        cosine, sine = np.cos(yaw), np.sin(yaw)
        tool[:, 0, 0], tool[:, 0, 1] = cosine, sine
        tool[:, 1, 0], tool[:, 1, 1] = sine, -cosine
        tool[:, 2, 2], tool[:, 3, 3] = -1.0, 1.0
        tool[:, :3, 3] = path[:, :3] + [0.0, 0.0, self.tool_length]
        angles, reached = inverse(invert_pose(self.base) @ tool, **_BRANCH)
        if not np.all(reached):
            x, y, z, _ = path[np.argmin(reached)]
            raise Unreachable(f"the UR5 can't reach ({x:.3f}, {y:.3f}, {z:.3f}) m with the gripper pointing down")
        angles = np.unwrap(angles, axis=0)
        angles -= 2 * np.pi * np.round((angles[0] - near) / (2 * np.pi))
        self._check_limits(angles)
        return np.asarray(angles)

    def free(self, start: Array, goal: Array) -> Array:
        """Joint angles (n, 6) of a rest-to-rest motion, straight in joint space; all joints arrive together."""
        way = np.abs(goal - start)
        if way.max() < 1e-9:
            return goal[None]
        speed = float(np.min(_FREE_SPEED_SHARE * self.speeds / np.maximum(way, 1e-9)))
        acceleration = float(np.min(_FREE_ACCELERATION / np.maximum(way, 1e-9)))
        shares = trapezoid(1.0, speed, acceleration, self.time_step)
        return np.asarray(start + shares[:, None] * (goal - start))

    def above(self, command: Array, profile: MotionProfile) -> Array:
        """Joint angles (n, 6) of the way straight down onto where ``command`` (6,) brings the tool.

        Raises:
            Unreachable: As in :meth:`along`.
        """
        x, y, z, yaw = self.tool(command)
        down = trapezoid(_APPROACH_HEIGHT, profile.descend_speed, profile.descend_acceleration, self.time_step)
        path = np.tile([x, y, z + _APPROACH_HEIGHT, yaw], (len(down), 1))
        path[:, 2] -= down
        return self.along(path, command)

    @property
    def base(self) -> Array:
        """Pose of the Denavit-Hartenberg base in the workspace."""
        return self.base_link @ BASE_IN_BASE_LINK

    def _check_limits(self, angles: Array) -> None:
        """Refuse angles (n, 6) out of a joint's range, or that follow each other faster than it turns."""
        beyond = np.any((angles < self.lower) | (angles > self.upper), axis=0)
        if np.any(beyond):
            raise Unreachable(f"{ARM_JOINTS[int(np.argmax(beyond))]} would leave its range")
        speeds = np.abs(np.diff(angles, axis=0)).max(axis=0, initial=0.0) / self.time_step
        if np.any(speeds > self.speeds):
            joint = int(np.argmax(speeds / self.speeds))
            raise Unreachable(
                f"{ARM_JOINTS[joint]} would have to turn at {speeds[joint]:.1f} rad/s, "
                f"above its limit of {self.speeds[joint]:.2f} rad/s"
            )
