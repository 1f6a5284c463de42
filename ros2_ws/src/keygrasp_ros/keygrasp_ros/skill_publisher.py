"""What the skill robot's node publishes: motions, events, markers; and its health."""

from __future__ import annotations

import dataclasses

from rclpy.node import Node
from std_msgs.msg import Header

from keygrasp.skills.bridge import LinkState, RobotLink, SeenPose
from keygrasp.skills.core import Decision, Event, Pose
from keygrasp_ros.skill_messages import SkillTrail, event_message, motion_message
from keygrasp_ros.topics import SKILL_EVENTS, SKILL_MARKERS, SKILL_MOTION, SKILL_POSE

_MOTORS = ("", "the left motor is", "the right motor is", "both motors are")


class SkillPublisher:
    """Publishes one robot; decisions come from the link's thread, poses from the executor's.

    Args:
        node: Node that publishes.
        frame: Frame of the robot's poses.
        trail: Most points of the trail that is shown.
    """

    def __init__(self, node: Node, frame: str, trail: int) -> None:
        self._node, self._frame, self._trail = node, frame, SkillTrail(trail)
        outputs = (SKILL_MOTION, SKILL_EVENTS, SKILL_MARKERS)
        self._outputs = {each.name: node.create_publisher(each.type, each.name, each.qos) for each in outputs}
        self._skill, self._stuck = "", 0
        self._learned: set[str] = set()

    def forget(self) -> None:
        """The robot begins anew."""
        self._skill, self._stuck = "", 0
        self._learned.clear()

    def pose(self, pose: Pose) -> None:
        """Where the robot is."""
        self._trail.add(pose)

    def decision(self, decision: Decision) -> None:
        """A motion begins, or the robot stands still."""
        header = self._header()
        self._stuck, self._skill = decision.stuck, decision.skill or ""
        if Event.LOST in decision.events:
            self._learned.clear()
        elif decision.ended and Event.NEWLY_LEARNED in decision.events:
            self._learned.add(decision.ended)
        if decision.milliseconds:
            self._outputs[SKILL_MOTION.name].publish(motion_message(decision, header))
        event = event_message(decision, header)
        if event is not None:
            self._outputs[SKILL_EVENTS.name].publish(event)
        text = f"{self._skill or 'testing its motors'}\n{len(self._learned)} learned so far"
        markers = self._trail.markers(text, header, running=bool(self._skill), stuck=bool(self._stuck))
        self._outputs[SKILL_MARKERS.name].publish(markers)

    def restart(self) -> None:
        """The robot's processor was reset."""
        self._outputs[SKILL_EVENTS.name].publish(SKILL_EVENTS.type(header=self._header(), restarted=True))

    def broken(self, link: RobotLink | None) -> str:
        """What makes the robot useless until somebody acts, in words; empty where nothing does."""
        if link is not None and link.state is LinkState.LOST:
            return f"the robot on {link.path} is lost: nothing comes from it; it is listened for"
        return f"{_MOTORS[self._stuck]} stuck; the robot stands still until it moves again" if self._stuck else ""

    def details(self, link: RobotLink | None, seen: SeenPose | None, now: float) -> dict[str, object]:
        """State of the link, counts, and how old the last pose is, for ``/diagnostics``."""
        known: dict[str, object] = {
            "skill": self._skill or "none",
            "skills_learned": len(self._learned),
            "pose_age_s": "no pose yet" if seen is None else round(now - seen.taken, 2),
        }
        if link is None:
            return {"link": LinkState.CLOSED, **known}
        return {"link": link.state, **known, **dataclasses.asdict(link.counts)}

    def _header(self) -> Header:
        return Header(stamp=self._node.get_clock().now().to_msg(), frame_id=self._frame)


def missing(link: RobotLink | None, *, active: bool) -> list[str]:
    """What a robot still waits for."""
    if link is None or not active:
        return ["being activated"]
    if link.state in (LinkState.SILENT, LinkState.IDLE):
        return ["the robot to begin"]
    return [f"poses on '{SKILL_POSE.name}': {link.complaint}"] if link.complaint else []
