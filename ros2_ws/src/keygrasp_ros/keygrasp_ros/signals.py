"""SIGINT and SIGTERM over the life of a process: while it imports, while it works, while it ends.

Imports nothing heavy, so that it can come before everything else.
"""

from __future__ import annotations

import gc
import os
import signal
import threading

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def leave_at_once() -> None:
    """Before anything was started: a signal ends the process with status 0 and without a word."""
    for number in _SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))


def stop_on_signal() -> threading.Event:
    """From now on a signal sets the event that is returned."""
    stop = threading.Event()
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


def end_process() -> None:
    """End this process as a signal from outside would: in order, with status 0."""
    os.kill(os.getpid(), signal.SIGTERM)
