"""Speaks the last words when the driver's process dies: a small process of its own that holds the port open.

It gets the port's descriptor, and lines of JSON on its standard input: what to send if the input ends without
``"done"``. It runs by path without the library, so that it is there within milliseconds and needs little memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import termios
import time

#: Seconds between the filler that ends an unfinished line and the line end after it.
_FILLER_SECONDS = 0.05
#: Seconds that the driver waits for the process to end.
_END_SECONDS = 2.0


class Guardian:
    """The driver's end: starts the process, tells it what to send, dismisses it.

    Args:
        descriptor: The port's.
    """

    def __init__(self, descriptor: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this file, by the interpreter that runs
            [sys.executable, "-I", "-S", __file__, str(descriptor)],
            stdin=subprocess.PIPE,
            pass_fds=(descriptor,),
            start_new_session=True,  # a Ctrl-C in the terminal must not reach it
        )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def instruct(self, pieces: list[bytes]) -> None:
        """Say what to send if this process dies; each piece a while after the one before."""
        self._tell([piece.decode("ascii") for piece in pieces])

    def dismiss(self) -> None:
        """End it without sending anything, and wait: it shares the port's lock."""
        self._tell("done")
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, message: object) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # if it is gone, the driver itself still shuts down
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                self._process.stdin.flush()


def watch(descriptor: int) -> None:
    """The process: read instructions to the end, and follow the latest."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pieces: list[str] = []
    for text in sys.stdin:
        message = json.loads(text)
        if message == "done":
            return
        pieces = message
    for piece in pieces:
        os.write(descriptor, piece.encode("ascii"))
        time.sleep(_FILLER_SECONDS)
    termios.tcdrain(descriptor)


if __name__ == "__main__":
    try:
        watch(int(sys.argv[1]))
    except (OSError, termios.error):  # the port is gone too
        sys.exit(1)
