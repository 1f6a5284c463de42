"""Poses in, motions, events and markers out of a robot that develops skills; the link has millimetres, ROS metres."""

from __future__ import annotations

import math
from collections import deque

from geometry_msgs.msg import Pose as PoseMessage
from geometry_msgs.msg import PoseStamped, Quaternion, Vector3
from keygrasp_interfaces.msg import SkillEvent, SkillMotion
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from keygrasp.errors import InputError
from keygrasp.skills.core import Decision, Event, Pose
from keygrasp_ros.conversions import pose_matrix
from keygrasp_ros.markers import blank_marker, point_message, rgba
from keygrasp_ros.steps import check_frame

_MM = 1e3
#: Farther away than this, in metres, is no place on the plane but a wrong unit; the robot's numbers end at 32 m.
_FARTHEST = 30.0
#: Least cosine between the robot's upward axis and the plane's.
_UPRIGHT = 0.7
#: Edge of the robot's cube, and width of its trail, in metres.
_BODY, _TRAIL_WIDTH = 0.033, 0.002
#: Way in metres after which the trail gets another point.
_TRAIL_STEP = 0.001
_BLUE, _GREEN, _RED, _GREY = (0, 114, 178), (0, 158, 115), (213, 94, 0), (150, 150, 150)


def planar_pose(message: PoseStamped, frame: str) -> Pose:
    """The robot's place on the plane: millimetres and radians.

    Raises:
        InputError: If the frame is another one, the pose isn't finite, or the robot can't stand like that.
    """
    check_frame(message.header, frame, "pose of the robot")
    pose = pose_matrix(message.pose.position, message.pose.orientation, "pose of the robot")
    if pose[2, 2] < _UPRIGHT:
        raise InputError("the robot's pose is tilted", f"Give z upward in '{frame}', and x to the robot's front")
    if max(abs(pose[0, 3]), abs(pose[1, 3])) > _FARTHEST:
        raise InputError(f"the robot is {pose[0, 3]:g}, {pose[1, 3]:g} m away", "Give metres")
    return Pose(_MM * pose[0, 3], _MM * pose[1, 3], math.atan2(pose[1, 0], pose[0, 0]))


def pose_stamped(pose: Pose, header: Header) -> PoseStamped:
    """The same in a message."""
    return PoseStamped(header=header, pose=_placed(pose, 0.0))


def motion_message(decision: Decision, header: Header) -> SkillMotion:
    """The motion that begins with a decision."""
    return SkillMotion(
        header=header,
        left=decision.left / 1e3,
        right=decision.right / 1e3,
        duration=decision.milliseconds / 1e3,
        skill=decision.skill or "",
    )


def event_message(decision: Decision, header: Header) -> SkillEvent | None:
    """What happened with a decision; ``None`` for nothing."""
    events = decision.events
    if not events:
        return None
    event = SkillEvent(header=header)
    if Event.STARTED in events:
        event.started = decision.skill or ""
        event.motivation, event.novelty = decision.motivation, decision.novelty
        event.progress, event.difficulty = decision.progress, decision.difficulty
    if Event.ENDED in events:
        event.ended, event.fitness = decision.ended or "", decision.fitness
        event.learned = Event.NEWLY_LEARNED in events
    if Event.ABANDONED in events:
        event.abandoned = decision.ended or ""
    event.body_changed = Event.LOST in events
    if Event.MOTOR_STUCK in events:
        event.left_stuck, event.right_stuck = bool(decision.stuck & 1), bool(decision.stuck & 2)
    return event


class SkillTrail:
    """Where the robot was, and what it does, as markers.

    Args:
        length: Most points of the trail.
    """

    def __init__(self, length: int) -> None:
        self._places: deque[tuple[float, float]] = deque(maxlen=length)
        self._pose: Pose | None = None

    def add(self, pose: Pose) -> None:
        """A new pose of the robot."""
        self._pose = pose
        place = pose.x / _MM, pose.y / _MM
        if not self._places or math.dist(place, self._places[-1]) >= _TRAIL_STEP:
            self._places.append(place)

    def markers(self, text: str, header: Header, *, running: bool, stuck: bool) -> MarkerArray:
        """Trail, robot and a text above it."""
        trail = blank_marker(header, "trail", Marker.LINE_STRIP)
        trail.scale.x, trail.color = _TRAIL_WIDTH, rgba(_BLUE)
        trail.points = [point_message((x, y, 0.001)) for x, y in list(self._places)]
        markers = [trail] if len(trail.points) > 1 else []
        if self._pose is not None:
            colour = rgba(_RED if stuck else _GREEN if running else _GREY)
            markers += [_body(self._pose, header, colour), _nose(self._pose, header), _label(self._pose, header, text)]
        return MarkerArray(markers=markers)


def _body(pose: Pose, header: Header, colour: ColorRGBA) -> Marker:
    body = blank_marker(header, "robot", Marker.CUBE)
    body.scale, body.color, body.pose = Vector3(x=_BODY, y=_BODY, z=_BODY), colour, _placed(pose, _BODY / 2)
    return body


def _nose(pose: Pose, header: Header) -> Marker:
    nose = blank_marker(header, "front", Marker.ARROW)
    nose.scale, nose.color = Vector3(x=1.2 * _BODY, y=0.2 * _BODY, z=0.2 * _BODY), rgba((30, 30, 30))
    nose.pose = _placed(pose, 1.1 * _BODY)
    return nose


def _label(pose: Pose, header: Header, text: str) -> Marker:
    label = blank_marker(header, "skill", Marker.TEXT_VIEW_FACING)
    label.scale.z, label.color, label.text, label.pose = 0.02, rgba((255, 255, 255)), text, _placed(pose, 3 * _BODY)
    return label


def _placed(pose: Pose, height: float) -> PoseMessage:
    placed = PoseMessage(position=point_message((pose.x / _MM, pose.y / _MM, height)))
    placed.orientation = Quaternion(z=math.sin(pose.heading / 2), w=math.cos(pose.heading / 2))
    return placed
