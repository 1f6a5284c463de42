"""Lines out and answers in: one thread reads the port for as long as it is open."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from keygrasp.robots.delta_x.dialects import line
from keygrasp.robots.delta_x.failures import HaltedError
from keygrasp.robots.delta_x.replies import LineReader, Reply
from keygrasp.robots.serial_port import ConnectionLostError, SerialPort

#: Answers that are kept unread; a robot in order never has more than two.
_MOST_UNREAD = 1000
#: Seconds between questions to ``watch`` while waiting.
_WATCH_SECONDS = 0.01


class Link:
    """The line to a robot.

    Args:
        port: An open port, closed with the link.
    """

    def __init__(self, port: SerialPort) -> None:
        self._port = port
        self._replies: deque[Reply] = deque(maxlen=_MOST_UNREAD)
        self._arrived = threading.Condition()
        self._lost: ConnectionLostError | None = None
        self._closing = threading.Event()
        self._sealed = False
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="delta reader", daemon=True)
        self._thread.start()

    def send(self, command: str) -> None:
        """Send one line; from any thread.

        Raises:
            ConnectionLostError: If the port is gone.
            HaltedError: If the link is sealed.
        """
        self.send_raw(line(command))

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are; from any thread."""
        with self._writing:
            if self._sealed:
                raise HaltedError("nothing is sent after an emergency stop", "Reset it, which homes the robot")
            self._write(data)

    def seal(self, last: bytes) -> None:
        """Send last bytes, after which nothing from any thread reaches the robot until :meth:`unseal`."""
        with self._writing:
            self._sealed = True
            self._write(last)

    def unseal(self) -> None:
        """Let lines through again."""
        self._sealed = False

    def _write(self, data: bytes) -> None:
        if self._lost is not None:
            raise self._lost
        try:
            self._port.write(data)
        except ConnectionLostError as error:
            self._lose(error)
            raise

    def next(self, deadline: float, watch: Callable[[], None] | None = None) -> Reply | None:
        """The next answer, or ``None`` once ``deadline`` (of :func:`time.monotonic`) has passed.

        Args:
            deadline: Until when to wait.
            watch: Called now and then while waiting; may raise.

        Raises:
            ConnectionLostError: If the port is gone and all that had arrived is read.
        """
        while True:
            with self._arrived:
                if self._replies:
                    return self._replies.popleft()
                if self._lost is not None:
                    raise self._lost
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._arrived.wait(left if watch is None else min(left, _WATCH_SECONDS))
            if watch is not None:
                watch()

    def drain(self) -> list[Reply]:
        """All that has arrived and is unread."""
        with self._arrived:
            replies = list(self._replies)
            self._replies.clear()
        return replies

    def close(self, reason: str = "the connection is closed") -> None:
        """Close the port; whoever waits gets ``reason`` as an error."""
        self._closing.set()
        self._lose(ConnectionLostError(reason, "Connect again"))
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._port.close()

    def _read(self) -> None:
        reader = LineReader()
        try:
            while not self._closing.is_set():
                replies = reader.feed(self._port.read())
                if replies:
                    with self._arrived:
                        self._replies.extend(replies)
                        self._arrived.notify_all()
        except ConnectionLostError as error:
            self._lose(error)

    def _lose(self, error: ConnectionLostError) -> None:
        with self._arrived:
            self._lost = self._lost or error
            self._arrived.notify_all()
