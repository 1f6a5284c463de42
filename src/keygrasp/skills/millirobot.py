"""A simulated millirobot: a cube of 36 cm³ on two wheels, watched by a camera above it.

Its body differs from robot to robot, drifts, and is unknown to the learner: two motors that differ by 12%, a dead band
below which they don't turn, a first-order lag, wheels that slip, and noise of 3% on each wheel's speed that stays for
about as long as a trial, so that nothing averages it out. The camera gives a noisy pose when the robot is at rest.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ConfigurationError
from keygrasp.skills.core import Pose

_STEP_S = 0.01
#: Load in kilograms that the figures of :meth:`Millirobot.load` are given for.
_FULL_LOAD_KG = 0.38


@dataclass(frozen=True)
class Body:
    """The constants of a millirobot.

    Attributes:
        track: Distance between the wheels in mm.
        full_speed: Speed of a wheel in mm/s for each unit of command above the dead band.
        mismatch: Share by which the faster motor is faster.
        dead_band: Share of full command below which a motor stands.
        lag: Time constant in s of starting.
        coast: Time constant in s of stopping.
        noise: Standard deviation of a wheel's speed, as a share of it.
        noise_seconds: Time over which that noise stays alike.
        slip: Mean share of the way that a wheel slips; each motion draws its own, from 0 to twice that.
        scrub: Share by which the wheels' contact makes the track seem wider in turns.
        backward: Standard deviation of how much stronger a motor is backward, as a share.
        drift: Standard deviation of the slow change of a motor's gain, as a share.
        drift_seconds: Time constant of that change.
        camera_mm: Standard deviation of the camera's position.
        camera_degrees: Standard deviation of its heading.
        settle: Seconds from the stop of the motors to the picture.
        latency: Least and largest time in s from the picture to the pose's arrival.
    """

    track: float = 30.0
    full_speed: float = 110.0
    mismatch: float = 0.12
    dead_band: float = 0.10
    lag: float = 0.05
    coast: float = 0.03
    noise: float = 0.03
    noise_seconds: float = 1.0
    slip: float = 0.02
    scrub: float = 0.05
    backward: float = 0.02
    drift: float = 0.02
    drift_seconds: float = 300.0
    camera_mm: float = 0.3
    camera_degrees: float = 0.3
    settle: float = 0.12
    latency: tuple[float, float] = (0.04, 0.12)


class Millirobot:
    """One robot and the camera above it.

    Args:
        seed: Of the body's differences and of all noise.
        body: Its constants.
    """

    def __init__(self, seed: int = 0, body: Body | None = None) -> None:
        self.body = body or Body()
        if not (self.body.track > 0 and self.body.lag > 0 and self.body.coast > 0):
            raise ConfigurationError("a robot's track, lag and coast must be positive")
        self._rng = np.random.default_rng(seed)
        faster = self._rng.permutation([1 + self.body.mismatch / 2, 1 - self.body.mismatch / 2])
        #: Gain of the left and the right motor; change it to weaken one, set it to 0 to block it.
        self.gain: NDArray[np.float64] = faster
        self._backward = 1 + self.body.backward * self._rng.standard_normal(2)
        self._dead_band = self.body.dead_band * self._rng.uniform(0.9, 1.1, 2)
        self._noise = self.body.noise * self._rng.standard_normal(2)
        self._drift = self.body.drift * self._rng.standard_normal(2)
        self._load_kg = 0.0
        self._place = np.zeros(3)
        #: Whether the camera sees the robot.
        self.visible = True
        #: Seconds since the start.
        self.clock = 0.0
        #: (N, 3) true poses of the last motion, 10 ms apart, with its first and last.
        self.trace: NDArray[np.float64] = self._place[None]

    @property
    def true_pose(self) -> Pose:
        """Where it really is."""
        return Pose(*(float(value) for value in self._place))

    def load(self, kilograms: float) -> None:
        """Put a load on the robot, instead of what was there: friction and inertia grow, and wheels slip more."""
        if not 0 <= kilograms <= 1:
            raise ConfigurationError(f"a load of {kilograms} kg is not within 0 to 1 kg")
        share = (kilograms - self._load_kg) / _FULL_LOAD_KG
        self._load_kg = kilograms
        self.body = dataclasses.replace(
            self.body,
            full_speed=self.body.full_speed * 0.8**share,
            lag=self.body.lag * 2.0**share,
            slip=self.body.slip * 2.0**share,
        )
        self._dead_band = self._dead_band + 0.06 * share

    def weaken(self, wheel: int, factor: float) -> None:
        """Multiply the gain of a motor (0 left, 1 right); 0 blocks it."""
        self.gain = self.gain * np.where(np.arange(2) == wheel, factor, 1.0)

    def move(self, left: int, right: int, milliseconds: int) -> None:
        """Run both motors (thousandths of full speed), then stop; the clock moves on until the next pose arrives."""
        duration = milliseconds / 1000
        waiting = self.body.settle + self._rng.uniform(*self.body.latency)
        ticks = max(1, math.ceil((duration + self.body.settle) / _STEP_S))
        time = (np.arange(ticks) + 0.5) * _STEP_S
        command = np.array([left, right]) / 1000
        drive = np.clip(np.abs(command) - self._dead_band, 0, None) * np.sign(command)
        drive = drive * np.where(command < 0, self._backward, 1.0)
        profile = np.where(
            time < duration,
            1 - np.exp(-time / self.body.lag),
            (1 - math.exp(-duration / self.body.lag)) * np.exp(-(time - duration).clip(0) / self.body.coast),
        )
        slip = 1 - self.body.slip * self._rng.uniform(0, 2, 2)
        speed = self.body.full_speed * self.gain * (1 + self._drift) * drive * slip
        wheels = speed * profile[:, None] * (1 + self._noise_of(ticks))
        self._integrate(wheels)
        self._elapse(duration + waiting)

    def wait(self, seconds: float) -> None:
        """Stand still."""
        self.trace = self._place[None]
        self._elapse(seconds)

    def look(self) -> Pose | None:
        """What the camera tells; ``None`` where it doesn't see the robot."""
        if not self.visible:
            return None
        noise = self._rng.standard_normal(3)
        sigma = math.radians(self.body.camera_degrees)
        heading = self._place[2] + sigma * noise[2]
        return Pose(
            round(float(self._place[0] + self.body.camera_mm * noise[0]), 2),
            round(float(self._place[1] + self.body.camera_mm * noise[1]), 2),
            round(math.remainder(float(heading), math.tau), 4),
        )

    def _noise_of(self, ticks: int) -> NDArray[np.float64]:
        """(ticks, 2) noise of the wheels: an Ornstein–Uhlenbeck process that goes on from motion to motion."""
        keep = math.exp(-_STEP_S / self.body.noise_seconds)
        kicks = self.body.noise * math.sqrt(1 - keep**2) * self._rng.standard_normal((ticks, 2))
        powers = keep ** np.arange(1, ticks + 1)[:, None]
        series: NDArray[np.float64] = powers * (self._noise + np.cumsum(kicks / powers, axis=0))
        self._noise = series[-1]
        return series

    def _integrate(self, wheels: NDArray[np.float64]) -> None:
        """Move by (ticks, 2) wheel speeds."""
        forward = wheels.mean(axis=1) * _STEP_S
        turns = (wheels[:, 1] - wheels[:, 0]) * _STEP_S / (self.body.track * (1 + self.body.scrub))
        headings = self._place[2] + np.cumsum(turns)
        middle = headings - turns / 2
        path = np.stack([np.cumsum(forward * np.cos(middle)), np.cumsum(forward * np.sin(middle))], axis=1)
        track = np.column_stack([self._place[:2] + path, headings])
        self.trace = np.vstack([self._place, track])
        self._place = track[-1]

    def _elapse(self, seconds: float) -> None:
        keep = math.exp(-seconds / self.body.drift_seconds)
        spread = self.body.drift * math.sqrt(1 - keep**2)
        self._drift = keep * self._drift + spread * self._rng.standard_normal(2)
        self.clock += seconds
