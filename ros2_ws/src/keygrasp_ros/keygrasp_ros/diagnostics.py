"""What a node did and how long it took, on ``/diagnostics`` at 1 Hz."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from keygrasp_ros.namesakes import TEXT, Namesakes
from keygrasp_ros.ticking import EachSecond
from keygrasp_ros.topics import DIAGNOSTICS

#: Message of a node that has all that it needs.
RUNNING = "running"
_WINDOW = 500
#: Seconds without what is needed after which the log says so; at start it is on its way for a while.
_PATIENCE = 5


class Monitor:
    """Counts answers, faults and latencies of one node.

    Args:
        node: Node that publishes.
        missing: Names what the node still needs from others; nothing where it needs nobody.
        details: More values to publish.
        broken: What makes the node useless until somebody acts, in words; empty where nothing does.
        ready: What the log says when nothing is missing any more; empty for no word.
    """

    def __init__(
        self,
        node: Node,
        missing: Callable[[], Sequence[str]] = tuple,
        ready: str = "",
        *,
        details: Callable[[], Mapping[str, object]] = dict,
        broken: Callable[[], str] = str,
    ) -> None:
        self._node, self._missing, self._ready = node, missing, ready
        self._details, self._broken, self._namesakes = details, broken, Namesakes(node)
        self._seconds_missing = 1  # like after a fault: the first complete second is worth a word
        self._lock = threading.Lock()
        self._milliseconds: deque[float] = deque(maxlen=_WINDOW)
        self._answers = 0
        self._faults = 0
        self._last_fault = ""
        self._publisher = node.create_publisher(DIAGNOSTICS.type, DIAGNOSTICS.name, DIAGNOSTICS.qos)
        self._timer = EachSecond(node, self._publish)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count what happens inside as one answer, with its latency."""
        start = time.perf_counter()
        yield
        with self._lock:
            self._answers += 1
            self._milliseconds.append((time.perf_counter() - start) * 1e3)

    def fault(self, text: str) -> None:
        """Count and log something that went wrong."""
        self._node.get_logger().warning(text, throttle_duration_sec=1.0)
        with self._lock:
            self._faults += 1
            self._last_fault = text

    def _publish(self) -> None:
        with self._lock:
            times = np.array(self._milliseconds) if self._milliseconds else np.zeros(1)
            values = {"answers": self._answers, "faults": self._faults, "last_fault": self._last_fault}
        values |= {f"p{q}_ms": f"{np.percentile(times, q):.1f}" for q in (50, 99)}
        status = DiagnosticStatus(level=DiagnosticStatus.OK, name=self._node.get_fully_qualified_name())
        status.message = RUNNING
        missing = self._missing()
        clock = self._node.get_clock()
        if clock.ros_time_is_active and clock.now().nanoseconds == 0:
            missing = ("'/clock'", *missing)
        if missing:
            status.level, status.message = DiagnosticStatus.WARN, f"waits for {', '.join(missing)}"
        namesake = self._namesakes.stay()
        if namesake:
            status.level, status.message = DiagnosticStatus.WARN, TEXT
        broken = self._broken()
        if broken:
            status.level, status.message = DiagnosticStatus.ERROR, broken
        self._tell(status.message, bool(missing or namesake or broken))
        values |= self._details()
        status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def _tell(self, message: str, missing: bool) -> None:
        """Say in the log when everything is there, and when something has been missing for a while."""
        before, self._seconds_missing = self._seconds_missing, self._seconds_missing + 1 if missing else 0
        if self._ready and before and not missing:
            self._node.get_logger().info(self._ready)
        elif self._seconds_missing == 1 + _PATIENCE:
            self._node.get_logger().warning(message)
