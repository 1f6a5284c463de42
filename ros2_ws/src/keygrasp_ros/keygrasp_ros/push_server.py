"""``execute_push``: what a robot's node offers that can push as well as grasp; one motion at a time with its grasps."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.action import ActionServer
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from keygrasp.errors import KeygraspError
from keygrasp.robots import CancelCheck
from keygrasp.scene import TrialOutcome
from keygrasp.scene.pushes import PlanarPush
from keygrasp_ros.conversions import outcome_message
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.goals import accept_cancel, end_goal, refuse
from keygrasp_ros.grasp_server import GraspServer
from keygrasp_ros.stages import PUSH_STAGE
from keygrasp_ros.steps import check_frame
from keygrasp_ros.topics import PUSH


class PushServer:
    """The action server of a lifecycle node that owns a robot.

    Args:
        node: The node.
        monitor: Where refusals are counted.
        grasps: The node's grasps, which share the robot.
        workspace_frame: The frame in which pushes must be given.
        work: Pushes; a :class:`KeygraspError` that it raises before anything moves refuses the goal.
    """

    def __init__(
        self,
        node: Node,
        monitor: Monitor,
        grasps: GraspServer,
        workspace_frame: str,
        work: Callable[[PlanarPush, CancelCheck], TrialOutcome],
    ) -> None:
        self._node, self._monitor, self._grasps = node, monitor, grasps
        self._frame, self._work = workspace_frame, work
        self._server = ActionServer(
            node,
            PUSH.type,
            PUSH.name,
            self._execute,
            callback_group=ReentrantCallbackGroup(),
            cancel_callback=accept_cancel,
        )

    def _execute(self, handle: ServerGoalHandle) -> PUSH.type.Result:
        goal = handle.request
        try:
            check_frame(goal.header, self._frame, "push")
            self._grasps.check_active()
            push = PlanarPush(goal.x, goal.y, goal.direction, goal.length, goal.z, goal.yaw)
            with self._grasps.idle(1.0):
                handle.publish_feedback(PUSH.type.Feedback(stage=PUSH_STAGE))
                outcome = self._work(push, lambda: handle.is_cancel_requested or not self._grasps.is_active)
        except KeygraspError as error:
            return refuse(handle, self._monitor, PUSH.type, str(error), self._node.get_clock().now().to_msg())
        result = PUSH.type.Result(outcome=outcome_message(outcome, self._node.get_clock().now().to_msg()))
        end_goal(handle, result.outcome)
        return result
