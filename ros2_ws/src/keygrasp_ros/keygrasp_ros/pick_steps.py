"""The steps of a pick, each a call to another node with a time limit, open to cancelling."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from keygrasp_interfaces.msg import Grasp, GraspPlan, PerceivedScene, Target, TrialOutcome
from rclpy.action import ActionClient
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from keygrasp.errors import InputError, RobotError
from keygrasp_ros.camera_feed import CameraFeed, Pair
from keygrasp_ros.conversions import seconds_of
from keygrasp_ros.topics import EXECUTE, EXTRACT, GENERATE, REFINE, Endpoint
from keygrasp_ros.waiting import CancelledError, wait_for, wait_until

Cancelled = Callable[[], bool]
#: Seconds that a robot has to stop after a cancel.
STOP_SECONDS = 2.0


class PickSteps:
    """Calls the nodes that do the work.

    Args:
        node: Node that owns the clients.
        read: Reads the node's parameters.
        feed: Where images come from.
        group: A reentrant group, so that answers arrive while a callback waits.
    """

    def __init__(self, node: Node, read: Callable[[str], Any], feed: CameraFeed, group: CallbackGroup) -> None:
        self._node = node
        self._feed = feed
        self._image_seconds: float = read("image_timeout")
        self._image_age: float = read("max_image_age")
        self._service_seconds: float = read("service_timeout")
        self._execution_seconds: float = read("execution_timeout")
        #: Whether the refiner is asked.
        self.refines: bool = read("planner") == "refined"
        needed = (EXTRACT, GENERATE, REFINE) if self.refines else (EXTRACT, GENERATE)
        self._clients = {end.name: node.create_client(end.type, end.name, callback_group=group) for end in needed}
        self._robot = ActionClient(node, EXECUTE.type, EXECUTE.name, callback_group=group)

    def missing(self) -> list[str]:
        """What a pick needs and nobody offers yet: the camera, services, the robot."""
        missing = [] if self._feed.latest is not None else [self._feed.complaint()]
        missing += [f"'{name}'" for name, client in self._clients.items() if not client.service_is_ready()]
        return missing if self._robot.server_is_ready() else [*missing, f"'{EXECUTE.name}'"]

    def look(self, cancelled: Cancelled) -> Pair:
        """An image taken after now (less ``max_image_age``), with its camera model.

        Raises:
            RobotError: If none comes in time; says what is missing.
        """
        oldest = self._node.get_clock().now().nanoseconds * 1e-9 - self._image_age

        def new() -> bool:
            pair = self._feed.latest
            return pair is not None and seconds_of(pair[0].header.stamp) >= oldest

        try:
            wait_until(new, "no new image", self._image_seconds, cancelled)
        except RobotError as error:
            raise RobotError(
                f"{self._feed.complaint()} within {self._image_seconds:g} s",
                "Is the camera running, and its clock right?",
            ) from error
        pair = self._feed.latest
        if pair is None:
            raise RobotError("the camera's image vanished")
        return pair

    def extract(self, pair: Pair, cancelled: Cancelled) -> PerceivedScene:
        """What the image shows."""
        request = EXTRACT.type.Request(depth=pair[0], camera_info=pair[1])
        return self._call(EXTRACT, request, cancelled).scene

    def generate(self, scene: PerceivedScene, target: Target, cancelled: Cancelled) -> GraspPlan:
        """Grasps on the target, best first."""
        return self._call(GENERATE, GENERATE.type.Request(scene=scene, target=target), cancelled).plan

    def refine(self, scene: PerceivedScene, plan: GraspPlan, cancelled: Cancelled) -> tuple[GraspPlan, str]:
        """The refined plan; where the refiner has none, the geometric one with a warning in words."""
        try:
            return self._call(REFINE, REFINE.type.Request(scene=scene, plan=plan), cancelled).plan, ""
        except (InputError, RobotError) as error:
            warning = f"not refined, taking the geometric grasp: {error}"
            self._node.get_logger().warning(warning)
            return plan, warning

    def execute(
        self, plan: GraspPlan, place_at: Grasp | None, cancelled: Cancelled, on_stage: Callable[[str], None]
    ) -> TrialOutcome:
        """Let the robot execute the plan's grasp, and place; a cancel is passed on, and its result awaited.

        Raises:
            RobotError: If the robot does not answer, or vanishes on the way.
        """
        wait_until(self._robot.server_is_ready, f"no robot offers '{EXECUTE.name}'", self._service_seconds, cancelled)
        goal = EXECUTE.type.Goal(header=plan.header, grasp=plan.grasp, place=place_at is not None)
        if place_at is not None:
            goal.place_at = place_at
            if place_at.z <= 0:
                goal.place_at.z = plan.grasp.z
        sent = self._robot.send_goal_async(goal, feedback_callback=lambda m: on_stage(m.feedback.stage))
        handle = wait_for(sent, f"the robot did not answer '{EXECUTE.name}'", self._service_seconds, lambda: False)
        if not handle.accepted:
            raise RobotError("the robot refused the grasp", "Its log says why")
        result = handle.get_result_async()

        def here() -> bool:
            if not self._robot.server_is_ready():
                raise RobotError("the robot's node vanished while executing", "Where the arm is now is not known")
            return True

        try:
            answer = wait_for(
                result, "the robot did not finish", self._execution_seconds, lambda: here() and cancelled()
            )
        except CancelledError:
            handle.cancel_goal_async()
            answer = wait_for(result, "the robot did not stop", STOP_SECONDS, lambda: not here())
        if answer.status == GoalStatus.STATUS_ABORTED and answer.result.outcome.outcome == TrialOutcome.REFUSED:
            raise RobotError(f"the robot refused the grasp: {answer.result.outcome.message}")
        return answer.result.outcome

    def _call(self, endpoint: Endpoint, request: Any, cancelled: Cancelled) -> Any:
        client = self._clients[endpoint.name]
        start = time.monotonic()
        wait_until(client.service_is_ready, f"nobody offers '{endpoint.name}'", self._service_seconds, cancelled)
        left = max(0.1, self._service_seconds - (time.monotonic() - start))
        future = client.call_async(request)
        try:
            response = wait_for(future, f"no answer from '{endpoint.name}'", left, cancelled)
        except (CancelledError, RobotError):
            client.remove_pending_request(future)
            raise
        if not response.ok:
            raise InputError(f"{endpoint.name}: {response.message}")
        return response
