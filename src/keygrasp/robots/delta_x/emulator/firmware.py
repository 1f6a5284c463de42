"""The firmware's main loop: lines in, a queue of commands, answers out; time is told from outside.

What is modelled is X1's firmware as its answers and its published source show it. For X2 and XS no transcript is at
hand: their answers follow the maker's documentation, and an emergency stop is taken to be silent, to drop the queue and
to refuse motion until a reset.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x.emulator.arduino import words
from keygrasp.robots.delta_x.emulator.codes import Effect, bare_position, execute
from keygrasp.robots.delta_x.emulator.faults import Fault, FaultKind
from keygrasp.robots.delta_x.emulator.machine import Machine
from keygrasp.robots.delta_x.model import DeltaModel, Dialect

#: Characters without a line end after which the firmware discards them.
_MOST_PENDING = 70
#: Lines that are kept waiting; the real firmware runs out of memory somewhere.
_MOST_QUEUED = 64
_FOREVER = float("inf")

#: Told of each event: its name and figures.
Listener = Callable[[str, dict[str, Any]], None]


@dataclass
class _Job:
    """A command under way."""

    line: str
    effect: Effect
    began: float
    ends: float
    answer: str
    faults: frozenset[FaultKind]


class Firmware:
    """One robot's controller.

    Args:
        model: Which robot.
        faults: What goes wrong, and when.
        listener: Told of each event.
        seed: Of the noise.
    """

    def __init__(
        self, model: DeltaModel, faults: tuple[Fault, ...] = (), listener: Listener | None = None, seed: int = 0
    ) -> None:
        self.machine = Machine(model)
        self.dialect = model.dialect
        self._faults = set(faults)
        self._listener = listener
        self._random = random.Random(seed)
        self._commands = self._homings = 0
        self._out = bytearray()
        self._unplug = False
        self._clear()

    def _clear(self) -> None:
        self._pending = bytearray()
        self._queue: deque[str] = deque()
        self._job: _Job | None = None
        self._executed = False
        self._stopped = False
        self._paused_at: float | None = None

    # What the transport calls

    def power_on(self, now: float) -> None:
        """Boot: say so, and home without being asked, without acknowledgement."""
        self._clear()
        self.machine.power_on()
        self._out.clear()
        self._say("Init Success!")
        self._event("boot", now)
        effect = execute(self.machine, "G28")
        self._begin(_Job("", effect, now, now + effect.seconds, "", self._homing_faults()))
        # Left set by the homing: the first queued command is acknowledged even if it is unknown.
        self._executed = True

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes from the client."""
        self.advance(now)
        for byte in data:
            if byte == 0x0A:
                line = self._pending.decode("latin-1")
                self._pending.clear()
                self._take(line, now)
                self.advance(now)
            elif byte != 0x0D:
                self._pending.append(byte)
        if len(self._pending) > _MOST_PENDING:
            self._pending.clear()

    def advance(self, now: float) -> None:
        """Finish what is due, and begin what waits."""
        while True:
            job = self._job
            if job is None:
                if not self._queue or self._paused_at is not None:
                    return
                self._start(self._queue.popleft(), now)
                continue
            if self._interrupted(job, now) or self._paused_at is not None or now < job.ends:
                return
            self._finish(job)
            now = max(now, job.ends)

    def due(self) -> float | None:
        """When something happens next by itself."""
        if self._job is None or self._paused_at is not None:
            return None
        halfway = (self._job.began + self._job.ends) / 2
        if self._job.faults & {FaultKind.RESET, FaultKind.UNPLUG}:
            return halfway
        return self._job.ends if self._job.ends < _FOREVER else None

    def take_output(self) -> bytes:
        """What has been printed since the last call."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def take_unplug(self) -> bool:
        """Whether the port has to vanish now."""
        unplug, self._unplug = self._unplug, False
        return unplug

    def position(self, now: float) -> Array:
        """Where the platform really is, in millimetres."""
        job = self._job
        if job is None or job.effect.motion is None:
            return self.machine.target
        at = now if self._paused_at is None else self._paused_at
        return job.effect.motion.at(at - job.began)

    @property
    def idle(self) -> bool:
        """Whether nothing moves and nothing waits."""
        return self._job is None and not self._queue

    # Lines

    def _take(self, line: str, now: float) -> None:
        if line[:1] in ("G", "M"):
            if len(self._queue) < _MOST_QUEUED:
                self._queue.append(line)
            return
        if line == "IsDelta":
            self._say("YesDelta")
        elif line == "Position":
            self._say(self._position_text(now))
        elif self.dialect is not Dialect.X1:
            self._take_extended(line, now)

    def _take_extended(self, line: str, now: float) -> None:
        """Queries and emergency commands that X1 lacks."""
        key, _, value = line.partition(":")
        if line == "DeltaState" and self.dialect is Dialect.X2:
            self._say("Running" if self._job is not None else "Free")
        elif line == "Angle":
            self._say("Angle:" + ",".join(f"{angle:.2f}" for angle in self.machine.angles))
        elif key == "Emergency":
            self._emergency(value.strip(), now)

    def _emergency(self, what: str, now: float) -> None:
        job = self._job
        if what == "Stop":
            self._queue.clear()
            self._stopped = True
            self.machine.halt(self.position(now))
            self._job, self._paused_at = None, None
            self._event("stop", now)
        elif what == "Pause" and self._paused_at is None:
            self._paused_at = now
        elif what == "Resume" and self._paused_at is not None:
            if job is not None:
                job.began += now - self._paused_at
                job.ends += now - self._paused_at
            self._paused_at = None
        elif what == "Reset":
            self._stopped = False

    def _position_text(self, now: float) -> str:
        if self.dialect is Dialect.X1:
            return bare_position(self.machine)
        x, y, z = (f"{round(float(value), 2) + 0.0:g}" for value in self.position(now))
        text = f"X{x} Y{y} Z{z} W{self.machine.turn:g} U0"
        return f"Position:{text}" if self.dialect is Dialect.XS else text

    # The queue

    def _start(self, line: str, now: float) -> None:
        self._commands += 1
        stopped = self._stopped and line.startswith("G")
        effect = Effect(known=False) if stopped else execute(self.machine, line)
        if effect.text:
            self._say(effect.text)
        known = self._executed or effect.known
        self._executed = False
        rejection = "Unknown" if self.dialect is Dialect.X1 else f"Unknow:{line}"
        faults = self._command_faults()
        if effect.motion is not None and words(line)[0] == ("G", 28):
            faults |= self._homing_faults()
        self._begin(_Job(line, effect, now, now + effect.seconds, "Ok" if known else rejection, faults))

    def _begin(self, job: _Job) -> None:
        if job.faults & {FaultKind.STALL, FaultKind.END_STOP}:
            job.ends = _FOREVER
        if job.faults & {FaultKind.RESET, FaultKind.UNPLUG} and job.ends == job.began:
            job.ends = job.began + 1e-3
        self._job = job
        self._event("begin", job.began, line=job.line, seconds=job.effect.seconds, known=job.effect.known)

    def _interrupted(self, job: _Job, now: float) -> bool:
        """A fault half-way through a command; whether the command is gone."""
        if now < (job.began + job.ends) / 2:
            return False
        if FaultKind.UNPLUG in job.faults:
            job.faults -= {FaultKind.UNPLUG}
            self._unplug = True
            self._event("unplug", now)
        if FaultKind.RESET in job.faults:
            self.machine.halt(self.position(now))
            self.power_on(now)
            return True
        return False

    def _finish(self, job: _Job) -> None:
        self._job = None
        self._event("end", job.ends, line=job.line, answer=job.answer)
        if not job.answer or FaultKind.LOST_ACK in job.faults:
            return
        if FaultKind.NOISE in job.faults:
            self._out += self._random.randbytes(9).replace(b"\n", b"\x80") + b"\xff"
        self._say(job.answer)
        if FaultKind.NOISE in job.faults:
            self._out += self._random.randbytes(5).replace(b"\n", b"\x80") + b"\xff\n"

    def _command_faults(self) -> frozenset[FaultKind]:
        return self._struck(self._commands, homing=False)

    def _homing_faults(self) -> frozenset[FaultKind]:
        self._homings += 1
        return self._struck(self._homings, homing=True)

    def _struck(self, count: int, *, homing: bool) -> frozenset[FaultKind]:
        """Faults that strike now, each once."""
        struck = {f for f in self._faults if f.at == count and (f.kind is FaultKind.END_STOP) == homing}
        self._faults -= struck
        return frozenset(fault.kind for fault in struck)

    def _say(self, text: str) -> None:
        self._out += text.encode("ascii") + b"\r\n"

    def _event(self, name: str, now: float, **figures: Any) -> None:
        if self._listener is not None:
            place = [round(float(value), 3) for value in self.machine.target]
            self._listener(name, {"t": round(now, 4), "target": place, "grip": round(self.machine.grip, 3), **figures})
