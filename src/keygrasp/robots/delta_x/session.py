"""Commands with their acknowledgements, and how to find back into step when one is missing.

One queued command is on its way at a time, so an ``Ok`` belongs to it. Where none comes in time, a late ``Ok`` must not
be taken for that of the next command: before anything else, :meth:`Session.position` sends a query that goes through
the robot's queue behind everything else, and whose answer can't be mistaken.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x.dialects import FILLER
from keygrasp.robots.delta_x.failures import CommandRejectedError, NoAnswerError, RestartedError
from keygrasp.robots.delta_x.figures import Figures
from keygrasp.robots.delta_x.link import Link
from keygrasp.robots.delta_x.model import Dialect
from keygrasp.robots.delta_x.replies import Kind, Reply

log = logging.getLogger(__name__)

Watch = Callable[[], None]
#: Seconds between questions whether the robot is there, and within which it answers a query.
_ASK_SECONDS = 0.5
_QUERY_SECONDS = 1.0
#: Seconds of silence after which nothing more is on its way.
_QUIET_SECONDS = 0.25
#: Seconds between two equal positions that show that the robot stands still.
_STEADY_SECONDS = 0.1
#: Seconds in which the filler has arrived for sure, so that the line end is read apart from it.
_FILLER_SECONDS = 0.05
_FINAL = (Kind.OK, Kind.REJECTED)


class Session:
    """The conversation with one robot.

    Args:
        link: The line to it.
        dialect: What it speaks.
        figures: What is counted.
    """

    def __init__(self, link: Link, dialect: Dialect, figures: Figures) -> None:
        self.link, self._dialect, self._figures = link, dialect, figures
        self._in_step = True

    @property
    def in_step(self) -> bool:
        """Whether the robot is known to be at rest, and every answer to belong to what was sent."""
        return self._in_step

    def handshake(self, boot_seconds: float, seconds: float) -> bool:
        """Wait until the robot answers.

        Opening the port may restart the controller, so at first it is only listened to.

        Args:
            boot_seconds: How long to listen for its boot text before asking.
            seconds: How long to ask.

        Returns:
            Whether it has just booted and is homing itself.

        Raises:
            NoAnswerError: If nothing that speaks the protocol answers.
        """
        booted = self._heard_boot(time.monotonic() + boot_seconds)
        self.purge()
        deadline = time.monotonic() + seconds
        heard = ""
        while time.monotonic() < deadline:
            self.link.send("IsDelta")
            ask_again = min(deadline, time.monotonic() + _ASK_SECONDS)
            while (reply := self.link.next(ask_again)) is not None:
                booted |= reply.kind is Kind.BOOTED
                if reply.kind is Kind.READY:
                    self._in_step = not booted  # it homes itself, and will not say when it is done
                    return booted
                heard = reply.text
        hint = f"; it says '{heard[:40]}'" if heard else ""
        raise NoAnswerError(
            f"nothing that speaks Delta X's protocol answers{hint}", "Check the port, the power and the model"
        )

    def _heard_boot(self, deadline: float) -> bool:
        while (reply := self.link.next(deadline)) is not None:
            if reply.kind is Kind.BOOTED:
                return True
        return False

    def purge(self) -> None:
        """Make the robot forget an unfinished line, and forget what has arrived."""
        self.link.send_raw(FILLER)
        time.sleep(_FILLER_SECONDS)
        self.link.send_raw(b"\n")
        self.link.drain()

    def command(self, text: str, seconds: float, watch: Watch | None = None) -> None:
        """Send a queued command and wait until it is complete.

        Args:
            text: The command.
            seconds: The longest that it can take.
            watch: Called now and then while waiting; may raise.

        Raises:
            NoAnswerError: If it was not acknowledged in time. Ask for :meth:`position` before anything else.
            CommandRejectedError: If the robot refused it.
            RestartedError: If the robot restarted meanwhile.
            ConnectionLostError: If the port is gone.
        """
        if not self._in_step:
            raise NoAnswerError(f"'{text}' was not sent: the robot has not been found in step again", "Reconnect")
        self._check_restart(self.link.drain())
        self._in_step = False  # until the answer is here, whatever way this ends
        self.link.send(text)
        deadline = time.monotonic() + seconds
        while (reply := self.link.next(deadline, watch)) is not None:
            self._check_restart([reply])
            if reply.kind in _FINAL:
                self._in_step = True
                self._figures.count("commands" if reply.kind is Kind.OK else "rejected")
                if reply.kind is Kind.REJECTED:
                    raise CommandRejectedError(f"the robot refused '{text}' ({reply.text})")
                return
            log.warning("while '%s' ran, the robot sent: %s", text, reply.text)
        self._figures.count("missing")
        raise NoAnswerError(f"no acknowledgement of '{text}' within {seconds:.1f} s")

    def position(self, seconds: float, *, attempts: int = 3) -> Array:
        """Where the robot says it is, (3,) in metres, once all that it was told is done; in step again afterwards.

        Args:
            seconds: The longest that what it was told can still take.
            attempts: How often to ask where the question or its answer may have been garbled.

        Raises:
            NoAnswerError: If it doesn't answer.
            RestartedError: If it restarted meanwhile.
            ConnectionLostError: If the port is gone.
        """
        resting, self._in_step, began = self._in_step, False, time.monotonic()
        if not resting:
            self.purge()
        if self._dialect is Dialect.X1:
            found = self._queued_position(seconds, attempts)
        else:
            found = self._steady_position(seconds, resting=resting)
        self._in_step = True
        if resting:
            self._figures.answered(time.monotonic() - began)
        return np.array(found) * 1e-3

    def _queued_position(self, seconds: float, attempts: int) -> tuple[float, ...]:
        """By ``G93``, which waits in the queue: a position and then the end of the command, in this order.

        X1 ends it with ``Unknown`` (the first command after booting: ``Ok``), which is as good.
        """
        for attempt in range(attempts):
            self.link.send("G93")
            position: tuple[float, ...] = ()
            deadline = time.monotonic() + seconds
            while (reply := self.link.next(deadline)) is not None:
                self._check_restart([reply])
                if reply.kind is Kind.POSITION:
                    position = reply.position
                elif reply.kind in _FINAL and position:
                    if attempt:  # answers to the earlier queries may follow
                        self._wait_for_quiet()
                    return position
                # Otherwise a late answer to what came before, or one of which a part was garbled: the rest is near.
                deadline = min(deadline, time.monotonic() + _QUIET_SECONDS)
            self.purge()
        raise NoAnswerError(f"the robot did not say where it is within {seconds:.1f} s", "Is it stalled?")

    def _wait_for_quiet(self) -> None:
        while self.link.next(time.monotonic() + _QUIET_SECONDS) is not None:
            pass

    def _steady_position(self, seconds: float, *, resting: bool) -> tuple[float, ...]:
        """By ``Position``, asked until two answers are equal; once is enough of a robot that has nothing to do."""
        deadline = time.monotonic() + seconds
        before: tuple[float, ...] = ()
        while time.monotonic() < deadline:
            self.link.send("Position")
            now = self._one_position(min(deadline, time.monotonic() + _QUERY_SECONDS))
            if now and (resting or now == before):
                return now
            before = now
            time.sleep(_STEADY_SECONDS)
        raise NoAnswerError(f"the robot did not come to rest within {seconds:.1f} s", "Is it stalled?")

    def _one_position(self, deadline: float) -> tuple[float, ...]:
        while (reply := self.link.next(deadline)) is not None:
            self._check_restart([reply])
            if reply.kind is Kind.POSITION:
                return reply.position
        return ()

    def _check_restart(self, replies: list[Reply]) -> None:
        if any(reply.kind is Kind.BOOTED for reply in replies):
            self._in_step = False
            self._figures.count("restarts")
            raise RestartedError("the robot restarted by itself", "Check its power supply, then connect again")
