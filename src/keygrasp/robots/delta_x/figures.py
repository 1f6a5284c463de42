"""How talking to the robot goes: counts and latencies, for people who watch it."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

#: Latencies of which percentiles are told.
_WINDOW = 500


class Figures:
    """Counts over the life of a driver, connection after connection; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {"connections": 0, "commands": 0, "rejected": 0, "missing": 0, "restarts": 0}
        self._seconds: deque[float] = deque(maxlen=_WINDOW)

    def count(self, name: str) -> None:
        """One more connection, acknowledged or rejected command, missing answer, or restart of the firmware."""
        with self._lock:
            self._counts[name] += 1

    def answered(self, seconds: float) -> None:
        """A robot at rest said where it is, so long after it was asked: the latency of the line and of its firmware."""
        with self._lock:
            self._seconds.append(seconds)

    def snapshot(self) -> dict[str, float]:
        """The counts, and median and 99th percentile of the latency in milliseconds."""
        with self._lock:
            counts, seconds = dict(self._counts), np.array(self._seconds or [0.0])
        return counts | {f"answer_p{q}_ms": round(1e3 * float(np.percentile(seconds, q)), 2) for q in (50, 99)}
