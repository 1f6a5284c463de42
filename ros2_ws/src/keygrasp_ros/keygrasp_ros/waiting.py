"""Waiting for an answer inside a callback: with a time limit, and open to cancelling.

A callback on a multi-threaded executor may block its thread; ``Client.call()`` may not be used there, because it knows
neither a limit nor a cancel.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.task import Future

from keygrasp.errors import RobotError

_POLL_SECONDS = 0.02
#: From when a server is seen until it is sure to see us as well, also on a busy machine. A little less than the second
#: between two looks of the diagnostics, so that the second look is enough.
_ACQUAINTED_SECONDS = 0.9


class CancelledError(Exception):
    """Whoever waited was asked to stop."""


def wait_for(future: Future, what: str, seconds: float, cancelled: Callable[[], bool]) -> Any:
    """The future's result.

    Raises:
        CancelledError: If ``cancelled()`` became true first.
        RobotError: If no answer came within ``seconds``.
    """
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait(_POLL_SECONDS)  # before the first of the questions below, which cost an answer that is quick
    wait_until(done.is_set, what, seconds, cancelled, pause=done.wait)
    return future.result()


def wait_until(
    ready: Callable[[], bool],
    what: str,
    seconds: float,
    cancelled: Callable[[], bool],
    pause: Callable[[float], Any] = time.sleep,
) -> None:
    """Wait until ``ready()``; see :func:`wait_for`."""
    deadline = time.monotonic() + seconds
    while not ready():
        if cancelled():
            raise CancelledError
        if time.monotonic() > deadline:
            raise RobotError(f"{what} within {seconds:g} s", "Is the node running? See 'ros2 node list'")
        pause(_POLL_SECONDS)


class Acquaintance:
    """Whether a server is there, and has been for long enough to know of us.

    Discovery is one-sided at first: a server that hears a request from whom it does not know yet loses its answer.

    Args:
        is_here: Whether the server is seen; time counts from when this is first asked.
    """

    def __init__(self, is_here: Callable[[], bool]) -> None:
        self._is_here = is_here
        self._since: float | None = None

    def __call__(self) -> bool:
        """Whether it may be asked."""
        if not self._is_here():
            self._since = None
            return False
        now, since = time.monotonic(), self._since  # another thread may ask at the same time
        if since is None:
            since = self._since = now
        return now - since >= _ACQUAINTED_SECONDS

    def again(self) -> None:
        """Somebody came or went, maybe between two questions: time counts anew."""
        self._since = None
