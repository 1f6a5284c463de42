"""The emulated robot's body: where it is at each time, and how long its motions take. Millimetres, degrees, seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x.kinematics import forward, inverse
from keygrasp.robots.delta_x.model import DeltaModel
from keygrasp.robots.delta_x.ramps import Ramp

#: X1's defaults: millimetres a second, the same squared, and speeds of its servos in degrees a second.
DEFAULT_SPEED = 300.0
DEFAULT_ACCELERATION = 2000.0
_TURN_SPEED = 300.0
_GRIPPER_SPEED = 400.0
#: Degrees of the gripper's servo.
GRIPPER_OPEN = 110.0
GRIPPER_CLOSED = 55.0
#: Degrees of the tool's axis after homing.
TURN_HOME = 85.0
#: Degrees of the arms when the power comes on, and by which they leave the end stops and come back.
_HANGING = 10.0
_BACK_OFF = 10.0
#: Degrees a second squared of the arms while homing: hardly a ramp.
_HOMING_ACCELERATION = 1e4
#: Moves shorter than this are acknowledged but not made.
SHORTEST_MOVE = 0.2
#: What the firmware's single-precision forward kinematics give for y at home.
_HOME_Y = -1e-5


@dataclass(frozen=True, eq=False)
class Motion:
    """A rest-to-rest motion under way.

    Attributes:
        start: Where it began.
        goal: Where it ends.
        ramp: Its course.
    """

    start: Array
    goal: Array
    ramp: Ramp

    @property
    def duration(self) -> float:
        """Seconds from rest to rest."""
        return self.ramp.duration

    def at(self, elapsed: float) -> Array:
        """Where the platform is after some seconds."""
        return np.asarray(self.start + self.ramp.share(elapsed) * (self.goal - self.start))


class Machine:
    """Position, tool and limits of the emulated robot.

    Args:
        model: Which robot.
    """

    def __init__(self, model: DeltaModel) -> None:
        self.model = model
        self.home = np.array([0.0, _HOME_Y, model.home_z * 1e3])
        self.turn = TURN_HOME
        self.angles = np.full(3, _HANGING)
        self.target = forward(model.geometry, np.radians(self.angles)) * 1e3
        self.power_on()

    def power_on(self) -> None:
        """Volatile settings as after power-on; the body stays where it is."""
        self.speed, self.acceleration = DEFAULT_SPEED, DEFAULT_ACCELERATION
        self.top_speed = self.model.max_speed * 1e3
        self.absolute = True
        self.z_offset = 0.0
        self.effector = 1
        self.servo = GRIPPER_OPEN
        self.outputs: dict[str, float] = {}
        self.motors = True

    @property
    def grip(self) -> float:
        """Share by which the gripper is closed, or 1 for a vacuum or output that is on."""
        if self.outputs:
            return max(self.outputs.values())
        return (GRIPPER_OPEN - self.servo) / (GRIPPER_OPEN - GRIPPER_CLOSED)

    def set_speed(self, value: float) -> None:
        """Speed of moves from now on."""
        self.speed = min(max(value, 1.0), self.top_speed, self.model.max_speed * 1e3)

    def set_acceleration(self, value: float) -> None:
        """Acceleration of moves from now on."""
        self.acceleration = min(max(value, 1.0), self.model.max_acceleration * 1e3)

    def point(self, wanted: dict[str, float]) -> Array:
        """Where a move goes, given its words; with the firmware's ways in relative mode and with an offset."""
        axes = [wanted.get(axis, float(now)) for axis, now in zip("XYZ", self.target, strict=True)]
        if not self.absolute:
            # Omitted axes hold the present coordinate, which is then added once more.
            return np.asarray(self.target + axes)
        if self.z_offset < 0 and axes[2] != self.target[2]:
            axes[2] += self.z_offset
        return np.array(axes)

    def allowed(self, point: Array) -> bool:
        """The firmware's only check of a move: its end within a cylinder, and above the floor."""
        inside = math.hypot(point[0], point[1]) <= self.model.radius * 1e3
        return inside and float(point[2]) >= self.model.floor * 1e3

    def start_move(self, start: Array, goal: Array, length: float | None = None) -> Motion:
        """Begin a move; ``length`` where the way is longer than the straight one."""
        distance = float(np.linalg.norm(goal - start)) if length is None else length
        self.target = goal
        self._update_angles()
        return Motion(start, goal, Ramp(distance, self.speed, self.acceleration))

    def start_homing(self) -> Motion:
        """Begin homing: all arms up to the end stops, off them and on again."""
        lift = float(np.max(self.angles)) - math.degrees(self.model.home_angle) + 2 * _BACK_OFF
        way = Ramp(max(lift, 2 * _BACK_OFF), math.degrees(self.model.home_speed), _HOMING_ACCELERATION)
        start, self.target, self.turn = self.target, self.home, TURN_HOME
        self.angles = np.full(3, math.degrees(self.model.home_angle))
        self.motors = True
        return Motion(start, self.home, way)

    def turn_to(self, angle: float) -> float:
        """Turn the tool; returns how long that takes."""
        seconds = abs(angle - self.turn) / _TURN_SPEED
        self.turn = angle
        return seconds

    def drive_gripper(self, share: float) -> float:
        """Close the gripper by a share; returns how long that takes."""
        angle = GRIPPER_OPEN - share * (GRIPPER_OPEN - GRIPPER_CLOSED)
        seconds = abs(angle - self.servo) / _GRIPPER_SPEED
        self.servo = angle
        return seconds

    def halt(self, where: Array) -> None:
        """Come to rest at once."""
        self.target = where
        self._update_angles()

    def _update_angles(self) -> None:
        angles = np.degrees(inverse(self.model.geometry, self.target * 1e-3))
        if np.isfinite(angles).all():
            self.angles = angles
