"""Where the robot is: what it has confirmed, and where it should be by now while it moves."""

from __future__ import annotations

import time

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x.failures import PositionError
from keygrasp.robots.delta_x.ramps import Ramp


class Tracker:
    """Position of the platform, (3,) in metres.

    Args:
        home: Where it is taken to be before the robot ever said.
        tolerance: Metres between what the robot says and what is expected.
    """

    def __init__(self, home: Array, tolerance: float) -> None:
        self._confirmed, self._tolerance = home, tolerance
        self._under_way: tuple[Array, Ramp, float] | None = None

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

    def begin(self, goal: Array, ramp: Ramp) -> None:
        """A straight move begins now."""
        self._under_way = (goal, ramp, time.monotonic())

    def take(self, position: Array) -> None:
        """It is there, and at rest."""
        self._under_way, self._confirmed = None, position

    def is_at(self, place: Array) -> bool:
        """Whether it is at a place, within the tolerance."""
        return float(np.linalg.norm(self._confirmed - place)) <= self._tolerance

    def confirm(self, expected: Array, actual: Array) -> None:
        """Take over what the robot says.

        Raises:
            PositionError: If that isn't where it should be.
        """
        self.take(actual)
        if not self.is_at(expected):
            off = float(np.linalg.norm(actual - expected))
            raise PositionError(
                f"the robot says it is {off * 1e3:.2f} mm from where it was sent "
                f"({', '.join(f'{1e3 * v:.2f}' for v in actual)}) mm",
                "Connect again, which homes it",
            )
