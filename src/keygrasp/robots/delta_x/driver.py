"""The driver: connects, homes, moves and closes, and always knows whether it knows where the robot is."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import numpy as np

from keygrasp.errors import InputError, RobotError
from keygrasp.geometry.poses import Array
from keygrasp.robots.base import CancelCheck, Unreachable
from keygrasp.robots.delta_x import dialects
from keygrasp.robots.delta_x.config import DeltaConfig
from keygrasp.robots.delta_x.connection import Connection
from keygrasp.robots.delta_x.failures import (
    CommandRejectedError,
    HaltedError,
    NoAnswerError,
    PositionError,
    RestartedError,
)
from keygrasp.robots.delta_x.figures import Figures
from keygrasp.robots.delta_x.model import DeltaModel, load_model
from keygrasp.robots.delta_x.ramps import Ramp, turn_seconds
from keygrasp.robots.delta_x.session import Session, Watch
from keygrasp.robots.delta_x.state import State
from keygrasp.robots.delta_x.tracking import Tracker, Whereabouts
from keygrasp.robots.delta_x.workspace import check_path
from keygrasp.robots.serial_port import ConnectionLostError, wait_for_port

log = logging.getLogger(__name__)
_T = TypeVar("_T")

#: Metres below which the firmware acknowledges a move but makes none.
SHORTEST_MOVE = 2.1e-4
#: Seconds for commands that only set something, and of the gripper from one end to the other.
_SETTING_SECONDS = 0.5


class DeltaX:
    """A Delta X on a serial port. Metres, radians and seconds in the robot's frame; points are the platform's.

    Use it as a context manager, or call :meth:`close` in every way out. Motion is for one thread at a time;
    :meth:`emergency_stop` may be called from any.

    Args:
        config: The robot's set-up.
        model: The robot, where it is not the one that the set-up names.
    """

    def __init__(self, config: DeltaConfig, model: DeltaModel | None = None) -> None:
        self.config = config
        self.model = load_model(config.model) if model is None else model
        self._connection: Connection | None = None
        self._tracker = Tracker(self.model.home, config.position_tolerance)
        self._turn: float | None = None
        self._opening: float | None = None
        self._lost = False
        self._halted = threading.Event()
        self._stopping = threading.Lock()
        self._motion = threading.RLock()
        self.figures = Figures()

    # What is known

    @property
    def state(self) -> State:
        """What the driver knows of the robot."""
        if self._halted.is_set():
            return State.STOPPED
        if self._lost:
            return State.LOST
        return State.DISCONNECTED if self._connection is None else State.READY

    @property
    def position(self) -> Array:
        """(3,) of the platform, as the robot last confirmed it; home before it ever did."""
        return self._tracker.position

    @property
    def whereabouts(self) -> Whereabouts:
        """Where platform and tool are, and how well that is known: for displays, from any thread."""
        return self._tracker.whereabouts(self._turn, self._opening)

    # Connecting and closing

    def __enter__(self) -> DeltaX:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Open the port, wait for the robot, home it (unless it has just booted and homes itself), set its limits.

        Raises:
            PortBusyError: If another program has the port.
            NoAnswerError: If no robot answers, or it doesn't finish homing. It is never told to home twice.
            HaltedError: If an emergency stop was asked for, before or meanwhile, and not reset.
            RobotError: If it can't be reached otherwise.
        """
        with self._motion:
            if self._connection is not None:
                raise RobotError(f"{self.config.port} is connected already", "Close it first")
            self._watch(None)()
            self._connection = Connection(self.config, self.model, self.figures)
            again, self._lost = self._lost, False
            try:
                self._prepare(self._connection)
            except BaseException:
                self.close()
                self._lost = again
                raise

    def _prepare(self, connection: Connection) -> None:
        session = connection.session
        self._watch(None)()  # a stop that came before there was a connection to seal
        if connection.greet():
            self._finish_homing(lambda: session.position(self._homing_seconds, attempts=1))
        else:
            self._home(session)
        limits = dialects.speed_limits(self.model.dialect, self.model.max_speed, self._acceleration)
        for text in ("G90", *limits, *self.config.tool.select(self.model.dialect)):
            self._send(session, text)

    def reconnect(self, *, cancelled: CancelCheck | None = None) -> None:
        """Give up the connection, wait until the port is there (again), and connect.

        Raises:
            HaltedError: If it was cancelled while the port was away, or an emergency stop came meanwhile.
            RobotError: If the port stays away, or the robot can't be reached.
        """
        self.close()
        self._lost = True  # not just disconnected: if this fails, it may be tried again
        wait_for_port(
            self.config.port, self.config.serial_number, self.config.reconnect_seconds, self._watch(cancelled)
        )
        self.connect()

    def close(self) -> tuple[str, ...]:
        """Come to rest, let go (as ``tool.on_stop`` says) and close the port, whatever state the robot is in.

        Returns:
            What went wrong, in words; empty if nothing did.
        """
        with self._motion:
            connection, self._connection = self._connection, None
            halted = self._halted.is_set()
            self._lost = False
            self._opening = None
            self._halted.clear()
            return () if connection is None else connection.close(quietly=halted)

    # Motion

    def home(self) -> None:
        """Home, which also makes the position known again.

        Raises:
            NoAnswerError: If it doesn't end in the time that it can take at most.
        """
        with self._motion:
            self._home(self._ready())

    def _home(self, session: Session) -> None:
        def home() -> Array:
            session.command("G28", self._homing_seconds, self._watch(None))
            return session.position(self.config.timeout(0.0))

        self._finish_homing(home)

    def _finish_homing(self, wait: Callable[[], Array]) -> None:
        self._turn = None
        try:
            self._run(lambda: self._tracker.confirm(self.model.home, wait()))
        except NoAnswerError as error:
            self._lost = True
            raise NoAnswerError(f"the robot did not finish homing: {error.problem}", "Look at its end stops") from error

    def move(
        self,
        waypoints: Array,
        *,
        speed: float | None = None,
        turn: float | None = None,
        cancelled: CancelCheck | None = None,
    ) -> None:
        """Move straight through points, after checking all of the way.

        Args:
            waypoints: (n, 3) of the platform.
            speed: Metres a second, within the model's; the configured travelling speed if left out.
            turn: ``W`` in radians at the end; unchanged if left out.
            cancelled: Asked on the way; true stops the robot, at once where its firmware can, else within
                ``motion.stop_latency``.

        Raises:
            Unreachable: If a point on the way is outside the workspace; nothing was sent.
            HaltedError: If it was cancelled.
            RobotError: If the robot failed; :attr:`state` says whether its position is still known.
        """
        speed = self.config.motion.speed if speed is None else speed
        if not (math.isfinite(speed) and 0 < speed <= self.model.max_speed):
            raise InputError(f"a speed of {speed} m/s is not within 0–{self.model.max_speed} m/s")
        waypoints = np.asarray(waypoints, dtype=float)
        with self._motion:
            session = self._ready()
            fault = check_path(self.model, np.concatenate([self.position[None], waypoints]))
            if fault is not None:
                raise Unreachable(str(fault))
            try:
                for goal in waypoints:
                    self._leg(session, goal, speed, turn, cancelled)
            except RobotError:
                self._turn = None  # it may have turned or not
                raise

    def _leg(
        self, session: Session, goal: Array, speed: float, turn: float | None, cancelled: CancelCheck | None
    ) -> None:
        """One straight move, in as many pieces as the robot's way of stopping needs; its end is confirmed."""
        start = self.position
        length = float(np.linalg.norm(goal - start))
        if length < SHORTEST_MOVE and (turn is None or turn == self._turn):
            return
        pieces = 1 if self.model.soft_stop else max(1, math.ceil(length / speed / self.config.motion.stop_latency))
        for share in np.linspace(0, 1, pieces + 1)[1:]:
            self._check_cancelled(cancelled)
            self._piece(session, start + share * (goal - start), speed, turn, cancelled)
        self._turn = turn if turn is not None else self._turn
        expected = start if length < SHORTEST_MOVE else goal
        self._run(lambda: self._tracker.confirm(expected, self._where(session)))

    def _piece(
        self, session: Session, goal: Array, speed: float, turn: float | None, cancelled: CancelCheck | None
    ) -> None:
        """One command. Where its acknowledgement is lost, the robot is asked whether it got there."""
        ramp = Ramp(float(np.linalg.norm(goal - self.position)), speed, self._acceleration)
        seconds = max(ramp.duration, turn_seconds(self._turn, turn))
        watch = self._watch(cancelled if self.model.soft_stop else None)
        text = dialects.move(goal.tolist(), speed, turn)
        self._tracker.begin(goal, ramp)
        try:
            self._run(lambda: session.command(text, self.config.timeout(seconds), watch))
        except HaltedError:
            if not self._halted.is_set() and self._connection is not None:
                self._tracker.take(self._known(self._connection.come_to_rest))
            raise
        except CommandRejectedError:
            self._tracker.take(self._where(session))
            raise
        except NoAnswerError as error:
            self._recover(session, goal, seconds, error)
        self._tracker.arrive(goal)

    def _recover(self, session: Session, goal: Array, seconds: float, error: NoAnswerError) -> None:
        """After a missing acknowledgement: get in step, and go on only if the robot is where it was sent."""
        log.warning("%s; asking the robot where it is", error.problem)
        self._tracker.take(self._where(session, seconds))
        if not self._tracker.is_at(goal):
            raise error
        log.warning("the robot has arrived; only its acknowledgement was lost")

    # Tool

    def grip(self, opening: float) -> None:
        """Bring the gripper to an opening in metres, by its calibration table."""
        self._tool(self.config.tool.set_opening(self.model.dialect, opening), opening)

    def grasp(self) -> None:
        """Close the gripper as far as its table goes, or switch the vacuum on."""
        self._tool(self.config.tool.hold(self.model.dialect), self.config.tool.openings[0])

    def release(self) -> None:
        """Open the gripper, or switch the vacuum off."""
        self._tool(self.config.tool.release(self.model.dialect), self.config.tool.openings[1])

    def _tool(self, text: str, opening: float | None) -> None:
        with self._motion:
            session, settle = self._ready(), self.config.tool.settle
            self._opening = None
            self._send(session, text)
            if settle > 0:
                self._send(session, dialects.dwell(settle), settle)
            self._opening = opening

    def wait(self, seconds: float) -> None:
        """Let the robot rest."""
        with self._motion:
            session = self._ready()
            self._send(session, dialects.dwell(seconds), seconds)

    # Stopping

    def emergency_stop(self) -> None:
        """Stop now, from any thread; never raises.

        Where the firmware has a stop, it is sent at once. X1 has none: the port is closed so that nothing more reaches
        it, a move under way (``motion.stop_latency`` at most) runs out, and its power must be cut by hand.
        """
        with self._stopping:
            self._halted.set()
            self._opening = None
            connection = self._connection
            if connection is None:
                return
            connection.stop_now()

    def reset(self) -> None:
        """After an emergency stop: let the robot move again, and home it.

        Raises:
            HaltedError: If another stop came meanwhile.
            RobotError: If the robot can't be reached.
        """
        connection = self._connection
        if connection is None or not self.model.soft_stop:
            self.reconnect()
            return
        with self._motion:
            with self._stopping:  # or a stop that comes now would be undone by what follows
                self._halted.clear()
                connection.allow()
            self._known(connection.come_to_rest)
            self._home(connection.session)
            self._lost = False

    def _watch(self, cancelled: CancelCheck | None) -> Watch:
        def watch() -> None:
            if self._halted.is_set():
                raise HaltedError("an emergency stop was asked for", "Reset it, which homes the robot")
            self._check_cancelled(cancelled)

        return watch

    def _check_cancelled(self, cancelled: CancelCheck | None) -> None:
        if cancelled is not None and cancelled():
            raise HaltedError("the motion was cancelled")

    # Internals

    def _send(self, session: Session, text: str, seconds: float = _SETTING_SECONDS) -> None:
        """A command that doesn't move the platform; once more if only its acknowledgement was lost."""

        def send() -> None:
            session.command(text, self.config.timeout(seconds), self._watch(None))

        try:
            self._run(send)
        except NoAnswerError as error:
            # Setting something once more does no harm, so being in step again is all that is needed.
            self._recover(session, self.position, 0.0, error)
            self._run(send)

    def _ready(self) -> Session:
        if self._connection is None or self.state is not State.READY:
            raise RobotError(f"the robot is not ready ({self.state})", self.state.remedy)
        if not self._connection.guarded:
            raise RobotError("the process that guards the tool has died", "Reconnect")
        return self._connection.session

    def _run(self, action: Callable[[], _T]) -> _T:
        """Do something with the robot; what makes its position unknown also changes the state."""
        try:
            return action()
        except (ConnectionLostError, RestartedError, PositionError):
            self._lost = True
            raise

    def _where(self, session: Session, seconds: float = 0.0) -> Array:
        """Where the robot says it is, once what it was told, which takes ``seconds`` at most, is done."""
        return self._known(lambda: session.position(self.config.timeout(seconds)))

    def _known(self, ask: Callable[[], Array]) -> Array:
        """Ask where the robot is; without an answer it is lost."""
        try:
            return self._run(ask)
        except NoAnswerError:
            self._lost = True
            raise

    @property
    def _acceleration(self) -> float:
        return min(self.config.motion.acceleration, self.model.max_acceleration)

    @property
    def _homing_seconds(self) -> float:
        return self.config.timeout(self.model.homing_seconds)
