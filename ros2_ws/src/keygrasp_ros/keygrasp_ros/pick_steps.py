"""The steps of a pick, each a call to another node with a time limit, open to cancelling."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from action_msgs.msg import GoalStatus
from keygrasp_interfaces.msg import Grasp, GraspPlan, PerceivedScene, Target, TrialOutcome
from rclpy.callback_groups import CallbackGroup, ReentrantCallbackGroup
from rclpy.node import Node

from keygrasp.errors import InputError, RobotError
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.camera_feed import CameraFeed, Pair
from keygrasp_ros.conversions import seconds_of
from keygrasp_ros.lifelines import Lifeline
from keygrasp_ros.local_services import ServiceCaller
from keygrasp_ros.topics import EXECUTE, EXTRACT, GENERATE, REFINE, Endpoint
from keygrasp_ros.waiting import Acquaintance, CancelledError, wait_for, wait_until

Cancelled = Callable[[], bool]
#: Seconds that a robot has to stop after a cancel; more than it gives its own controllers.
STOP_SECONDS = 3.0


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
        self._clients = {end.name: ServiceCaller(node, end, group) for end in needed}
        self._robot = SureActionClient(node, EXECUTE.type, EXECUTE.name, callback_group=group)
        self._servers: dict[str, Callable[[], bool]] = {n: c.is_ready for n, c in self._clients.items()}
        self._servers[EXECUTE.name] = self._robot.server_is_ready
        self._known = {name: Acquaintance(functools.partial(self._lives, name)) for name in self._servers}
        self._lifelines = {e.name: Lifeline(node, e, self._known[e.name].again) for e in (*needed, EXECUTE)}

    def missing(self) -> list[str]:
        """What a pick needs and nobody offers yet: the camera, services, the robot."""
        missing = [] if self._feed.has_camera else ["a camera"]
        return missing + [f"'{name}'" for name, known in self._known.items() if not known()]

    def look(self, cancelled: Cancelled) -> Pair:
        """An image taken after now (less ``max_image_age``), with its camera model.

        Raises:
            RobotError: If none comes in time; says what is missing.
        """
        oldest = self._node.get_clock().now().nanoseconds * 1e-9 - self._image_age

        def new() -> bool:
            pair = self._feed.latest
            return pair is not None and seconds_of(pair[0].header.stamp) >= oldest

        with self._feed:
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
        self._wait_for(EXECUTE, "no robot offers", cancelled)
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
            if not self._lives(EXECUTE.name):
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

    def _wait_for(self, endpoint: Endpoint, complaint: str, cancelled: Cancelled) -> None:
        text = f"{complaint} '{endpoint.name}'"
        wait_until(self._known[endpoint.name], text, self._service_seconds, cancelled)

    def _lives(self, name: str) -> bool:
        return self._servers[name]() and not self._lifelines[name].is_cut

    def _call(self, endpoint: Endpoint, request: Any, cancelled: Cancelled) -> Any:
        client = self._clients[endpoint.name]
        start = time.monotonic()
        self._wait_for(endpoint, "nobody offers", cancelled)
        left = max(0.1, self._service_seconds - (time.monotonic() - start))
        future = client.call_async(request)

        def stopped() -> bool:
            if not self._lives(endpoint.name):
                raise RobotError(f"the node that offers '{endpoint.name}' vanished", "Start it again")
            return cancelled()

        try:
            response = wait_for(future, f"no answer from '{endpoint.name}'", left, stopped)
        except (CancelledError, RobotError):
            client.forget(future)
            raise
        if not response.ok:
            raise InputError(f"{endpoint.name}: {response.message}")
        return response


def steps_of(node: Node, planner: str) -> PickSteps:
    """The steps of a pick for a script's own node, with generous time limits."""
    settings = {"image_timeout": 5.0, "max_image_age": 0.0, "service_timeout": 30.0, "execution_timeout": 5.0}
    group = ReentrantCallbackGroup()
    return PickSteps(node, {**settings, "planner": planner}.__getitem__, CameraFeed(node), group)
