"""What threads cost a process, and how not to pay it; imports no numerical library, so that it can come first."""

from __future__ import annotations

import contextlib
import ctypes
import os

#: ``M_ARENA_MAX`` of glibc's ``mallopt``.
_ARENA_MAX = -8


def one_thread_each() -> None:
    """From the libraries that are imported after this, one thread each, unless the user's environment says otherwise.

    The arrays of a plan are so small that more threads win nothing; and between two calls, BLAS's wait for the next one
    at the full speed of a core, which the other nodes need.
    """
    from keygrasp.trials.pool import SINGLE_THREAD  # its imports take longer than a node may be deaf to signals

    for name, count in SINGLE_THREAD.items():
        os.environ.setdefault(name, count)


def one_heap() -> None:
    """Let the threads that are started after this share one heap.

    By default each has its own, which keeps what its largest image ever needed: 15 MB at 640×480, for each thread that
    ever ran a callback.
    """
    with contextlib.suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
