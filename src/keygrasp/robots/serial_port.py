"""A robot's serial port: opened for one program alone, and every way to lose it turned into one error."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from keygrasp.errors import RobotError
from keygrasp.extras import require

if TYPE_CHECKING:
    import serial

BAUD_RATE = 115200
#: Seconds that reading waits for the first byte, and that writing may take.
_READ_SECONDS = 0.05
_WRITE_SECONDS = 1.0
#: Seconds between looks for a vanished port.
_LOOK_SECONDS = 0.1


class ConnectionLostError(RobotError):
    """The port vanished, or was closed by an emergency stop."""


class PortBusyError(RobotError):
    """Another program holds the port."""


def find_port(serial_number: str) -> str:
    """Path of the USB serial port whose adapter has a serial number.

    Raises:
        RobotError: If there is none; the message lists those that there are.
    """
    ports = require("serial.tools.list_ports", "hardware").comports()
    for port in ports:
        if port.serial_number == serial_number:
            return str(port.device)
    known = ", ".join(f"{port.serial_number} ({port.device})" for port in ports if port.serial_number) or "none"
    raise RobotError(f"no serial adapter has the number '{serial_number}'", f"Plugged in: {known}")


def is_plugged_in(path: str, serial_number: str | None) -> bool:
    """Whether a port is there, by the number of its adapter or by its path."""
    if serial_number is None:
        return Path(path).exists()
    with contextlib.suppress(RobotError):
        return bool(find_port(serial_number))
    return False


def wait_for_port(path: str, serial_number: str | None, seconds: float, watch: Callable[[], None]) -> None:
    """Wait until a port is there (again), and call ``watch`` meanwhile, which may raise.

    Raises:
        ConnectionLostError: If it stays away.
    """
    deadline = time.monotonic() + seconds
    while not is_plugged_in(path, serial_number):
        watch()
        if time.monotonic() > deadline:
            raise ConnectionLostError(f"{serial_number or path} stayed away for {seconds:.0f} s", "Check the cable")
        time.sleep(_LOOK_SECONDS)


class SerialPort:
    """An open port.

    Args:
        path: Such as ``/dev/ttyUSB0``.

    Raises:
        PortBusyError: If another program has it.
        RobotError: If it can't be opened.
    """

    def __init__(self, path: str) -> None:
        pyserial = require("serial", "hardware")
        self.path = path
        try:
            self._serial: serial.Serial = pyserial.Serial(
                path, BAUD_RATE, timeout=_READ_SECONDS, write_timeout=_WRITE_SECONDS, exclusive=True
            )
        except (OSError, ValueError) as error:  # SerialException is an OSError
            raise _opening_error(path, error) from error
        if not os.path.realpath(path).startswith("/dev/pts/"):
            # Keeps out programs that don't ask for the lock. A pseudo-terminal would stay closed after a crash, as its
            # other end stays open.
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._serial.fileno(), termios.TIOCEXCL)

    @property
    def descriptor(self) -> int:
        """The file descriptor."""
        return int(self._serial.fileno())

    def read(self) -> bytes:
        """Bytes that have arrived; empty after a short while without any.

        Raises:
            ConnectionLostError: If the port is gone.
        """
        try:
            return self._serial.read(max(1, self._serial.in_waiting))
        except (OSError, TypeError, ValueError) as error:  # the latter two: closed by another thread meanwhile
            raise ConnectionLostError(f"the port {self.path} vanished ({error})", "Check the cable") from error

    def write(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            ConnectionLostError: If the port is gone, or takes nothing any more.
        """
        try:
            self._serial.write(data)
        except (OSError, TypeError, ValueError) as error:
            raise ConnectionLostError(f"can't write to {self.path} ({error})", "Check the cable") from error

    def close(self) -> None:
        """Close the port, which also gives up the lock."""
        with contextlib.suppress(OSError, TypeError, ValueError):
            self._serial.close()


def _opening_error(path: str, error: Exception) -> RobotError:
    number = getattr(error, "errno", None)
    if number in (errno.EAGAIN, errno.EBUSY, errno.EWOULDBLOCK):
        return PortBusyError(f"{path} is in use by another program", "End it; only one may drive the robot")
    if number == errno.EACCES:
        return RobotError(f"no permission to open {path}", "Add yourself to the port's group (often 'dialout')")
    if number == errno.ENOENT:
        return RobotError(f"there is no port {path}", "Plug the robot in, or start 'keygrasp delta emulate'")
    return RobotError(f"can't open {path}: {error}", "Is it a serial port?")
