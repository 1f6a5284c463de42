"""Once a second, at the same moment for all nodes of a process.

An executor looks through everything that it waits for whenever it wakes up, which takes milliseconds for several nodes:
timers that fire together cost one look, timers that fire apart cost one each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rclpy.callback_groups import CallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.timer import Timer


class EachSecond:
    """Calls back at each full second of the machine's steady clock.

    It doesn't follow ``/clock``, so that a node that waits for that clock can still say so.

    Args:
        node: Node on whose executor the callback runs.
        callback: What to call.
        group: Its callback group; the node's own by default.
    """

    def __init__(self, node: Node, callback: Callable[[], None], group: CallbackGroup | None = None) -> None:
        self._node, self._callback, self._group = node, callback, group
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._lock = threading.Lock()
        self._timer: Timer | None = self._create(1.0 - time.monotonic() % 1.0, self._align)

    def destroy(self) -> None:
        """Call no more."""
        with self._lock:
            if self._timer is not None:
                self._node.destroy_timer(self._timer)
            self._timer = None

    def _align(self) -> None:
        """At the first full second: begin the period here."""
        with self._lock:
            if self._timer is not None:
                self._node.destroy_timer(self._timer)
                self._timer = self._create(1.0, self._callback)

    def _create(self, period: float, callback: Callable[[], None]) -> Timer:
        return self._node.create_timer(period, callback, self._group, self._clock)
