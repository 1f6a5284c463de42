"""A UR5's driver of the tests' own, in a process of its own: joint states, a trajectory action and a gripper action.

It follows trajectories ten times as fast as asked. Parameters can be set while it runs: ``mode`` makes it misbehave
(:data:`MODES`), ``freeze_in`` names a stage in which it stands still until that is set to another one.
"""

from __future__ import annotations

import contextlib
import time

import numpy as np
import rclpy
from control_msgs.action import FollowJointTrajectory, GripperCommand
from keygrasp_interfaces.action import ExecuteGrasp
from keygrasp_ros.robot_state import transform
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.poses import make_pose
from keygrasp.robots.ur5_paths import ARM_JOINTS, HOME, UR5Paths

MODES = (
    "well",  # follows everything
    "reject",  # rejects trajectories
    "abort",  # gives up in the middle of a motion, with an error in words
    "path_left",  # gives up where it is lowest, with the error code for a path that was left
    "endless",  # never ends a motion, but takes a cancel
    "deaf",  # never ends a motion and takes no cancel
    "short",  # says that it arrived, half-way
    "silent",  # publishes no joint states while it moves, which never ends
    "nan",  # publishes angles that are none
    "strangers",  # publishes the joints of another arm
    "drop",  # lets the object fall while it lifts
    "gripper_stuck",  # the gripper stops in the middle, neither there nor pressing
    "gripper_reject",  # rejects gripper goals
)
ENDLESS = ("endless", "deaf", "silent")
BASE = make_pose((-0.45, 0.0, 0.15))
TOOL_LENGTH = 0.2
#: Times as fast as asked.
HASTE = 10.0
#: Seconds before a motion, where a stage is waited for: the word which stage it belongs to travels on another topic.
WORD_SECONDS = 0.05
#: Metres between the pads on the object.
OBJECT_WIDTH = 0.04


class FakeUR5(Node):
    """Moves in its memory alone."""

    def __init__(self) -> None:
        super().__init__("fake_ur5")
        self.declare_parameter("mode", "well")
        self.declare_parameter("object", True)
        self.declare_parameter("moving", False)  # to be read, like the next
        self.declare_parameter("holding", False)
        self.declare_parameter("freeze_in", "")
        self.stage = ""
        self.angles, self.opening = HOME.copy(), 0.085
        self._paths = UR5Paths(BASE, TOOL_LENGTH, 0.02)
        self._states = self.create_publisher(JointState, "joint_states", 10)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._static = self.create_publisher(TFMessage, "/tf_static", latched)
        stamp = self.get_clock().now().to_msg()
        self._static.publish(TFMessage(transforms=[transform("base_link", "workspace", BASE, stamp)]))
        group = ReentrantCallbackGroup()
        self.create_timer(0.02, self._publish, group)
        feedback = ExecuteGrasp.Impl.FeedbackMessage
        self.create_subscription(feedback, "execute_grasp/_action/feedback", self._hear, 10, callback_group=group)
        options = {"callback_group": group, "cancel_callback": self._cancel}
        self._arm = ActionServer(
            self,
            FollowJointTrajectory,
            "scaled_joint_trajectory_controller/follow_joint_trajectory",
            self._follow,
            goal_callback=lambda _: GoalResponse.REJECT if self.mode == "reject" else GoalResponse.ACCEPT,
            **options,
        )
        self._gripper = ActionServer(
            self,
            GripperCommand,
            "gripper_controller/gripper_cmd",
            self._grip,
            goal_callback=lambda _: GoalResponse.REJECT if self.mode == "gripper_reject" else GoalResponse.ACCEPT,
            **options,
        )

    @property
    def mode(self) -> str:
        return self.get_parameter("mode").value

    def _hear(self, message) -> None:
        self.stage = message.feedback.stage

    def _is_frozen(self) -> bool:
        return self.stage == self.get_parameter("freeze_in").value != ""

    def _wait_for_word(self) -> None:
        if self.get_parameter("freeze_in").value:
            time.sleep(WORD_SECONDS)

    def _cancel(self, _: object) -> CancelResponse:
        return CancelResponse.REJECT if self.mode == "deaf" else CancelResponse.ACCEPT

    def _publish(self) -> None:
        if self.mode == "silent" and self.get_parameter("moving").value:
            return
        # The gripper's joint first and the arm's joints backwards: nobody promises an order.
        names = ["finger_joint", *reversed(ARM_JOINTS)]
        positions = [0.1, *self.angles[::-1].tolist()]
        if self.mode == "strangers":
            names = [f"other_{name}" for name in names]
        if self.mode == "nan":
            positions = [float("nan")] * len(positions)
        message = JointState(name=names, position=positions)
        message.header.stamp = self.get_clock().now().to_msg()
        self._states.publish(message)

    def _follow(self, handle):
        trajectory = handle.request.trajectory
        result = FollowJointTrajectory.Result()
        if sorted(trajectory.joint_names) != sorted(ARM_JOINTS):
            handle.abort()
            result.error_code = FollowJointTrajectory.Result.INVALID_JOINTS
            return result
        order = [trajectory.joint_names.index(name) for name in ARM_JOINTS]
        times = [point.time_from_start.sec + point.time_from_start.nanosec * 1e-9 for point in trajectory.points]
        rows = np.array([point.positions for point in trajectory.points])[:, order]
        self._say("moving", True)
        try:
            return self._move(handle, result, np.array(times), rows)
        finally:
            self._say("moving", False)

    @property
    def held(self) -> bool:
        return self.get_parameter("holding").value

    def _say(self, name, value):
        self.set_parameters([Parameter(name, value=value)])

    def _move(self, handle, result, times, rows):
        self._wait_for_word()
        start, elapsed, last = self.angles.copy(), 0.0, time.monotonic()
        lowest = self._paths.tool(rows[-1])[2] < 0.1
        while True:
            now = time.monotonic()
            elapsed, last = elapsed + (0.0 if self._is_frozen() else (now - last) * HASTE), now
            share = elapsed / times[-1]
            self.angles = np.array(
                [
                    np.interp(elapsed, [0.0, *times], [first, *column])
                    for first, column in zip(start, rows.T, strict=True)
                ]
            )
            if handle.is_cancel_requested:
                handle.canceled()
                return result
            if self.mode == "drop" and self._paths.tool(self.angles)[2] > 0.15:
                self._say("holding", False)
            fault = self._fault(share, lowest)
            if fault is not None:
                handle.abort()
                result.error_code, result.error_string = fault
                return result
            if (share >= 1.0 and self.mode not in ENDLESS) or (share >= 0.5 and self.mode == "short"):
                handle.succeed()
                return result
            time.sleep(0.005)

    def _fault(self, share, lowest):
        if self.mode == "abort" and share > 0.5:
            return FollowJointTrajectory.Result.GOAL_TOLERANCE_VIOLATED, "a motor is too warm"
        if self.mode == "path_left" and lowest and share > 0.5:
            return FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED, ""
        return None

    def _grip(self, handle):
        self._wait_for_word()
        goal = handle.request.command.position
        low = self._paths.tool(self.angles)[2] < 0.1
        target, holds = goal, False
        if self.mode == "gripper_stuck":
            target = (self.opening + goal) / 2
        elif goal < OBJECT_WIDTH and self.get_parameter("object").value and (low or self.held):
            target, holds = OBJECT_WIDTH, True
        if not holds:
            self._say("holding", False)
        while (self._is_frozen() or abs(self.opening - target) > 1e-4) and not handle.is_cancel_requested:
            if not self._is_frozen():
                self.opening += float(np.clip(target - self.opening, -0.002, 0.002))
            time.sleep(0.005)
        if holds and abs(self.opening - target) <= 1e-4:
            self._say("holding", True)
        result = GripperCommand.Result(position=self.opening)
        result.reached_goal = abs(self.opening - goal) < 1e-3
        result.stalled = not result.reached_goal and self.mode != "gripper_stuck" and not handle.is_cancel_requested
        if handle.is_cancel_requested:
            handle.canceled()
        elif result.reached_goal:
            handle.succeed()
        else:
            handle.abort()  # as controllers do that don't allow stalling
        return result


def main() -> None:
    rclpy.init()
    executor = MultiThreadedExecutor(num_threads=4)
    executor.add_node(FakeUR5())
    with contextlib.suppress(ExternalShutdownException, KeyboardInterrupt):
        executor.spin()


if __name__ == "__main__":
    main()
