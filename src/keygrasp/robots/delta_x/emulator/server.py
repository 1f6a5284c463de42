"""The emulator as a serial port: a pseudo-terminal with the firmware behind it, in a thread or a process of its own."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import select
import threading
import time
import tty
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from keygrasp.errors import InputError, RobotError
from keygrasp.files import ensure_writable
from keygrasp.robots.delta_x.emulator.faults import Fault
from keygrasp.robots.delta_x.emulator.firmware import Firmware
from keygrasp.robots.delta_x.model import DeltaModel

#: Events that are kept in memory.
_MOST_EVENTS = 200_000
#: Seconds after which the loop looks whether it has to end.
_IDLE_SECONDS = 0.05
SCALES = (1.0, 100.0)


class Emulator:
    """A robot behind a pseudo-terminal.

    Use it as a context manager (a thread serves the port), or call :meth:`serve` in a process of its own.

    Args:
        model: Which robot.
        scale: How many times faster than real time the robot moves, 1 to 100.
        link: Where to make a symbolic link to the port: a name that stays the same when the port comes back.
        faults: What goes wrong, and when.
        boot_seconds: Seconds of real time from power-on to the boot text.
        unplug_seconds: Seconds of real time for which an unplugged port is gone.
        log: File to which each event is written as a line of JSON.
        seed: Of the noise.

    Raises:
        InputError: If one of these makes no sense.
        StorageError: If the log can't be written.
        RobotError: If no port can be made.
    """

    def __init__(
        self,
        model: DeltaModel,
        *,
        scale: float = 1.0,
        link: Path | None = None,
        faults: tuple[Fault, ...] = (),
        boot_seconds: float = 0.0,
        unplug_seconds: float = 0.5,
        log: Path | None = None,
        seed: int = 0,
    ) -> None:
        if not SCALES[0] <= scale <= SCALES[1]:
            raise InputError(f"the time scale is {scale}", f"Give {SCALES[0]:g} to {SCALES[1]:g}")
        for name, seconds in (("booting", boot_seconds), ("being unplugged", unplug_seconds)):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise InputError(f"the time of {name} is {seconds:g} s", "Give 0 or more seconds")
        if log is not None:
            ensure_writable(log)
        if link is not None and link.exists() and not link.is_symlink():
            raise InputError(f"{link} exists and is not a link", "Name a new path for the port")
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.firmware = Firmware(model, faults, self._note, seed)
        self._scale, self._link = scale, link
        self._boot_seconds, self._unplug_seconds = boot_seconds, unplug_seconds
        self._log_path = log
        self._log: IO[str] | None = None
        self._stop = threading.Event()
        self._booted = threading.Event()
        self._thread: threading.Thread | None = None
        self._origin = time.monotonic()
        self._open()

    @property
    def path(self) -> str:
        """Path of the serial port."""
        return str(self._link) if self._link is not None else self._name

    @property
    def lines(self) -> list[str]:
        """The queued commands that were begun so far, without the boot's own homing."""
        return [figures["line"] for name, figures in self.events if name == "begin" and figures["line"]]

    def __enter__(self) -> Emulator:
        self._thread = threading.Thread(target=self.serve, name="delta emulator", daemon=True)
        self._thread.start()
        if not self._boot_seconds:
            self._booted.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Make :meth:`serve` return; safe in a signal handler."""
        self._stop.set()

    def serve(self) -> None:
        """Serve the port until :meth:`stop`."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            if self._log_path is not None:
                self._log = stack.enter_context(self._log_path.open("w", encoding="utf-8", buffering=1))
            if self._stop.wait(self._boot_seconds):
                return
            self.firmware.power_on(self._now())
            self._write(self.firmware.take_output())
            self._booted.set()
            while not self._stop.is_set():
                self._turn()

    def _turn(self) -> None:
        """Wait for bytes or for the firmware's next event, once."""
        due = self.firmware.due()
        wait = _IDLE_SECONDS if due is None else min(_IDLE_SECONDS, max(0.0, (due - self._now()) / self._scale))
        ready, _, _ = select.select([self._master], [], [], wait)
        if ready:
            self.firmware.receive(self._read(), self._now())
        self.firmware.advance(self._now())
        self._write(self.firmware.take_output())
        if self.firmware.take_unplug():
            self._replug()

    def _replug(self) -> None:
        """The port vanishes; the robot keeps its power and goes on with what it has."""
        self._close()
        ends = time.monotonic() + self._unplug_seconds
        while time.monotonic() < ends and not self._stop.wait(0.005):
            self.firmware.advance(self._now())
        self.firmware.take_output()  # nobody was there to hear it
        self._open()
        self._note("plug", {"t": self._now()})

    def _now(self) -> float:
        return (time.monotonic() - self._origin) * self._scale

    def _read(self) -> bytes:
        try:
            return os.read(self._master, 4096)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EAGAIN):
                return b""
            raise

    def _write(self, data: bytes) -> None:
        if data:
            # As on a wire: what nobody reads is lost once the buffer is full.
            with contextlib.suppress(BlockingIOError):
                os.write(self._master, data)

    def _open(self) -> None:
        try:
            # The second end stays open here, so that a client may come and go.
            self._master, self._slave = os.openpty()
            tty.setraw(self._slave)
            os.set_blocking(self._master, False)
            self._name = os.ttyname(self._slave)
            if self._link is not None:
                self._link.unlink(missing_ok=True)
                self._link.symlink_to(self._name)
        except OSError as error:
            raise RobotError(f"can't make a serial port: {error.strerror or error}", "Try another --link") from error

    def _close(self) -> None:
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        os.close(self._slave)
        os.close(self._master)

    def _end(self) -> None:
        self._close()
        self._log = None

    def _note(self, name: str, figures: dict[str, Any]) -> None:
        if len(self.events) < _MOST_EVENTS:
            self.events.append((name, figures))
        if self._log is not None:
            self._log.write(json.dumps({"event": name, **figures}) + "\n")
