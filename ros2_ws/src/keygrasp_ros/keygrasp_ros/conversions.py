"""Messages to the library's nouns and back, each conversion written once.

What comes in is checked (NaN, zero quaternions, empty frames, sizes); what goes out is checked too, because the
middleware carries a NaN without a word.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Pose, Quaternion
from keygrasp_interfaces import msg
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from keygrasp.errors import ImageError, InputError
from keygrasp.geometry.cameras import Intrinsics, depth_in_metres
from keygrasp.geometry.poses import Array, make_pose, quaternion_from_rotation, rotation_from_quaternion
from keygrasp.scene import GraspPlan, Outcome, OverheadView, PlanarGrasp, TrialOutcome

#: Element type and size in bytes of the encodings that are taken.
_ENCODINGS = {"32FC1": np.dtype(np.float32), "16UC1": np.dtype(np.uint16), "mono16": np.dtype(np.uint16)}


def seconds_of(stamp: Time) -> float:
    """A stamp as seconds."""
    return stamp.sec + stamp.nanosec * 1e-9


def checked_frame(header: Header, what: str) -> str:
    """The header's frame, without a leading slash.

    Raises:
        InputError: If it is empty.
    """
    frame = header.frame_id.lstrip("/")
    if not frame:
        raise InputError(f"{what}: frame_id is empty", "Name the frame in the header")
    return frame


def pose_matrix(position: Point, orientation: Quaternion, what: str) -> Array:
    """A pose (4, 4) of a message's position and orientation.

    Raises:
        InputError: If it is not finite or the quaternion is zero.
    """
    xyz = (position.x, position.y, position.z)
    if not all(math.isfinite(value) for value in xyz):
        raise InputError(f"{what}: position {xyz} is not finite", "Check where the pose comes from")
    try:
        rotation = rotation_from_quaternion((orientation.x, orientation.y, orientation.z, orientation.w))
    except InputError as error:
        raise InputError(f"{what}: {error.problem}", error.remedy) from error
    return make_pose(xyz, rotation)


def pose_message(pose: Array) -> Pose:
    """A pose message of a transform (4, 4)."""
    if not np.all(np.isfinite(pose)):
        raise InputError("a pose is not finite and is not sent")
    x, y, z, w = quaternion_from_rotation(pose[:3, :3]).tolist()
    px, py, pz = pose[:3, 3].tolist()
    return Pose(position=Point(x=px, y=py, z=pz), orientation=Quaternion(x=x, y=y, z=z, w=w))


def depth_of(image: Image) -> np.ndarray:
    """Depth (H, W) float32 metres with NaN for invalid of an image message (REP-118).

    Raises:
        ImageError: If encoding, step and data don't fit each other.
    """
    if image.encoding not in _ENCODINGS:
        raise ImageError(f"encoding '{image.encoding}' is not a depth image", "Give 32FC1 (metres) or 16UC1 (mm)")
    kind = _ENCODINGS[image.encoding]
    height, width, step = image.height, image.width, image.step
    if (
        height == 0
        or width == 0
        or step < width * kind.itemsize
        or step % kind.itemsize
        or len(image.data) != height * step
    ):
        raise ImageError(
            f"a {width}×{height} {image.encoding} image with step {step} can't have {len(image.data)} bytes",
            "Check height, width, step and encoding",
        )
    order = ">" if image.is_bigendian else "<"
    rows = np.frombuffer(image.data, dtype=kind.newbyteorder(order)).reshape(height, step // kind.itemsize)
    return depth_in_metres(rows[:, :width].astype(kind, copy=False), image.encoding)


def intrinsics_of(info: CameraInfo) -> Intrinsics:
    """The pinhole model of a camera_info; the image must be rectified.

    Raises:
        ImageError: If it has distortion or its values can't be a camera's.
    """
    if any(abs(value) > 1e-9 for value in info.d):
        raise ImageError("the camera_info has distortion coefficients", "Give the rectified image and its camera_info")
    scale_x, scale_y = max(info.binning_x, 1), max(info.binning_y, 1)
    left, top = info.roi.x_offset, info.roi.y_offset
    width, height = info.roi.width or info.width, info.roi.height or info.height
    return Intrinsics(
        width=width // scale_x,
        height=height // scale_y,
        fx=info.k[0] / scale_x,
        fy=info.k[4] / scale_y,
        cx=(info.k[2] - left) / scale_x,
        cy=(info.k[5] - top) / scale_y,
    )


def view_of(image: Image, info: CameraInfo, camera_in_workspace: Array) -> OverheadView:
    """An overhead view of an image, its camera model and the camera's pose.

    Raises:
        InputError: If frames or stamps of the two differ, or either can't be used.
    """
    if checked_frame(image.header, "depth image") != checked_frame(info.header, "camera_info"):
        raise InputError(
            f"the depth image is in frame '{image.header.frame_id}', its camera_info in '{info.header.frame_id}'",
            "Give the camera_info that was published with this image",
        )
    if image.header.stamp != info.header.stamp:
        raise InputError(
            "the depth image and its camera_info have different stamps",
            "Give the camera_info that was published with this image",
        )
    stamp = seconds_of(image.header.stamp)
    return OverheadView(depth_of(image), intrinsics_of(info), camera_in_workspace, stamp)


def depth_message(depth: np.ndarray, header: Header) -> Image:
    """A 32FC1 image of depth (H, W) in metres, NaN for invalid."""
    data = np.ascontiguousarray(depth, dtype=np.float32)
    return _image(data, header, "32FC1")


def rgb_message(picture: np.ndarray, header: Header) -> Image:
    """An rgb8 image of a picture (H, W, 3) uint8."""
    return _image(np.ascontiguousarray(picture, dtype=np.uint8), header, "rgb8")


def _image(data: np.ndarray, header: Header, encoding: str) -> Image:
    image = Image(header=header, height=data.shape[0], width=data.shape[1], encoding=encoding)
    image.is_bigendian = int(sys.byteorder == "big")
    image.step = data.strides[0]
    # An array.array is taken as it is; bytes would be checked one by one.
    image.data.frombytes(data.tobytes())
    return image


def picture_of(image: Image) -> np.ndarray:
    """The picture (H, W, 3) uint8 of an rgb8 image message."""
    if image.encoding != "rgb8" or len(image.data) != image.height * image.step or image.step < 3 * image.width:
        raise ImageError(f"a {image.width}×{image.height} '{image.encoding}' image can't be shown", "Give rgb8")
    rows = np.frombuffer(image.data, np.uint8).reshape(image.height, image.step)
    return rows[:, : 3 * image.width].reshape(image.height, image.width, 3).copy()


def camera_info_message(intrinsics: Intrinsics, header: Header) -> CameraInfo:
    """The camera_info of an undistorted pinhole camera."""
    i = intrinsics
    info = CameraInfo(header=header, height=i.height, width=i.width, distortion_model="plumb_bob", d=[0.0] * 5)
    info.k = i.matrix.ravel().tolist()
    info.r = np.eye(3).ravel().tolist()
    info.p = np.hstack([i.matrix, np.zeros((3, 1))]).ravel().tolist()
    return info


def grasp_of(message: msg.Grasp) -> PlanarGrasp:
    """A grasp; raises InputError where a number is not finite."""
    if not math.isfinite(message.score):
        raise InputError(f"grasp: score is {message.score}", "A grasp must be finite")
    return PlanarGrasp(message.x, message.y, message.z, message.yaw, message.width, message.score)


def grasp_message(grasp: PlanarGrasp) -> msg.Grasp:
    """A grasp's message; raises InputError where the score is not finite."""
    if not math.isfinite(grasp.score):
        raise InputError(f"a grasp with score {grasp.score} is not sent")
    return msg.Grasp(x=grasp.x, y=grasp.y, z=grasp.z, yaw=grasp.yaw, width=grasp.width, score=float(grasp.score))


def grasp_pose(grasp: PlanarGrasp) -> Array:
    """Pose (4, 4) of the gripper's tip frame in the workspace: x along the closing axis, z down (approach)."""
    c, s = math.cos(grasp.yaw), math.sin(grasp.yaw)
    return make_pose((grasp.x, grasp.y, grasp.z), [[c, s, 0.0], [s, -c, 0.0], [0.0, 0.0, -1.0]])


def plan_message(plan: GraspPlan, header: Header, planner: str, object_index: int) -> msg.GraspPlan:
    """A plan's message; the header holds the image's stamp and the workspace frame."""
    probability = plan.success_probability
    message = msg.GraspPlan(header=header, planner=planner, object_index=object_index, reason=plan.reason)
    message.found = plan.grasp is not None
    if plan.grasp is not None:
        message.grasp = grasp_message(plan.grasp)
    message.candidates = [grasp_message(grasp) for grasp in plan.candidates]
    message.rejections = [msg.Rejection(reason=name, count=int(n)) for name, n in plan.rejections.items()]
    message.path = [grasp_message(grasp) for grasp in plan.path]
    message.success_probability_known = probability is not None
    message.success_probability = float(probability) if probability is not None else 0.0
    message.evaluations = int(plan.evaluations)
    message.timings = timings_message(plan.timings_ms)
    return message


def plan_of(message: msg.GraspPlan) -> GraspPlan:
    """A plan of a message; raises InputError where a number is not finite."""
    probability = message.success_probability if message.success_probability_known else None
    if probability is not None and not 0.0 <= probability <= 1.0:
        raise InputError(f"plan: success_probability is {probability}", "A probability lies in [0, 1]")
    return GraspPlan(
        grasp=grasp_of(message.grasp) if message.found else None,
        candidates=tuple(grasp_of(grasp) for grasp in message.candidates),
        rejections={entry.reason: entry.count for entry in message.rejections},
        reason=message.reason,
        path=tuple(grasp_of(grasp) for grasp in message.path),
        success_probability=probability,
        evaluations=message.evaluations,
        timings_ms={entry.stage: entry.milliseconds for entry in message.timings},
    )


def timings_message(timings_ms: dict[str, float]) -> list[msg.StageTiming]:
    """Milliseconds by stage as messages."""
    return [msg.StageTiming(stage=name, milliseconds=float(value)) for name, value in timings_ms.items()]


def outcome_message(outcome: TrialOutcome, stamp: Time) -> msg.TrialOutcome:
    """An outcome's message."""
    message = msg.TrialOutcome(header=Header(stamp=stamp), outcome=str(outcome.outcome), success=outcome.success)
    for name in ("rise", "opening", "contact_force", "seconds"):
        value = float(getattr(outcome, name))
        setattr(message, name, value if math.isfinite(value) else 0.0)
    message.message = outcome.message
    return message


def outcome_of(message: msg.TrialOutcome) -> TrialOutcome:
    """An outcome of a message; raises InputError where its name is not one of the library's."""
    try:
        outcome = Outcome(message.outcome)
    except ValueError as error:
        raise InputError(f"outcome '{message.outcome}' is unknown", f"Known: {[str(o) for o in Outcome]}") from error
    numbers = (message.rise, message.opening, message.contact_force, message.seconds)
    return TrialOutcome(outcome, *numbers, message=message.message)
