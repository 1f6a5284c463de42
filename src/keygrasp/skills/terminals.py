"""A simulated millirobot behind a pseudo-terminal, for whoever talks to a serial port: the node, tests, demonstrations.

Its program is either the core on this machine, in the words of ``firmware/rp2040/main.c``, or the RP2040 image in the
emulator; both drive the same simulated body, whose camera anybody may ask.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import struct
import threading
import time
import tty
from types import TracebackType
from typing import Protocol

from keygrasp.errors import RobotError
from keygrasp.skills.core import LEARNERS, NO_SKILL, SKILLS, STRATEGIES, Agent, Event, Pose, decision_of
from keygrasp.skills.emulator import EmulatedRobot
from keygrasp.skills.link import Frame, Kind, Parser, encode, pose_in
from keygrasp.skills.millirobot import Millirobot

_ANSWER_S, _ASKS, _SETTLE_S, _IDLE_S, _HELLO_S = 0.25, 4, 0.12, 1.0, 1.0
#: Wall-clock seconds in which an emulated robot's question must be answered, while emulated time stands still.
_PATIENCE_S = 0.2


class _Program(Protocol):
    """What runs on the robot."""

    def run(self, line: Line) -> None:
        """Run until ``line.ending`` is set."""
        ...


class Line:
    """The robot's end of the serial line.

    Attributes:
        ending: Set when the robot is to be switched off.
        unplugged: While it is set, nothing gets through in either direction.
    """

    def __init__(self) -> None:
        self.ending, self.unplugged = threading.Event(), threading.Event()
        try:
            self._own, self._other = os.openpty()
            tty.setraw(self._other)
            os.set_blocking(self._own, False)
            self.path = os.ttyname(self._other)
        except OSError as error:
            raise RobotError(f"can't make a serial port: {error.strerror or error}") from error

    def read(self, seconds: float) -> bytes:
        """What has come within a time; empty for nothing."""
        if not select.select([self._own], [], [], max(0.0, seconds))[0]:
            return b""
        try:
            data = os.read(self._own, 4096)
        except OSError as error:
            if error.errno in (errno.EIO, errno.EAGAIN):
                return b""
            raise
        return b"" if self.unplugged.is_set() else data

    def write(self, data: bytes) -> None:
        """Send; what nobody reads is lost once the buffer is full, as on a wire."""
        if not self.unplugged.is_set():
            with contextlib.suppress(BlockingIOError):
                os.write(self._own, data)

    def close(self) -> None:
        """Close both ends."""
        os.close(self._other)
        os.close(self._own)


class SimulatedTerminal:
    """A robot that lives on a thread of this process as long as the context lasts.

    Args:
        robot: Its body.
        scale: How many times faster than real it moves; its questions' time limits stay as they are.
        firmware: Run the RP2040 image in the emulator instead of the core on this machine.

    Raises:
        RobotError: If no pseudo-terminal can be made.
        MissingExtraError: If the compiler or the emulator is missing.
    """

    def __init__(self, robot: Millirobot, *, scale: float = 1.0, firmware: bool = False) -> None:
        self.robot = robot
        emulated = EmulatedRobot(robot) if firmware else None
        self.program: _Program = EmulatedProgram(emulated, scale) if emulated else HostProgram(robot, scale)
        self.line = Line()
        self._thread = threading.Thread(target=self.program.run, args=(self.line,), name="simulated robot", daemon=True)

    def __enter__(self) -> SimulatedTerminal:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """Path of the port that a client opens."""
        return self.line.path

    def close(self) -> None:
        """Switch it off."""
        self.line.ending.set()
        self._thread.join(5.0)
        self.line.close()


class HostProgram:
    """``firmware/rp2040/main.c`` with the core on this machine; what it has stored outlives a reset.

    Args:
        robot: The body that the motors move.
        scale: How many times faster than real it moves.
    """

    def __init__(self, robot: Millirobot, scale: float) -> None:
        self._robot, self._scale = robot, scale
        self._agent = Agent()
        self._flash: bytes | None = None
        #: Whether both flash slots are worn.
        self.worn = False
        #: Set to reset the processor.
        self.reset = threading.Event()

    def run(self, line: Line) -> None:
        """Run until the line ends."""
        self._boot(line)
        while not line.ending.is_set():
            if self.reset.is_set():
                self._boot(line)
            if not self._running:
                self._send(Kind.HELLO, bytes([0, 255 if self._flash is None else 0]) + bytes(4))
                self._pass(_HELLO_S, until_running=True)
            else:
                self._live()

    def _boot(self, line: Line) -> None:
        self.reset.clear()
        self._line, self._parser = line, Parser()
        self._running = self._store_now = False
        self._sequence = 0
        self._poses: list[Frame] = []
        self._agent = Agent(memory=self._flash)

    def _live(self) -> None:
        pose = self._ask()
        if not self._running or self.reset.is_set():
            return
        raw = self._agent.decide(pose)
        self._send(Kind.DECISION, bytes(raw))
        decision = decision_of(raw)
        if decision.milliseconds:
            self._robot.move(decision.left, decision.right, decision.milliseconds)
            self._pass(decision.milliseconds / 1000 / self._scale)
        elif pose is not None:
            self._robot.wait(_IDLE_S)
            self._pass(_IDLE_S / self._scale)
        if self._store_now or Event.NEWLY_LEARNED in decision.events:
            self._store()
        self._pass(_SETTLE_S / self._scale)

    def _ask(self) -> Pose | None:
        self._sequence = (self._sequence + 1) % 256
        for _ in range(_ASKS):
            self._send(Kind.ASK)
            ends = time.monotonic() + _ANSWER_S
            while time.monotonic() < ends and self._running:
                self._serve(ends - time.monotonic())
                for frame in self._poses:
                    if frame.sequence == self._sequence:
                        self._poses = []
                        return pose_in(frame)
                self._poses = []
        return None

    def _pass(self, seconds: float, *, until_running: bool = False) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and self._running is not until_running and not self._ends():
            self._serve(min(0.05, ends - time.monotonic()))

    def _ends(self) -> bool:
        return self.reset.is_set() or self._line.ending.is_set()

    def _store(self) -> None:
        self._store_now = False
        if not self.worn:
            self._flash = self._agent.memory
        self._send(Kind.STORED, bytes([255 if self.worn else 0]) + bytes(4))

    def _serve(self, seconds: float) -> None:
        for frame in self._parser.feed(self._line.read(seconds)):
            if frame.kind == Kind.POSE:
                self._poses.append(frame)
            elif frame.kind == Kind.HALT:
                self._running = False
            elif frame.kind == Kind.STORE:
                self._store_now = True
            elif frame.kind in (Kind.START, Kind.FORGET) and len(frame.payload) == 8:
                self._start(frame)

    def _start(self, frame: Frame) -> None:
        seed, strategy, learner, only = struct.unpack("<IBBBx", frame.payload)
        if strategy < len(STRATEGIES) and learner < len(LEARNERS):
            self._agent = Agent(
                seed or 1,
                strategy=STRATEGIES[strategy],
                learner=LEARNERS[learner],
                only=SKILLS[only] if only < NO_SKILL else None,
                memory=None if frame.kind == Kind.FORGET else self._agent.memory,
            )
            self._running = True

    def _send(self, kind: Kind, payload: bytes = b"") -> None:
        self._line.write(encode(Frame(kind, self._sequence, payload)))


class EmulatedProgram:
    """The RP2040 image in the emulator; emulated time waits for the host's answers, and else runs as fast as it can.

    Args:
        emulated: The emulated chip and its body.
        scale: How many times faster than real it may be.
    """

    def __init__(self, emulated: EmulatedRobot, scale: float) -> None:
        self._emulated, self._scale = emulated, scale

    def run(self, line: Line) -> None:
        """Run until the line ends."""
        began, before = time.monotonic(), 0.0
        with self._emulated as chip:
            while not line.ending.is_set():
                frames = chip.hear()
                if chip.clock < before:  # it was reset, and its clock with it
                    began, before = time.monotonic(), 0.0
                line.ending.wait((chip.clock - before) / self._scale - (time.monotonic() - began))
                began, before = time.monotonic(), chip.clock
                line.write(b"".join(encode(frame) for frame in frames))
                asks = any(frame.kind == Kind.ASK for frame in frames)
                chip.say(raw=line.read(_PATIENCE_S if asks else 0.0))
