"""What the pick server does where no grasp is found: a push that makes room for the fingers, if the robot can push."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from keygrasp_interfaces.msg import PerceivedScene, TrialOutcome
from rclpy.callback_groups import CallbackGroup
from rclpy.node import Node

from keygrasp.scene import GripperSpec
from keygrasp.skills.manipulator import ManipulatorSkills, load_skills
from keygrasp.skills.pregrasp import Proposal, PushPlanner
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.parameters import GRIPPER, Parameter, fill
from keygrasp_ros.scene_conversions import scene_of
from keygrasp_ros.topics import PUSH
from keygrasp_ros.waiting import Acquaintance, CancelledError, wait_for

#: Seconds that a robot has to answer, to push, and to stop after a cancel.
_ANSWER_SECONDS, _PUSH_SECONDS, _STOP_SECONDS = 5.0, 30.0, 3.0

PREGRASP = (
    Parameter(
        "pregrasp.pushes",
        0,
        "Most pushes to make room for the fingers where no grasp is found, by a robot that offers `execute_push`; "
        "0 for none.",
        0,
        20,
    ),
    Parameter(
        "pregrasp.skills", "", "What is known of pushing: a file of `keygrasp skills practise`; empty for theory."
    ),
    *GRIPPER,
)


class PreGrasp:
    """Chooses pushes, has them made, and learns from what they do, as long as the node lives.

    Args:
        node: Node that owns the client.
        read: Reads the node's parameters.
        group: A reentrant group.

    Raises:
        InputError: If the file of skills can't be used.
    """

    def __init__(self, node: Node, read: Callable[[str], Any], group: CallbackGroup) -> None:
        self._most: int = read("pregrasp.pushes")
        if not self._most:
            return
        self._gripper = fill(read, "gripper", GripperSpec)
        file = read("pregrasp.skills")
        self._skills = load_skills(Path(file).expanduser()) if file else ManipulatorSkills()
        self._planner = PushPlanner(self._skills, self._gripper)
        self._robot = SureActionClient(node, PUSH.type, PUSH.name, callback_group=group)
        self._known = Acquaintance(self._robot.server_is_ready)
        self._known()

    def push(
        self, scene: PerceivedScene, made: int, cancelled: Callable[[], bool], tell: Callable[[str], None]
    ) -> bool:
        """Make one push.

        Args:
            scene: What the camera sees.
            made: Pushes that this pick has made before.
            cancelled: Whether to stop.
            tell: Called with what is going to be done, in words.

        Returns:
            Whether something was pushed.

        Raises:
            CancelledError: If it was cancelled.
            RobotError: If the robot doesn't answer.
        """
        if made >= self._most or not scene.objects or not self._known():
            return False
        if not made:
            self._planner = PushPlanner(self._skills, self._gripper)
        proposal = self._planner.choose(scene_of(scene))
        if proposal is None:
            return False
        room = f"expecting {1e3 * proposal.room:.0f} mm of room" if proposal.room else "to see what moves"
        tell(f"pushing by {1e3 * proposal.shove.stroke:.0f} mm, {room}")
        outcome = self._execute(proposal, scene, cancelled)
        self._planner.made(proposal, completed=outcome.success)
        return outcome.outcome in (TrialOutcome.SUCCESS, TrialOutcome.CONTACT_TOO_EARLY)

    def _execute(self, proposal: Proposal, scene: PerceivedScene, cancelled: Callable[[], bool]) -> TrialOutcome:
        motion = proposal.motion
        goal = PUSH.type.Goal(header=scene.header, x=motion.x, y=motion.y, direction=motion.direction)
        goal.length, goal.z, goal.yaw = motion.length, motion.z, motion.yaw
        sent = self._robot.send_goal_async(goal)
        handle = wait_for(sent, f"the robot did not answer '{PUSH.name}'", _ANSWER_SECONDS, lambda: False)
        result = handle.get_result_async()
        try:
            answer = wait_for(result, "the robot did not finish its push", _PUSH_SECONDS, cancelled)
        except CancelledError:
            handle.cancel_goal_async()
            wait_for(result, "the robot did not stop", _STOP_SECONDS, lambda: False)
            raise
        return answer.result.outcome
