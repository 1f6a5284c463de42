"""SIGINT and SIGTERM over the life of a process: while it imports, while it works, while it ends.

Imports nothing heavy, so that it can come before everything else.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import queue
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Seconds that DDS has to let go of a process: a good end takes less than one.
_LETTING_GO_SECONDS = 20.0


class Stop:
    """Whether to stop: set by threads and signals alike, waited for by one thread.

    What ``threading.Event`` is for threads alone: its ``set()`` in a signal's handler waits for ever where the signal
    finds the same thread inside ``wait()``, with the event's lock in its hands.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Stop."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        """Whether to stop."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, but not for ever; whether it is."""
        if not self._is_set:
            with contextlib.suppress(queue.Empty):
                self._wakes.get(timeout=seconds)
        return self._is_set


def leave_at_once() -> None:
    """Before anything was started: a signal ends the process with status 0 and without a word."""
    for number in _SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))


def stop_on_signal() -> Stop:
    """From now on a signal sets what is returned."""
    stop = Stop()
    for number in _SIGNALS:
        signal.signal(number, lambda *_: stop.set())
    return stop


def end_quietly() -> None:
    """When the work is done: let the interpreter end quickly, whatever else is sent to it.

    Python gives signals their default action back while it ends, so that a second one, such as that of an impatient
    launcher, would turn a good end into a death by signal; and it searches everything that was ever imported for
    garbage once more, which takes seconds where five nodes do so at the same time.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()


def end_at_once(status: int) -> NoReturn:
    """When the nodes are closed and nothing is left to write: end the process without the interpreter's own end.

    That would take the threads of libraries apart while they run, which hangs now and then on a busy machine.
    """
    end_quietly()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(status)


@contextlib.contextmanager
def letting_go() -> Iterator[None]:
    """While callbacks end and DDS is left: say where that hangs, if it does, and end the process all the same."""
    faulthandler.dump_traceback_later(_LETTING_GO_SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def end_process() -> None:
    """End this process as a signal from outside would: in order, with status 0."""
    os.kill(os.getpid(), signal.SIGTERM)
