"""What a real Delta does worse than its model: late, with play in its gears, not quite where it should stand."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array


@dataclass(frozen=True, eq=False)
class Flaws:
    """By how much a twin is worse than planned; the default is not at all.

    Attributes:
        mount: (4, 4) error of the calibration: the pose, in the workspace, in which the robot truly stands when it is
            believed to stand exactly. The workspace's origin is where the calibration was made, so a turn is about it.
        latency: Seconds between a command and the motion; the fingers and the stages' clock do not wait for it.
        backlash: Radians of play between each motor and its arm. Without load, as here, an arm stops at the near side
            of its play; gravity would hold it at one side.
        turn_backlash: The same between the fourth motor and the tool.
    """

    mount: Array = field(default_factory=lambda: np.eye(4))
    latency: float = 0.0
    backlash: float = 0.0
    turn_backlash: float = 0.0

    def __post_init__(self) -> None:
        for name in ("latency", "backlash", "turn_backlash"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"flaws: {name} must not be negative, but is {value}")
        if self.mount.shape != (4, 4) or not np.isfinite(self.mount).all():
            raise InputError("flaws: mount must be a pose (4, 4)")


class Transmission:
    """Where the joints are driven when commands arrive late and through gears with play.

    Args:
        flaws: How late, and how much play.
        start: (4,) commands of the three arms and of the tool's turn from which it begins, at rest.
        time_step: Seconds between two commands.
    """

    def __init__(self, flaws: Flaws, start: Array, time_step: float) -> None:
        delay = round(flaws.latency / time_step)
        self._half = np.array([flaws.backlash] * 3 + [flaws.turn_backlash]) / 2
        self._under_way: deque[Array] = deque([start] * (delay + 1), maxlen=delay + 1)
        #: (4,) what the joints are driven to now.
        self.output: Array = start.copy()

    @property
    def command(self) -> Array:
        """The newest command, (4,)."""
        return self._under_way[-1]

    def send(self, command: Array) -> Array:
        """Take a command (4,) and return the output (4,): the command that arrives now, less the play."""
        self._under_way.append(command)
        arriving = self._under_way[0]
        self.output = np.clip(self.output, arriving - self._half, arriving + self._half)
        return self.output
