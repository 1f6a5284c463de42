"""How long motions take: rest to rest with limited speed and acceleration, as the firmware makes them, and turns."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Radians a second of the tool's axis (an RC servo).
_TURN_SPEED = math.radians(300)


@dataclass(frozen=True)
class Ramp:
    """A motion over a distance: full acceleration, full speed where there is room for it, full deceleration.

    Attributes:
        distance: In any unit of length.
        speed: The same a second.
        acceleration: The same a second squared.
    """

    distance: float
    speed: float
    acceleration: float

    @property
    def rise(self) -> float:
        """Seconds of acceleration, and of deceleration."""
        return min(self.speed / self.acceleration, math.sqrt(self.distance / self.acceleration))

    @property
    def duration(self) -> float:
        """Seconds from rest to rest."""
        rise = self.rise
        return self.distance / (self.acceleration * rise) + rise if rise > 0 else 0.0

    def share(self, elapsed: float) -> float:
        """Share in [0, 1] of the distance after some seconds."""
        duration, rise = self.duration, self.rise
        if elapsed >= duration:
            return 1.0
        t, half = max(0.0, elapsed), 0.5 * self.acceleration / self.distance
        if t < rise:
            return half * t**2
        if t <= duration - rise:
            return half * rise * (2 * t - rise)
        return 1.0 - half * (duration - t) ** 2


def turn_seconds(before: float | None, after: float | None) -> float:
    """Longest time that the tool's axis takes.

    Args:
        before: Where it is, in radians; ``None`` where it is not known, which costs a whole turn.
        after: Where it goes; ``None`` where it stays.
    """
    if after is None:
        return 0.0
    return (2 * math.pi if before is None else abs(after - before)) / _TURN_SPEED
