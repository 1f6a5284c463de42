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
