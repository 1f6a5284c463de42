"""KG-1's trial motion: constants, and tool paths as arrays with one row a time step."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array, wrap_half_turn
from keygrasp.scene import PlanarGrasp

#: Metres and radians a second while carrying, and metres a second squared.
_CARRY_SPEED = 0.25
_CARRY_TURN = 1.0
_CARRY_ACCELERATION = 1.0
#: Metres by which the pads open to let go, and to which the tool then rises.
RELEASE = 0.03
RETREAT = 0.10


@dataclass(frozen=True)
class MotionProfile:
    """How a grasp is executed; the defaults are KG-1's values, to be changed only under a new name.

    Attributes:
        clearance: Metres between the object's top and the tips where the descent begins.
        descend_speed: Metres a second while descending.
        descend_acceleration: Metres a second squared at both ends of the descent; full speed is reached within
            the clearance.
        contact_limit: Newtons of contact force that end the descent as a failure.
        close_speed: Metres a second of each finger while closing.
        stall_time: Seconds without movement after which the fingers count as closed.
        lift_height: Metres.
        lift_time: Seconds, along a half cosine.
        shake_frequency: Hertz.
        shake_translation: Amplitude in metres, along x and then along y.
        shake_rotation: Amplitude in radians, about the vertical.
        shake_cycles: Full cycles at full amplitude on each axis, between half a cycle in and half a cycle out.
        hold_time: Seconds.
        required_rise: Metres that the object's centre of mass must have risen at the end.
        shake: Whether to shake and hold (trials do; a pick that goes on to place does not).
    """

    clearance: float = 0.010
    descend_speed: float = 0.25
    descend_acceleration: float = 5.0
    contact_limit: float = 15.0
    close_speed: float = 0.10
    stall_time: float = 0.05
    lift_height: float = 0.15
    lift_time: float = 0.5
    shake_frequency: float = 2.5
    shake_translation: float = 0.025
    shake_rotation: float = 0.2
    shake_cycles: int = 1
    hold_time: float = 0.2
    required_rise: float = 0.12
    shake: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "shake" and not (math.isfinite(value) and value > 0):
                raise ConfigurationError(f"motion: {field.name} must be positive, not {value}")
        if self.required_rise >= self.lift_height:
            raise ConfigurationError("motion: required_rise must be less than lift_height")


@dataclass(frozen=True, eq=False)
class TrialPath:
    """Tool paths of one execution, (n, 4) rows of x, y, z, yaw: metres and radians of the tips in the workspace.

    Attributes:
        start: (4,) where the descent begins.
        descend: From above the object to the grasp.
        lift: Straight up.
        shake: x, then y, then yaw; empty without shaking.
    """

    start: Array
    descend: Array
    lift: Array
    shake: Array

    @property
    def whole(self) -> Array:
        """All rows in order, (n, 4)."""
        return np.concatenate([self.start[None], self.descend, self.lift, self.shake])


def trapezoid(distance: float, speed: float, acceleration: float, time_step: float) -> Array:
    """Distances (n,) covered at each step of a rest-to-rest motion of limited speed and acceleration.

    The last one is ``distance`` exactly; none are returned for a distance of 0.
    """
    if distance <= 0:
        return np.empty(0)
    ramp = min(speed / acceleration, math.sqrt(distance / acceleration))
    peak = acceleration * ramp
    total = distance / peak + ramp
    t = np.minimum(np.arange(1, math.ceil(total / time_step - 1e-9) + 1) * time_step, total)
    rising = 0.5 * acceleration * np.minimum(t, ramp) ** 2
    cruising = peak * np.clip(t - ramp, 0.0, total - 2 * ramp)
    left = np.clip(t - (total - ramp), 0.0, None)
    return np.asarray(rising + cruising + peak * left - 0.5 * acceleration * left**2)


def half_cosine(duration: float, time_step: float) -> Array:
    """Shares (n,) in (0, 1] of a rest-to-rest motion along half a cosine."""
    count = max(1, round(duration / time_step))
    return np.asarray((1 - np.cos(np.pi * np.arange(1, count + 1) / count)) / 2)


def oscillation(profile: MotionProfile, time_step: float) -> Array:
    """Displacements (n,) in [-1, 1] of one shaken axis: out along half a cosine, full cycles, and back.

    Speed is continuous and acceleration never exceeds that of the cosine at full amplitude.
    """
    period = 1 / profile.shake_frequency
    out = half_cosine(period / 2, time_step)
    count = round(profile.shake_cycles * period / time_step)
    phase = 2 * np.pi * profile.shake_cycles * np.arange(1, count + 1) / count
    return np.concatenate([out, np.cos(phase), 1 - out])


def trial_path(grasp: PlanarGrasp, top: float, profile: MotionProfile, time_step: float) -> TrialPath:
    """Tool paths of a grasp on something whose highest point is ``top`` metres above the table."""
    goal = np.array([grasp.x, grasp.y, grasp.z, grasp.yaw])
    start = goal.copy()
    start[2] = max(grasp.z, top + profile.clearance)
    down = trapezoid(start[2] - grasp.z, profile.descend_speed, profile.descend_acceleration, time_step)
    descend = np.tile(start, (len(down), 1))
    descend[:, 2] -= down
    up = half_cosine(profile.lift_time, time_step)
    lift = np.tile(goal, (len(up), 1))
    lift[:, 2] += profile.lift_height * up
    shake = np.empty((0, 4))
    if profile.shake:
        wave = oscillation(profile, time_step)
        amplitudes = (profile.shake_translation, profile.shake_translation, profile.shake_rotation)
        shake = np.tile(lift[-1], (3 * len(wave), 1))
        for part, (axis, amplitude) in enumerate(zip((0, 1, 3), amplitudes, strict=True)):
            shake[part * len(wave) : (part + 1) * len(wave), axis] += amplitude * wave
    return TrialPath(start, descend, lift, shake)


def straight(start: Array, end: Array, time_step: float, speed: float = 1.0) -> Array:
    """Tool poses (n, 4) on the way between two, limited in speed along and about the vertical.

    Args:
        start: (4,) x, y, z, yaw; not part of the answer.
        end: (4,) the last row of the answer.
        time_step: Seconds between rows.
        speed: Share of the speed with which objects are carried.
    """
    length = float(np.linalg.norm(end[:3] - start[:3]))
    turn = abs(float(end[3] - start[3]))
    slowest = max(length / _CARRY_SPEED, turn / _CARRY_TURN) / speed
    if slowest < 1e-9:
        return end[None]
    shares = trapezoid(1.0, 1 / slowest, speed * _CARRY_ACCELERATION / _CARRY_SPEED / slowest, time_step)
    return np.asarray(start + shares[:, None] * (end - start))


def place_path(here: Array, pose: PlanarGrasp, time_step: float, speed: float = 1.0) -> tuple[Array, Array]:
    """Tool paths that carry what is held to above a pose, and lower it there.

    Args:
        here: (4,) where the tool is.
        pose: Where the gripper lets go; a half turn of its yaw is the same, and its width is not used.
        time_step: Seconds between rows.
        speed: Share of the speed with which objects are carried.

    Returns:
        (n, 4) at the present height, and (m, 4) down to the pose.
    """
    yaw = float(here[3]) + wrap_half_turn(pose.yaw - float(here[3]))
    there = np.array([pose.x, pose.y, max(float(here[2]), pose.z), yaw])
    low = np.array([pose.x, pose.y, pose.z, yaw])
    return straight(here, there, time_step, speed), straight(there, low, time_step, speed)
