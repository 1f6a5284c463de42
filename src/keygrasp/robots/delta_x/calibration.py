"""Where the table or the camera is, seen from the robot: from points that are known in both frames."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import yaml

from keygrasp.configuration import load_config
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.files import write_text
from keygrasp.geometry.poses import (
    Array,
    make_pose,
    quaternion_from_rotation,
    rotation_from_quaternion,
    transform_points,
)

#: Name of the robot's own frame in calibration files.
ROBOT_FRAME = "delta_base"
Frame = Literal["workspace", "camera_optical"]
#: Metres of the largest residual that is accepted unless the caller says otherwise.
RESIDUAL_LIMIT = 0.003
#: Fewest points: three always fit nearly, so they would show no error.
FEWEST_POINTS = 4
#: Metres of spread (standard deviation) that the points need along their second direction.
_LEAST_SPREAD = 0.015
#: Radians between the table's normal and the robot's axis: the gripper always points along the latter.
_MOST_TILT = math.radians(2)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The pose of a frame in the robot's.

    Attributes:
        frame: Which frame.
        pose: (4, 4) ``frame_in_robot``.
        residuals: (n,) metres by which each point misses.
    """

    frame: Frame
    pose: Array
    residuals: Array

    @property
    def rms(self) -> float:
        """Root mean square of the residuals in metres."""
        return float(np.sqrt(np.mean(self.residuals**2))) if len(self.residuals) else 0.0

    @property
    def tilt(self) -> float:
        """Radians between the frame's z axis and the robot's."""
        return math.acos(min(1.0, max(-1.0, float(self.pose[2, 2]))))


def fit_pose(points: Array, in_robot: Array) -> Array:
    """The rigid transform (4, 4) that brings points (n, 3) nearest to ``in_robot`` (n, 3) in the least-squares sense.

    W. Kabsch, Acta Crystallographica A32 (1976), with the sign of S. Umeyama, IEEE PAMI 13(4) (1991).
    """
    middle, middle_in_robot = points.mean(axis=0), in_robot.mean(axis=0)
    u, _, vt = np.linalg.svd((in_robot - middle_in_robot).T @ (points - middle))
    rotation = u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt
    return make_pose(middle_in_robot - rotation @ middle, rotation)


def calibrate(
    points: Array, in_robot: Array, frame: Frame = "workspace", *, limit: float = RESIDUAL_LIMIT
) -> Calibration:
    """Find where a frame is from points that were touched with the fingertips, or seen, and are known in it.

    Args:
        points: (n, 3) in the frame, metres.
        in_robot: (n, 3) of the same points in the robot's frame.
        frame: Which frame it is.
        limit: Largest residual in metres that is accepted.

    Raises:
        InputError: If there are too few points, they lie in a line, they don't fit (with the residual of each), or the
            table is tilted more than the gripper can follow; or if the limit is not positive and finite.
    """
    points, in_robot = np.asarray(points, dtype=float), np.asarray(in_robot, dtype=float)
    if points.shape != in_robot.shape or points.ndim != 2 or points.shape[1] != 3:
        raise InputError(f"{points.shape} and {in_robot.shape} are not two lists of the same points")
    if len(points) < FEWEST_POINTS or not (np.isfinite(points).all() and np.isfinite(in_robot).all()):
        raise InputError(f"{len(points)} points, of which all must be finite, are not enough", f"Give {FEWEST_POINTS}")
    for cloud in (points, in_robot):
        spread = np.linalg.svd(cloud - cloud.mean(axis=0), compute_uv=False)[1] / math.sqrt(len(cloud))
        if spread < _LEAST_SPREAD:
            raise InputError(
                f"the points lie nearly in a line (spread {spread * 1e3:.1f} mm across it)",
                "Take points from all corners of the working area",
            )
    if not (math.isfinite(limit) and limit > 0):
        raise InputError(f"a limit of {limit * 1e3:g} mm is no positive length", "Give metres")
    pose = fit_pose(points, in_robot)
    result = Calibration(frame, pose, np.linalg.norm(transform_points(pose, points) - in_robot, axis=1))
    worst = int(np.argmax(result.residuals))
    if result.residuals[worst] > limit:
        listed = ", ".join(f"{1e3 * value:.1f}" for value in result.residuals)
        raise InputError(
            f"the points don't fit: residuals {listed} mm, at most {limit * 1e3:.1f} mm are accepted",
            f"Measure point {worst + 1} again; if all are large, check units, order and that the axes are right-handed",
        )
    if frame == "workspace" and result.tilt > _MOST_TILT:
        raise InputError(
            f"the table is tilted by {math.degrees(result.tilt):.1f}° against the robot's axis",
            f"The gripper can't follow; level it to within {math.degrees(_MOST_TILT):.0f}°",
        )
    return result


@dataclass(frozen=True)
class CalibrationFile:
    """A calibration on disk.

    Attributes:
        robot: The frame in which the pose is given.
        frame: The frame whose pose it is.
        position: Metres.
        quaternion: x, y, z, w.
        residuals: Metres of each point.
        date: When it was made.
    """

    robot: Literal["delta_base"]
    frame: Frame
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float]
    residuals: tuple[float, ...] = ()
    date: str = ""


def save_calibration(path: Path, calibration: Calibration) -> None:
    """Write a calibration as YAML."""
    data = {
        "robot": ROBOT_FRAME,
        "frame": calibration.frame,
        "position": [float(value) for value in calibration.pose[:3, 3]],
        "quaternion": [float(value) for value in quaternion_from_rotation(calibration.pose[:3, :3])],
        "residuals": [round(float(value), 6) for value in calibration.residuals],
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    write_text(path, yaml.safe_dump(data, sort_keys=False))


def load_calibration(path: Path, frame: Frame = "workspace") -> Calibration:
    """Read a calibration of one frame.

    Raises:
        ConfigurationError: If it can't be read, or gives another frame than ``frame``, or in another frame than the
            robot's: a pose in the wrong frame must not be executed.
    """
    file = load_config(path, CalibrationFile)
    if file.frame != frame:
        raise ConfigurationError(
            f"{path} places the frame '{file.frame}', but '{frame}' is needed", "Calibrate that frame"
        )
    if not np.isfinite(file.position).all():
        raise ConfigurationError(f"{path}: position {file.position} is not finite")
    pose = make_pose(file.position, rotation_from_quaternion(file.quaternion))
    return Calibration(frame, pose, np.array(file.residuals))
