"""The host's side of a robot on a serial line: answers its questions, starts and stops it, and notices its silence.

The robot leads: it asks where it is whenever it stands still. A pose that was taken before the question was asked may
be one from on the way, so only a newer one is an answer. Where none comes in time, the robot is told that nobody sees
it, stands still and asks anew.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from keygrasp.errors import InputError, RobotError
from keygrasp.robots.serial_port import SerialPort
from keygrasp.skills.core import Decision, Pose
from keygrasp.skills.link import Frame, Kind, Parser, decision_in, encode, pose_frame

#: Seconds between two sends of the same command, which the line may lose.
_REPEAT_S = 0.3
#: Slot that a robot names when both of its flash sectors are worn.
_NO_SLOT = 255


class LinkState(enum.StrEnum):
    """What is known of the robot."""

    CLOSED = "closed"
    SILENT = "open, nothing heard yet"
    IDLE = "idle"
    RUNNING = "running"
    LOST = "lost"


@dataclass(frozen=True)
class SeenPose:
    """A pose from outside.

    Attributes:
        taken: When, in seconds of the clock that :class:`RobotLink` was given.
        pose: Where the robot was then.
    """

    taken: float
    pose: Pose


@dataclass(frozen=True)
class LinkTimes:
    """How long a link waits.

    Attributes:
        pose: Seconds after a question in which a newer pose has to come; the robot itself waits for 1 s.
        silence: Seconds without a word, beyond a motion that was announced, after which the robot counts as lost.
        reconnect: Seconds between tries to open a port that has vanished.
    """

    pose: float = 0.7
    silence: float = 3.0
    reconnect: float = 1.0


@dataclass
class LinkCounts:
    """What happened on a link so far.

    Attributes:
        decisions: Decisions that were heard.
        answers: Questions that were answered with a pose.
        unseen: Questions to which no pose came in time.
        restarts: Resets of the robot while it ran.
        losses: Times that the robot was lost.
        dropped: Frames from the robot that were damaged.
    """

    decisions: int = 0
    answers: int = 0
    unseen: int = 0
    restarts: int = 0
    losses: int = 0
    dropped: int = 0


class RobotLink:
    """One robot on a serial port, served by a thread of its own from :meth:`open` to :meth:`close`.

    Args:
        port: Path of the serial port.
        seen: The newest pose that is known, or ``None``.
        clock: Seconds of the clock that poses are stamped with.
        on_decision: Called on the link's thread with each decision as its motion begins.
        on_restart: Called on the link's thread when a running robot was reset; true where its watchdog did it.
        times: How long to wait.
    """

    def __init__(
        self,
        port: str,
        seen: Callable[[], SeenPose | None],
        *,
        clock: Callable[[], float] = time.time,
        on_decision: Callable[[Decision], None] = lambda decision: None,
        on_restart: Callable[[bool], None] = lambda hung: None,
        times: LinkTimes | None = None,
    ) -> None:
        self.path, self.times, self.counts = port, times or LinkTimes(), LinkCounts()
        self._seen, self._clock = seen, clock
        self._on_decision, self._on_restart = on_decision, on_restart
        self._port: SerialPort | None = None
        self._ending = threading.Event()
        self._changed = threading.Condition()
        self._state = LinkState.CLOSED
        self._wanted: Frame | None = None  # the start that the robot is to run with
        self._begun = False  # whether it does
        self._slot: int | None = None
        self._question: tuple[int, float, float] | None = None  # sequence, the clock's time, monotonic time
        self._answered: Frame | None = None
        self._due = 0.0
        #: Whether the last question got a pose, and why not where it didn't; empty for yes.
        self.complaint = ""
        self._thread = threading.Thread(target=self._serve, name="skill link", daemon=True)

    @property
    def state(self) -> LinkState:
        """What is known of the robot now."""
        return self._state

    def open(self) -> None:
        """Open the port, stop a robot that still runs from before, and begin to listen.

        Raises:
            RobotError: If it can't be opened.
        """
        self._connect()
        self._send(Frame(Kind.HALT))
        self._thread.start()

    def start(self, frame: Frame) -> None:
        """Let the robot run with a frame of :func:`keygrasp.skills.link.start_frame`, and again after each reset."""
        with self._changed:
            self._wanted, self._begun = frame, False
        self._send(frame)

    def halt(self, seconds: float = 2.0) -> bool:
        """Stop the robot; returns whether it has said so in time."""
        with self._changed:
            self._wanted = None
            if self._state in (LinkState.CLOSED, LinkState.LOST):
                return False
            self._state = LinkState.SILENT  # until its next greeting, which only a robot that stands still sends
        return self._repeat(Frame(Kind.HALT), lambda: self._state is LinkState.IDLE, seconds)

    def store(self, seconds: float = 8.0) -> int:
        """Let the robot write what it has learned into its flash, which it does between two motions.

        Returns:
            The slot that was written.

        Raises:
            RobotError: If it doesn't answer in time, or both of its slots are worn.
        """
        with self._changed:
            self._slot = None
        if not self._repeat(Frame(Kind.STORE), lambda: self._slot is not None, seconds, pause=seconds):
            raise RobotError(f"the robot didn't say within {seconds:g} s that it stored", "Is it running?")
        if self._slot == _NO_SLOT:
            raise RobotError("both flash slots of the robot are worn", "It goes on, but forgets at the next reset")
        return int(self._slot or 0)

    def close(self) -> None:
        """Listen no more and close the port; the robot is left as it is."""
        self._ending.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        if self._port is not None:
            self._port.close()
            self._port = None
        self._set(LinkState.CLOSED)

    # The link's thread

    def _serve(self) -> None:
        parser = Parser()
        while not self._ending.is_set():
            try:
                if self._port is None:
                    if self._ending.wait(self.times.reconnect):
                        return
                    self._connect()
                    parser = Parser()
                    continue
                for frame in parser.feed(self._port.read()):
                    self._take(frame)
                self.counts.dropped += parser.dropped
                parser.dropped = 0
                self._answer()
                if time.monotonic() > self._due and self._state is not LinkState.LOST:
                    self._lose()
            except RobotError:
                self._lose()
                if self._port is not None:
                    self._port.close()
                    self._port = None

    def _take(self, frame: Frame) -> None:
        now = time.monotonic()
        self._due = max(self._due, now + self.times.silence)
        if frame.kind == Kind.HELLO and len(frame.payload) >= 2:
            self._greeted(bool(frame.payload[0]))
        elif frame.kind == Kind.ASK:
            self._set(LinkState.RUNNING)
            if self._question is None or self._question[0] != frame.sequence:
                self._question, self._answered = (frame.sequence, self._clock(), now), None
            elif self._answered is not None:  # the answer was lost on the way
                self._send(self._answered)
        elif frame.kind == Kind.DECISION:
            with contextlib.suppress(InputError):
                decision = decision_in(frame)
                self._question = None
                self._due = now + self.times.silence + decision.milliseconds / 1000
                self.counts.decisions += 1
                self._begun = True
                self._set(LinkState.RUNNING)
                self._on_decision(decision)
        elif frame.kind == Kind.STORED and frame.payload:
            with self._changed:
                self._slot = frame.payload[0]
                self._changed.notify_all()

    def _greeted(self, hung: bool) -> None:
        """A greeting: the robot stands still and waits for a start."""
        with self._changed:
            before, wanted = self._state, self._wanted
            self._state = LinkState.IDLE
            self._question = None
            self._changed.notify_all()
        if before is LinkState.RUNNING and wanted is not None:
            self.counts.restarts += 1
            self._on_restart(hung)
        if wanted is not None:
            self._send(resumed(wanted) if self._begun else wanted)

    def _answer(self) -> None:
        """Answer the open question as soon as there is a pose that is newer than it."""
        if self._question is None or self._answered is not None:
            return
        sequence, asked, since = self._question
        seen = self._seen()
        if seen is not None and seen.taken >= asked:
            self._answered, self.complaint = pose_frame(seen.pose, sequence), ""
            self.counts.answers += 1
        elif time.monotonic() - since > self.times.pose:
            age = "none ever came" if seen is None else f"the last was taken {asked - seen.taken:.1f} s before"
            self._answered, self.complaint = pose_frame(None, sequence), f"no pose after the robot's question: {age}"
            self.counts.unseen += 1
        if self._answered is not None:
            self._send(self._answered)

    def _connect(self) -> None:
        if not Path(self.path).exists():
            raise RobotError(f"there is no port {self.path}", "Plug the robot in")
        self._port = SerialPort(self.path)
        self._due = time.monotonic() + self.times.silence
        self._set(LinkState.SILENT)

    def _lose(self) -> None:
        if self._state is not LinkState.LOST:
            self.counts.losses += 1
        self._question = None
        self._set(LinkState.LOST)

    def _set(self, state: LinkState) -> None:
        with self._changed:
            if self._wanted is None and state is LinkState.RUNNING and self._state is LinkState.SILENT:
                return  # it has not heard the halt yet
            self._state = state
            self._changed.notify_all()

    # Any thread

    def _send(self, frame: Frame) -> None:
        port = self._port
        if port is not None:
            with contextlib.suppress(RobotError):  # the reading thread meets the same fault and says so
                port.write(encode(frame))

    def _repeat(self, frame: Frame, done: Callable[[], bool], seconds: float, pause: float = _REPEAT_S) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._send(frame)
            with self._changed:
                if self._changed.wait_for(done, min(pause, max(0.0, deadline - time.monotonic()))):
                    return True
        return False


def resumed(start: Frame) -> Frame:
    """The same start without forgetting: after a reset the robot goes on with what it has stored."""
    return Frame(Kind.START, start.sequence, start.payload)
