"""Where the robot is: what it has confirmed, and where it should be by now while it moves."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x.failures import PositionError
from keygrasp.robots.delta_x.ramps import Ramp


@dataclass(frozen=True, eq=False)
class Whereabouts:
    """Where the platform is, for displays.

    Attributes:
        position: (3,) metres in the robot's frame.
        moving: Whether a move is under way: no firmware tells where it is within one, so the position is then an
            estimate between two answers, by the move's own speed profile.
        age: Seconds since the robot last said where it is; infinite before it ever did.
        lag: Metres between that answer and where it had been sent.
        turn: ``W`` in radians as it was last acknowledged; ``None`` where it is not known.
        opening: Metres to which the gripper was last told to go, and said that it had; nothing measures them. ``None``
            where it is not known, or there is no gripper.
    """

    position: Array
    moving: bool
    age: float
    lag: float
    turn: float | None
    opening: float | None


class Tracker:
    """Position of the platform, (3,) in metres.

    Args:
        home: Where it is taken to be before the robot ever said.
        tolerance: Metres between what the robot says and what is expected.
    """

    def __init__(self, home: Array, tolerance: float) -> None:
        self._confirmed, self._tolerance = home, tolerance
        self._under_way: tuple[Array, Ramp, float] | None = None
        self._answered, self._lag = -math.inf, 0.0

    @property
    def position(self) -> Array:
        """Where the latest command that is complete ended."""
        return self._confirmed.copy()

    def estimate(self) -> Array:
        """Where it should be by now, if it moves as it was told; for displays. From any thread."""
        start, under_way = self._confirmed, self._under_way
        if under_way is None:
            return start.copy()
        goal, ramp, began = under_way
        return np.asarray(start + ramp.share(time.monotonic() - began) * (goal - start))

    def whereabouts(self, turn: float | None, opening: float | None) -> Whereabouts:
        """Where it should be by now, and how well that is known. From any thread.

        Args:
            turn: Of the tool.
            opening: Of the gripper.
        """
        moving, age = self._under_way is not None, time.monotonic() - self._answered
        return Whereabouts(self.estimate(), moving, age, self._lag, turn, opening)

    def begin(self, goal: Array, ramp: Ramp) -> None:
        """A straight move begins now."""
        self._under_way = (goal, ramp, time.monotonic())

    def arrive(self, goal: Array) -> None:
        """It acknowledged a move: it is there, and at rest."""
        self._under_way, self._confirmed = None, goal

    def take(self, position: Array) -> None:
        """It says that it is there, and is at rest."""
        self.arrive(position)
        self._answered = time.monotonic()

    def is_at(self, place: Array) -> bool:
        """Whether it is at a place, within the tolerance."""
        return float(np.linalg.norm(self._confirmed - place)) <= self._tolerance

    def confirm(self, expected: Array, actual: Array) -> None:
        """Take over what the robot says.

        Raises:
            PositionError: If that isn't where it should be.
        """
        self.take(actual)
        off = self._lag = float(np.linalg.norm(actual - expected))
        if not self.is_at(expected):
            raise PositionError(
                f"the robot says it is {off * 1e3:.2f} mm from where it was sent "
                f"({', '.join(f'{1e3 * v:.2f}' for v in actual)}) mm",
                "Connect again, which homes it",
            )
