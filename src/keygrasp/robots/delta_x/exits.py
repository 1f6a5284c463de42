"""Every way out of a program leads past the robot's shutdown."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from keygrasp.errors import RobotError
from keygrasp.robots.delta_x.driver import DeltaX

#: ``prctl``'s request for a signal when the parent dies (linux/prctl.h).
_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class TerminatedError(SystemExit):
    """The process was told to end by a signal."""


@contextlib.contextmanager
def running(driver: DeltaX, *, with_parent: bool = False) -> Iterator[DeltaX]:
    """Connect, and close whatever happens: an exception, Ctrl-C, SIGTERM, SIGHUP. Only in the main thread.

    A process that is killed outright is covered by the driver's guardian.

    Args:
        driver: The driver.
        with_parent: End too when the parent process dies (Linux).
    """
    if threading.current_thread() is not threading.main_thread():
        raise RobotError("signals can be handled in the main thread only", "Use 'with DeltaX(...)' in other threads")

    def terminate(number: int, _: FrameType | None) -> None:
        raise TerminatedError(128 + number)

    before = {number: signal.signal(number, terminate) for number in _SIGNALS}
    try:
        if with_parent:
            _die_with_parent()
        driver.connect()
        yield driver
    finally:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second signal must not cut the shutdown short
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        driver.close()
        signal.signal(signal.SIGINT, interrupt)
        for number, handler in before.items():
            signal.signal(number, handler)


def _die_with_parent() -> None:
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise RobotError(f"prctl failed: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died meanwhile
        raise TerminatedError(128 + signal.SIGTERM)
