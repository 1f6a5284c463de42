"""The skill robot's node: its parameters, the link that they stand for, and an emulated robot with its camera."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from std_msgs.msg import Header

from keygrasp.skills.bridge import LinkTimes
from keygrasp.skills.core import LEARNERS, SKILLS, STRATEGIES
from keygrasp.skills.link import Frame, start_frame
from keygrasp.skills.millirobot import Millirobot
from keygrasp.skills.terminals import SimulatedTerminal
from keygrasp_ros.parameters import AUTOSTART, Parameter
from keygrasp_ros.skill_messages import pose_stamped
from keygrasp_ros.topics import SKILL_POSE

#: Pictures a second of the emulated robot's camera.
_CAMERA_RATE = 30.0

PARAMETERS = (
    Parameter("port", "/dev/ttyUSB0", "Serial port of the robot."),
    Parameter("plane_frame", "skill_plane", "Frame of the robot's poses: on the floor, z up; x to the robot's front."),
    Parameter("seed", 1, "Seed of the learner's choices.", 1, 2**31 - 1),
    Parameter("strategy", "motivated", "How the robot chooses what to practise.", choices=STRATEGIES),
    Parameter("learner", "regression", "How it learns; `frozen` runs what it knows.", choices=LEARNERS),
    Parameter("only", "", "The one skill to run, again and again; empty for all.", choices=("", *SKILLS)),
    Parameter("forget", False, "Whether it begins with nothing learned instead of with what is in its memory."),
    Parameter(
        "pose_timeout",
        0.7,
        "Seconds after the robot's question in which a pose that was taken later has to come.",
        0.05,
        0.95,
    ),
    Parameter("link_timeout", 3.0, "Seconds of silence after which the robot counts as lost.", 0.5, 60.0),
    Parameter("reconnect", 1.0, "Seconds between tries to open a port that has vanished.", 0.05, 60.0),
    Parameter("trail", 3000, "Most points of the trail that is shown; one a millimetre.", 2, 100_000),
    Parameter(
        "emulate", "no", "Drive a simulated robot instead, run by the core on this machine or by the emulated "
        "RP2040 image, and publish its camera's poses.", choices=("no", "core", "image"),
    ),
    Parameter("emulator_scale", 1.0, "How many times faster than real the simulated robot is.", 1.0, 100.0),
    AUTOSTART,
)  # fmt: skip


def times_of(read: Callable[[str], Any]) -> LinkTimes:
    """How long the link waits."""
    return LinkTimes(pose=read("pose_timeout"), silence=read("link_timeout"), reconnect=read("reconnect"))


def start_of(read: Callable[[str], Any]) -> Frame:
    """The frame that starts the learner."""
    return start_frame(
        read("seed"),
        strategy=read("strategy"),
        learner=read("learner"),
        only=read("only") or None,
        forget=read("forget"),
    )


class EmulatedRobotAndCamera:
    """A simulated robot on a pseudo-terminal, whose camera publishes poses as a real one would.

    Args:
        node: Node that publishes.
        read: Reads the node's parameters.
    """

    def __init__(self, node: Node, read: Callable[[str], Any]) -> None:
        self._node, self._frame = node, read("plane_frame")
        self.robot = Millirobot(read("seed"))
        self._terminal = SimulatedTerminal(
            self.robot, scale=read("emulator_scale"), firmware=read("emulate") == "image"
        )
        self._terminal.__enter__()
        self._publisher = node.create_publisher(SKILL_POSE.type, SKILL_POSE.name, SKILL_POSE.qos)
        self._timer = node.create_timer(1.0 / _CAMERA_RATE, self._look)

    @property
    def path(self) -> str:
        """Path of its port."""
        return self._terminal.path

    def _look(self) -> None:
        header = Header(stamp=self._node.get_clock().now().to_msg(), frame_id=self._frame)
        pose = self.robot.look()
        if pose is not None:
            message: PoseStamped = pose_stamped(pose, header)
            self._publisher.publish(message)

    def close(self) -> None:
        """Switch both off."""
        self._node.destroy_timer(self._timer)
        self._terminal.close()
        self._node.destroy_publisher(self._publisher)
