"""What the graph publishes as Rerun entities: the displays of ``keygrasp.rviz`` once more, from the same topics.

Markers are drawn as RViz draws them, so that both viewers show the same; the robot moves by its joint states, the
cloud is the depth image seen through its camera model.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from keygrasp_interfaces.msg import PickRecord
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

from keygrasp.errors import InputError
from keygrasp.extras import require
from keygrasp_ros.conversions import depth_of, intrinsics_of, picture_of, seconds_of
from keygrasp_ros.frames import FrameTree
from keygrasp_ros.topics import (
    DEPTH,
    DEPTH_INFO,
    GRASP_MARKERS,
    IMAGINED_MARKERS,
    JOINT_STATES,
    KEYPOINT_MARKERS,
    OBSERVER,
    OUTCOME_MARKERS,
    RECORD,
    REFINED_MARKERS,
    ROBOT_DESCRIPTION,
    SHAPED_REWARD_MARKERS,
    TF,
    TF_STATIC,
)  # fmt: skip

#: What is shown; each needs a method of :class:`RerunScene`.
SHOWN = (
    DEPTH, DEPTH_INFO, OBSERVER, ROBOT_DESCRIPTION, JOINT_STATES, TF, TF_STATIC, KEYPOINT_MARKERS, GRASP_MARKERS,
    REFINED_MARKERS, OUTCOME_MARKERS, SHAPED_REWARD_MARKERS, IMAGINED_MARKERS, RECORD,
)  # fmt: skip
WORLD, CAMERA, ROBOT = "world", "world/camera", "robot"
DEPTH_IMAGE, OBSERVER_IMAGE, SUMMARY = f"{CAMERA}/depth", "observer", "summary"
TIMELINE = "ros_time"
#: Rerun's name for the frame of its root entity, which is the workspace here.
_ROOT_FRAME = "tf#/"
#: Colours of a depth image span this part of its valid values.
_RANGE = (1.0, 99.0)
#: More than that, as a share of it, so that neither end of the colours is used: they are the candidates' own.
_MARGIN = 0.7
#: Smallest radius in metres at which a point or a line can still be seen.
_LEAST_RADIUS = 0.0006


class RerunScene:
    """Logs messages of the graph to a Rerun recording; call it from one thread at a time.

    Args:
        recording: A ``rerun.RecordingStream``.
        workspace_frame: Frame of the world that is shown.
    """

    def __init__(self, recording: Any, workspace_frame: str) -> None:
        self._rr = require("rerun", "viz")
        self._recording, self._frame = recording, workspace_frame
        self._frames = FrameTree()
        self._camera_frame = ""
        self._placed: dict[str, tuple[str, bytes]] = {}
        self._robot: Any = None
        self._takers: dict[str, Callable[[Any], None]] = {
            DEPTH.name: self._take_depth,
            DEPTH_INFO.name: self._take_camera,
            OBSERVER.name: self._take_picture,
            ROBOT_DESCRIPTION.name: self._take_description,
            JOINT_STATES.name: self._take_joints,
            TF.name: self._take_transforms,
            TF_STATIC.name: self._take_transforms,
            RECORD.name: self._take_record,
        } | {
            topic.name: lambda message, name=topic.name: self._take_markers(message, name)
            for topic in SHOWN
            if topic.type is MarkerArray
        }

    def take(self, topic: str, message: Any, received: float) -> None:
        """Show a message.

        Args:
            topic: Its topic's name in :data:`SHOWN`.
            message: The message.
            received: When it came, in seconds; used where it bears no stamp.

        Raises:
            InputError: If it can't be shown.
        """
        header = getattr(message, "header", None)
        stamp = seconds_of(header.stamp) if header is not None else 0.0
        self._recording.set_time(TIMELINE, timestamp=stamp or received)
        self._takers[topic](message)

    def _take_depth(self, image: Image) -> None:
        depth = depth_of(image)
        valid = depth[np.isfinite(depth)]
        near, far = np.percentile(valid, _RANGE).tolist() if valid.size else (0.0, 1.0)
        shown = self._rr.DepthImage(
            np.nan_to_num(depth, nan=0.0),
            meter=1.0,
            depth_range=[near - _MARGIN * (far - near), far + _MARGIN * (far - near)],
            colormap="viridis",
            point_fill_ratio=0.6,
        )
        self._recording.log(DEPTH_IMAGE, shown)

    def _take_camera(self, info: CameraInfo) -> None:
        intrinsics = intrinsics_of(info)
        self._recording.log(
            CAMERA,
            self._rr.Pinhole(
                image_from_camera=intrinsics.matrix,
                resolution=[intrinsics.width, intrinsics.height],
                image_plane_distance=0.06,
            ),
        )
        if info.header.frame_id != self._camera_frame:
            self._camera_frame = info.header.frame_id
            self._place_fixed()

    def _take_picture(self, image: Image) -> None:
        self._recording.log(OBSERVER_IMAGE, self._rr.Image(picture_of(image)))

    def _take_transforms(self, message: TFMessage) -> None:
        self._frames.update(message)
        self._place_fixed()

    def _fixed_frames(self) -> dict[str, str]:
        """Frame of each entity that TF places, by entity path."""
        frames = {CAMERA: self._camera_frame.lstrip("/")}
        if self._robot is not None:
            frames[ROBOT] = self._robot.root_link().name
        return {path: frame for path, frame in frames.items() if frame}

    def _place_fixed(self) -> None:
        """Place what TF places, where it is not there already."""
        for path, frame in self._fixed_frames().items():
            try:
                pose = self._frames.pose(frame, self._frame)
            except InputError:
                continue  # not connected yet
            if self._placed.get(path) == (frame, pose.tobytes()):
                continue
            self._placed[path] = (frame, pose.tobytes())
            named = {} if path == CAMERA else {"parent_frame": _ROOT_FRAME, "child_frame": frame}
            placed = self._rr.Transform3D(translation=pose[:3, 3], mat3x3=pose[:3, :3], **named)
            self._recording.log(path if path == CAMERA else f"{path}/base", placed, static=True)

    def _take_description(self, message: String) -> None:
        urdf = require("rerun.urdf", "viz")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "robot.urdf"
            path.write_text(message.data.replace('filename="file://', 'filename="'), encoding="utf-8")
            try:
                self._robot = urdf.UrdfTree.from_file_path(path, entity_path_prefix=ROBOT)
                self._robot.log_urdf_to_recording(self._recording)
            except (ValueError, RuntimeError) as error:
                raise InputError(f"the robot's description can't be shown: {error}") from error
        self._place_fixed()

    def _take_joints(self, message: JointState) -> None:
        if self._robot is None:
            return
        for name, position in zip(message.name, message.position, strict=False):
            joint = self._robot.get_joint_by_name(name)
            if joint is not None and math.isfinite(position):
                self._recording.log(f"{ROBOT}/joints/{name}", joint.compute_transform(position, clamp=False))

    def _take_markers(self, message: MarkerArray, topic: str) -> None:
        path = f"{WORLD}/{topic.removesuffix('/markers')}"
        for marker in message.markers:
            if marker.header.frame_id:
                self._recording.set_time(TIMELINE, timestamp=seconds_of(marker.header.stamp))
            if marker.action in (Marker.DELETE, Marker.DELETEALL):
                self._recording.log(path, self._rr.Clear(recursive=True))
            else:
                self._recording.log(f"{path}/{marker.ns}", self._shape(marker))

    def _shape(self, marker: Marker) -> Any:
        """A marker's shape; grasps and keypoints need points, lines and text.

        Raises:
            InputError: If it is of another type.
        """
        points = np.array([(p.x, p.y, p.z) for p in marker.points]).reshape(-1, 3)
        one = [_colour(marker.color)]
        many = [_colour(colour) for colour in marker.colors] or one
        radius = max(marker.scale.x / 2, _LEAST_RADIUS)
        if marker.type == Marker.POINTS:
            return self._rr.Points3D(points, radii=radius, colors=many)
        if marker.type == Marker.LINE_STRIP:
            return self._rr.LineStrips3D([points], radii=radius, colors=one)
        if marker.type == Marker.LINE_LIST:
            colours = many[::2] if len(many) > 1 else one
            return self._rr.LineStrips3D(points.reshape(-1, 2, 3), radii=radius, colors=colours)
        if marker.type == Marker.TEXT_VIEW_FACING:
            p = marker.pose.position
            return self._rr.Points3D(
                [(p.x, p.y, p.z)], radii=_LEAST_RADIUS, colors=one, labels=[marker.text], show_labels=True
            )
        raise InputError(f"marker '{marker.ns}': type {marker.type} is not shown")

    def _take_record(self, record: PickRecord) -> None:
        self._recording.log(SUMMARY, self._rr.TextDocument(summary(record), media_type="text/markdown"))


def summary(record: PickRecord) -> str:
    """What a pick did, as Markdown."""
    plan, outcome = record.plan, record.outcome
    lines = [f"## {outcome.outcome.replace('_', ' ')}", outcome.message, ""]
    facts = {"planner": plan.planner or "–", "objects": len(record.scene.objects), "candidates": len(plan.candidates)}
    if plan.path:
        facts["refinement steps"] = len(plan.path) - 1
    if plan.success_probability_known:
        facts["stated success"] = f"{plan.success_probability:.0%}"
    if plan.found:
        g = plan.grasp
        facts["grasp"] = f"{g.x * 1e3:.0f}, {g.y * 1e3:.0f}, {g.z * 1e3:.0f} mm, {math.degrees(g.yaw):.0f}°"
        facts["opening"] = f"{g.width * 1e3:.0f} mm"
    facts["pick"] = f"{record.seconds:.1f} s"
    timings = {t.stage: t.milliseconds for t in (*record.scene.timings, *plan.timings)}
    facts |= {stage: f"{milliseconds:.1f} ms" for stage, milliseconds in timings.items()}
    first, *others = (f"| {name} | {value} |" for name, value in facts.items())
    return "\n".join([*lines, first, "| --- | --- |", *others])


def _colour(colour: Any) -> tuple[int, int, int, int]:
    red, green, blue, alpha = (
        min(255, max(0, round(255 * value))) for value in (colour.r, colour.g, colour.b, colour.a)
    )
    return red, green, blue, alpha
