"""Node: a small robot on a serial line that develops its own skills; poses in, motions, events and markers out.

A lifecycle node, for it owns the robot: configuring opens the port and stops the robot, activating lets it develop,
deactivating stops it, cleaning up closes the port; so does every end of the process. The robot asks where it is when it
stands still; an answer is the first pose on ``skills/pose`` that was taken after that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.callback_groups import ReentrantCallbackGroup
from std_srvs.srv import Trigger

from keygrasp.errors import KeygraspError
from keygrasp.skills.bridge import RobotLink, SeenPose
from keygrasp.skills.core import Decision
from keygrasp_ros.conversions import seconds_of
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.lifecycle import OwningNode
from keygrasp_ros.parameters import reader
from keygrasp_ros.running import node_main
from keygrasp_ros.skill_messages import planar_pose
from keygrasp_ros.skill_publisher import SkillPublisher, missing
from keygrasp_ros.skill_setup import PARAMETERS, EmulatedRobotAndCamera, start_of, times_of
from keygrasp_ros.topics import SKILL_POSE, SKILL_STORE


class SkillRobot(OwningNode):
    """Owns the robot."""

    def __init__(self, **options: Any) -> None:
        super().__init__("skill_robot", **options)
        self._read = reader(self, PARAMETERS)
        self._frame: str = self._read("plane_frame")
        self._link: RobotLink | None = None
        self._parts: list[Callable[[], object]] = []
        self._active = False
        self._seen: SeenPose | None = None
        self._publisher = SkillPublisher(self, self._frame, self._read("trail"))
        self._monitor = Monitor(
            self,
            lambda: missing(self._link, active=self._active),
            details=lambda: self._publisher.details(self._link, self._seen, self._now()),
            broken=lambda: self._publisher.broken(self._link),
        )
        group = ReentrantCallbackGroup()
        self.create_subscription(SKILL_POSE.type, SKILL_POSE.name, self._on_pose, SKILL_POSE.qos, callback_group=group)
        self.create_service(SKILL_STORE.type, SKILL_STORE.name, self._store, callback_group=group)
        if self._read("autostart"):
            self.start("the skill robot's node")

    # Lifecycle

    def _set_up(self) -> None:
        """Open the port, and stop a robot that still runs."""
        port = self._read("port")
        if self._read("emulate") != "no":
            emulated = EmulatedRobotAndCamera(self, self._read)
            self._parts.append(emulated.close)
            port = emulated.path
        self._link = RobotLink(
            port,
            lambda: self._seen,
            clock=self._now,
            on_decision=self._on_decision,
            on_restart=self._on_restart,
            times=times_of(self._read),
        )
        self._link.open()

    def _begin(self) -> None:
        """Let the robot develop."""
        self._publisher.forget()
        if self._link is not None:
            self._link.start(start_of(self._read))
        self._active = True

    def _come_to_rest(self) -> None:
        was_active, self._active = self._active, False
        if was_active and self._link is not None and not self._link.halt():
            self._monitor.fault("the robot did not say that it has stopped; it may still run")

    def _put_away(self) -> None:
        """Close the port."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        while self._parts:
            self._parts.pop()()

    # In

    def _on_pose(self, message: PoseStamped) -> None:
        try:
            pose = planar_pose(message, self._frame)
        except KeygraspError as error:
            self._monitor.fault(f"pose not used: {error}")
            return
        self._seen = SeenPose(seconds_of(message.header.stamp), pose)  # an empty stamp is older than any question
        self._publisher.pose(pose)

    def _store(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        link = self._link
        if link is None or not self._active:
            response.message = "the robot doesn't run. Activate the node"
            return response
        try:
            response.message = f"stored in slot {link.store()}"
            response.success = True
        except KeygraspError as error:
            response.message = str(error)
        return response

    # From the link's thread

    def _on_decision(self, decision: Decision) -> None:
        with self._monitor.timed():
            self._publisher.decision(decision)

    def _on_restart(self, hung: bool) -> None:
        self._monitor.fault(f"the robot's processor was reset{' by its watchdog' if hung else ''}; it goes on")
        self._publisher.restart()

    def _now(self) -> float:
        return float(self.get_clock().now().nanoseconds) * 1e-9


def main() -> int:
    """Run the node."""
    return node_main(SkillRobot)
