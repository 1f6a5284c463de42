"""Simulated time on ``/clock``: the physics engine's while the arm moves, and the wall's pace while it stands.

A clock that stood still with the arm would stop every timer of the nodes that follow it, the camera's among them.
"""

from __future__ import annotations

import time

from builtin_interfaces.msg import Time
from rclpy.clock import Clock as RosClock
from rclpy.clock import ClockType
from rclpy.node import Node

from keygrasp_ros.topics import CLOCK

#: Seconds between messages.
_PERIOD = 0.04
#: Longest plausible step of the physics engine in seconds; a longer one is another scene's time.
_LONGEST_STEP = 0.1


class SimClock:
    """Counts simulated time from 0 and publishes it.

    Args:
        node: Node that publishes.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._publisher = node.create_publisher(CLOCK.type, CLOCK.name, CLOCK.qos)
        self._seconds, self._published = 0.0, -1.0
        self._wall, self._engine = time.monotonic(), 0.0
        #: On the wall's clock: one that follows this one would never begin.
        self._timer_clock = RosClock(clock_type=ClockType.STEADY_TIME)

    def start(self, tick: object) -> object:
        """A timer that calls ``tick``, which should call :meth:`idle` while the arm stands."""
        return self._node.create_timer(_PERIOD, tick, clock=self._timer_clock)

    def now(self) -> Time:
        """The present time."""
        whole, part = divmod(round(self._seconds * 1e9), 10**9)
        return Time(sec=whole, nanosec=part)

    def idle(self) -> None:
        """Go on with the wall's clock."""
        now = time.monotonic()
        self._seconds += max(0.0, min(now - self._wall, 10 * _PERIOD))
        self._wall = now
        self._publish()

    def step(self, engine: float) -> None:
        """Go on with the engine's time in seconds."""
        ahead, self._engine = engine - self._engine, engine
        if 0 < ahead <= _LONGEST_STEP:
            self._seconds += ahead
        self._wall = time.monotonic()
        if self._seconds - self._published >= _PERIOD:
            self._publish()

    def close(self) -> None:
        """Publish no more."""
        self._node.destroy_publisher(self._publisher)

    def _publish(self) -> None:
        self._published = self._seconds
        self._publisher.publish(CLOCK.type(clock=self.now()))
