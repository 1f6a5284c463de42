"""Clients of an arm's and its gripper's controllers: calls block, within limits, and are open to a cancel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, GripperCommand
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectoryPoint

from keygrasp.errors import RobotError
from keygrasp.geometry.poses import Array
from keygrasp.scene import GripperSpec
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.waiting import Acquaintance, CancelledError, wait_for, wait_until

Cancelled = Callable[[], bool]
#: Seconds for a controller to answer a goal, and to stop after a cancel.
_ANSWER_SECONDS = 3.0
_STOP_SECONDS = 2.0
_Result = FollowJointTrajectory.Result
_WORDS = {
    _Result.INVALID_GOAL: "invalid goal",
    _Result.INVALID_JOINTS: "invalid joints",
    _Result.OLD_HEADER_TIMESTAMP: "old header timestamp",
    _Result.PATH_TOLERANCE_VIOLATED: "path tolerance violated",
    _Result.GOAL_TOLERANCE_VIOLATED: "goal tolerance violated",
}


class PathLeftError(RobotError):
    """The controller gave up because the arm left its path by more than its tolerance."""


class _Controller:
    """What both have in common: a goal, its result, and a cancel that waits for the standstill."""

    def __init__(self, node: Node, kind: Any, name: str, what: str) -> None:
        self.name, self._what = name, what
        self._client = SureActionClient(node, kind, name, callback_group=ReentrantCallbackGroup())
        #: Whether somebody offers the action and knows of us.
        self.is_here = Acquaintance(self._client.server_is_ready)

    def close(self) -> None:
        """Leave."""
        self._client.destroy()

    def _run(self, goal: Any, seconds: float, cancelled: Cancelled, watch: Callable[[], None]) -> Any:
        """The result with its status.

        Raises:
            CancelledError: If ``cancelled()`` became true; the motion has ended then.
            RobotError: If nobody answers, the goal is rejected, or doesn't end in time; or ``watch()`` raises it.
        """
        wait_until(self.is_here, f"nobody offers '{self.name}'", _ANSWER_SECONDS, cancelled)
        sent = self._client.send_goal_async(goal)
        handle = wait_for(sent, f"no answer from '{self.name}'", _ANSWER_SECONDS, lambda: False)
        if not handle.accepted:
            raise RobotError(f"{self._what} rejected the goal on '{self.name}'", "Its log says why")
        result = handle.get_result_async()

        def stop_asked() -> bool:
            watch()
            return cancelled()

        try:
            return wait_for(result, f"{self._what} did not finish", seconds, stop_asked)
        except CancelledError:
            self._take(self._stop(handle, result).result)
            raise
        except RobotError as error:
            try:
                self._stop(handle, result)
            except RobotError as still_moving:
                raise RobotError(f"{error.problem}; {still_moving.problem}", error.remedy) from error
            raise

    def _take(self, result: Any) -> None:
        """Learn from the result of a cancelled goal."""

    def _stop(self, handle: Any, result: Any) -> Any:
        handle.cancel_goal_async()
        return wait_for(result, f"{self._what} did not end a cancelled goal", _STOP_SECONDS, lambda: False)


class ArmController(_Controller):
    """Follows joint trajectories through ``control_msgs/action/FollowJointTrajectory``.

    Args:
        node: Node that owns the client.
        name: Name of the action.
        joints: Names of the joints, in the order of the columns of a path.
        margin: Seconds by which a motion may take longer than planned.
    """

    def __init__(self, node: Node, name: str, joints: Sequence[str], margin: float) -> None:
        super().__init__(node, FollowJointTrajectory, name, "the arm's controller")
        self._joints, self._margin = list(joints), margin

    def follow(self, rows: Array, time_step: float, cancelled: Cancelled, watch: Callable[[], None]) -> None:
        """Follow joint angles (n, 6), one row a time step, from where the arm is; returns at the end.

        Args:
            rows: Radians.
            time_step: Seconds.
            cancelled: Asked on the way; true stops the arm.
            watch: Called on the way; what it raises stops the arm too.

        Raises:
            CancelledError: If it was cancelled; the arm stands then.
            PathLeftError: If the arm left its path.
            RobotError: If it can't or doesn't.
        """
        goal = FollowJointTrajectory.Goal()
        goal.trajectory.joint_names = self._joints
        goal.trajectory.points = _points(rows, time_step)
        goal.goal_time_tolerance = _duration(self._margin)
        answer = self._run(goal, len(rows) * time_step + self._margin, cancelled, watch)
        code = answer.result.error_code
        if answer.status == GoalStatus.STATUS_SUCCEEDED and code == _Result.SUCCESSFUL:
            return
        kind = PathLeftError if code == _Result.PATH_TOLERANCE_VIOLATED else RobotError
        words = answer.result.error_string or _WORDS.get(code, f"error code {code}")
        raise kind(f"the arm's controller gave up: {words}")


class GripperController(_Controller):
    """Drives a gripper through ``control_msgs/action/GripperCommand``.

    Args:
        node: Node that owns the client.
        name: Name of the action.
        spec: The gripper.
        positions: What its driver takes for the largest opening and for closed pads; all between is linear.
        seconds: Time limit of a movement.
    """

    def __init__(
        self, node: Node, name: str, spec: GripperSpec, positions: tuple[float, float], seconds: float
    ) -> None:
        super().__init__(node, GripperCommand, name, "the gripper")
        if positions[0] == positions[1]:
            raise RobotError(f"the gripper's positions for open and closed are both {positions[0]}")
        self._spec, self._seconds = spec, seconds
        self._open, self._closed = positions
        #: Metres between the pads as last heard; the largest before the first movement.
        self.opening = spec.max_opening
        #: Whether they pressed on something then.
        self.stalled = False

    def move(self, opening: float, cancelled: Cancelled, watch: Callable[[], None]) -> None:
        """Drive the pads to an opening in metres; returns when they are there or press on something.

        Raises:
            CancelledError: If it was cancelled.
            RobotError: If it can't or doesn't.
        """
        share = opening / self._spec.max_opening
        goal = GripperCommand.Goal()
        goal.command.position = self._closed + share * (self._open - self._closed)
        goal.command.max_effort = self._spec.force
        answer = self._run(goal, self._seconds, cancelled, watch)
        result = answer.result
        self._take(result)
        # Controllers that don't allow stalling abort where the pads meet something: that is a grasp, not a fault.
        if not (result.reached_goal or result.stalled or answer.status == GoalStatus.STATUS_SUCCEEDED):
            raise RobotError(
                f"the gripper stopped {self.opening * 1e3:.0f} mm open on its way to {opening * 1e3:.0f} mm"
            )

    def _take(self, result: GripperCommand.Result) -> None:
        share = (result.position - self._closed) / (self._open - self._closed)
        if not math.isfinite(share):
            raise RobotError(f"the gripper says that it is at {result.position}", "Check its driver")
        self.opening, self.stalled = float(share * self._spec.max_opening), bool(result.stalled)


def _points(rows: Array, time_step: float) -> list[JointTrajectoryPoint]:
    """Points with velocities: differences on the way, rest at the end."""
    velocities = np.gradient(rows, time_step, axis=0) if len(rows) > 1 else np.zeros_like(rows)
    velocities[-1] = 0.0
    return [
        JointTrajectoryPoint(
            positions=row.tolist(), velocities=speed.tolist(), time_from_start=_duration((index + 1) * time_step)
        )
        for index, (row, speed) in enumerate(zip(rows, velocities, strict=True))
    ]


def _duration(seconds: float) -> Duration:
    whole, part = divmod(round(seconds * 1e9), 10**9)
    return Duration(sec=whole, nanosec=part)
