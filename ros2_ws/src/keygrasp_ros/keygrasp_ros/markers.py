"""RViz markers and pose arrays of what the graph knows; colours are those of the library's pictures."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import Point, PoseArray, Vector3
from keygrasp_interfaces import msg
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

from keygrasp.scene import GripperSpec, Keypoints, PlanarGrasp
from keygrasp.trials.drawing import KEYPOINT_COLOURS, PATH_COLOUR, SCORE_RAMP, SUCCESS_COLOUR, outcome_colour
from keygrasp.trials.drawing_canvas import ramp
from keygrasp_ros.conversions import grasp_pose, outcome_of, pose_message

_POINT_SIZE = 0.003
_LINE_WIDTH = 0.0012


def poses(grasps: tuple[PlanarGrasp, ...], header: Header) -> PoseArray:
    """Tip poses: x along the closing axis, z along the approach (down)."""
    return PoseArray(header=header, poses=[pose_message(grasp_pose(grasp)) for grasp in grasps])


def keypoint_markers(objects: tuple[Keypoints, ...], header: Header) -> MarkerArray:
    """One list of points a kind, over all objects."""
    markers = [_clear(header)]
    for kind, colour in KEYPOINT_COLOURS.items():
        marker = blank_marker(header, f"keypoints_{kind.name.lower()}", Marker.POINTS)
        marker.scale = Vector3(x=_POINT_SIZE, y=_POINT_SIZE, z=_POINT_SIZE)
        marker.color = rgba(colour)
        positions = np.concatenate([keypoints.of(kind) for keypoints in objects]) if objects else np.empty((0, 3))
        marker.points = [point_message(position) for position in positions]
        if marker.points:
            markers.append(marker)
    return MarkerArray(markers=markers)


def candidate_markers(candidates: tuple[PlanarGrasp, ...], gripper: GripperSpec, header: Header) -> MarkerArray:
    """Each candidate as a thin gripper, coloured from the worst to the best score."""
    if not candidates:
        return MarkerArray(markers=[_clear(header)])
    scores = np.array([grasp.score for grasp in candidates])
    level = (scores - scores.min()) / max(float(np.ptp(scores)), 1e-9)
    lines = blank_marker(header, "candidates", Marker.LINE_LIST)
    for grasp, colour in zip(reversed(candidates), ramp(level, SCORE_RAMP)[::-1], strict=True):
        points = _glyph(grasp, gripper)
        lines.points += points
        lines.colors += [rgba(colour)] * len(points)
    return MarkerArray(markers=[_clear(header), lines])


def path_markers(
    path: tuple[PlanarGrasp, ...], grasp: PlanarGrasp | None, gripper: GripperSpec, header: Header
) -> MarkerArray:
    """The refinement path as a line through its centres, and the grasp that it ends in."""
    markers = [_clear(header)]
    if len(path) > 1:
        line = blank_marker(header, "path", Marker.LINE_STRIP)
        line.color = rgba(PATH_COLOUR)
        line.points = [point_message((step.x, step.y, step.z)) for step in path]
        markers.append(line)
    if grasp is not None:
        glyph = blank_marker(header, "grasp", Marker.LINE_LIST)
        glyph.scale.x = 3 * _LINE_WIDTH
        glyph.color = rgba(outcome_colour(None))
        glyph.points = _glyph(grasp, gripper)
        markers.append(glyph)
    return MarkerArray(markers=markers)


def outcome_markers(outcome: msg.TrialOutcome, header: Header) -> MarkerArray:
    """The outcome as text over the table."""
    text = blank_marker(header, "outcome", Marker.TEXT_VIEW_FACING)
    text.scale.z = 0.025
    text.pose.position.z = 0.30
    refused = outcome.outcome == msg.TrialOutcome.REFUSED
    text.color = rgba(outcome_colour(None if refused else outcome_of(outcome).outcome))
    text.text = outcome.message or outcome.outcome
    return MarkerArray(markers=[text])


def reward_markers(reward: msg.ShapedReward, state: msg.SymbolicState) -> MarkerArray:
    """Potential, shaping and reason as text over the object."""
    text = blank_marker(reward.header, "shaped_reward", Marker.TEXT_VIEW_FACING)
    text.scale.z = 0.018
    text.pose.position.x, text.pose.position.y = state.object_x, state.object_y
    text.pose.position.z = state.object_z + state.object_height / 2 + 0.12
    text.color = rgba(SUCCESS_COLOUR if reward.terminated else outcome_colour(None))
    text.text = f"Φ {reward.next_potential:.2f}  F {reward.shaping:+.3f}  r {reward.reward:.0f}\n{reward.reason}"
    return MarkerArray(markers=[text])


def blank_marker(header: Header, namespace: str, kind: int) -> Marker:
    """A marker of a kind that stays, with no size or colour yet."""
    marker = Marker(header=header, ns=namespace, id=0, type=kind, action=Marker.ADD, lifetime=Duration())
    marker.pose.orientation.w = 1.0
    marker.scale.x = _LINE_WIDTH
    return marker


def _clear(header: Header) -> Marker:
    return Marker(header=header, action=Marker.DELETEALL)


def _glyph(grasp: PlanarGrasp, gripper: GripperSpec) -> list[Point]:
    """Pairs of points: the opening, and each pad's outer edge from its tip to the palm."""
    along = np.append(grasp.closing_axis, 0.0) * grasp.width / 2
    middle = np.array([grasp.x, grasp.y, grasp.z])
    up = np.array([0.0, 0.0, gripper.pad_height])
    lines = [
        (middle + up - along, middle + up + along),
        (middle - along, middle - along + up),
        (middle + along, middle + along + up),
    ]
    return [point_message(end) for line in lines for end in line]


def point_message(xyz: tuple[float, float, float] | np.ndarray) -> Point:
    """A point of three metres."""
    return Point(x=float(xyz[0]), y=float(xyz[1]), z=float(xyz[2]))


def rgba(colour: tuple[int, int, int] | np.ndarray) -> ColorRGBA:
    """An opaque colour of three numbers of 0 to 255."""
    return ColorRGBA(r=float(colour[0]) / 255, g=float(colour[1]) / 255, b=float(colour[2]) / 255, a=1.0)
