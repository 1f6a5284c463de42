"""An open port with everything that belongs to it, and the orderly end of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from keygrasp.errors import RobotError
from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x import dialects
from keygrasp.robots.delta_x.config import DeltaConfig
from keygrasp.robots.delta_x.figures import Figures
from keygrasp.robots.delta_x.guardian import Guardian
from keygrasp.robots.delta_x.link import Link
from keygrasp.robots.delta_x.model import DeltaModel
from keygrasp.robots.delta_x.session import Session
from keygrasp.robots.serial_port import SerialPort, find_port

log = logging.getLogger(__name__)


class Connection:
    """A port that is open for this driver alone, the session on it, and the guardian beside it.

    Args:
        config: The robot's set-up.
        model: The robot.
        figures: What is counted.

    Raises:
        PortBusyError: If another program has the port.
        RobotError: If it can't be opened.
    """

    def __init__(self, config: DeltaConfig, model: DeltaModel, figures: Figures) -> None:
        self._config, self._model, self._figures = config, model, figures
        port = SerialPort(config.port if config.serial_number is None else find_port(config.serial_number))
        try:
            self._guardian = Guardian(port.descriptor) if config.guardian else None
        except BaseException:
            port.close()
            raise
        self.session = Session(Link(port), model.dialect, figures)
        self._greeted = False

    @property
    def guarded(self) -> bool:
        """Whether the guardian, if one is wanted, is there."""
        return self._guardian is None or self._guardian.alive

    def greet(self) -> bool:
        """Wait until a robot answers; returns whether it has just booted. Before that, nothing else is ever sent.

        Raises:
            NoAnswerError: If none does.
        """
        booted = self.session.handshake(self._config.boot_seconds, self._config.handshake_seconds)
        self._greeted = True
        self._figures.count("connections")
        if self._guardian is not None:
            self._guardian.instruct(self._last_words())
        return booted

    def stop_now(self) -> None:
        """Send what stops the robot and applies ``tool.on_stop``, and nothing after it; from any thread, never raises.

        Where the firmware has no stop, the port is closed.
        """
        try:
            self.session.link.seal(b"".join(self._stop_lines()))
        except RobotError as error:
            log.exception("emergency stop: %s", error.problem)
        if not self._model.soft_stop:
            self.session.link.close("the port was closed by an emergency stop")

    def allow(self) -> None:
        """After :meth:`stop_now`: let commands through again."""
        self.session.link.unseal()

    def come_to_rest(self) -> Array:
        """End a motion that is under way, at once where the firmware can; returns where the robot is then, (3,)."""
        if self._model.soft_stop:
            self.session.link.send("Emergency: Stop")
            self.session.link.send("Emergency: Reset")
        return self.session.position(self._timeout(self._config.motion.stop_latency), attempts=1)

    def close(self, *, quietly: bool = False) -> tuple[str, ...]:
        """Come to rest, let go as ``tool.on_stop`` says, close the port. Each step is tried whatever became of others.

        Args:
            quietly: Send nothing any more.

        Returns:
            What went wrong, in words.
        """
        steps: list[Callable[[], object]] = []
        if self._greeted and not quietly:
            if not self.session.in_step:
                steps.append(self.come_to_rest)
            steps.append(self._let_go)
        steps.append(self.session.link.close)
        if self._guardian is not None:
            steps.append(self._guardian.dismiss)
        problems = tuple(_problems(steps))
        for problem in problems:
            log.warning("closing %s: %s", self._config.port, problem)
        return problems

    def _let_go(self) -> None:
        if self._config.tool.on_stop != "open":
            return
        release = self._config.tool.release(self._model.dialect)
        if self.session.in_step:
            self.session.command(release, self._timeout(1.0))
        else:  # nobody knows what the next answer would belong to
            self.session.link.send(release)

    def _timeout(self, seconds: float) -> float:
        return self._config.timeout(seconds)

    def _stop_lines(self) -> list[bytes]:
        lines = ["Emergency: Stop"] if self._model.soft_stop else []
        if self._config.tool.on_stop == "open":
            lines.append(self._config.tool.release(self._model.dialect))
        return [dialects.line(text) for text in lines]

    def _last_words(self) -> list[bytes]:
        """As :meth:`stop_now`, after making the robot forget a line that this process may have left unfinished."""
        return [dialects.FILLER, b"\n", *self._stop_lines()]


def _problems(steps: list[Callable[[], object]]) -> list[str]:
    """Do all steps; collect what goes wrong."""
    found = []
    for step in steps:
        try:
            step()
        except Exception as error:
            found.append(str(error) or type(error).__name__)
    return found
