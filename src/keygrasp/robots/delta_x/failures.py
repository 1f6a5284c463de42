"""How talking to the robot can fail, beside its port (``robots/serial_port.py``)."""

from __future__ import annotations

from keygrasp.errors import RobotError


class CommandRejectedError(RobotError):
    """The robot answered that it can't execute a command."""


class NoAnswerError(RobotError):
    """The robot did not acknowledge in the time that the command can take at most."""


class RestartedError(RobotError):
    """The firmware restarted (a power cut, a brown-out, a reset); the robot has homed itself."""


class PositionError(RobotError):
    """The robot is not where it should be."""


class HaltedError(RobotError):
    """A motion was stopped on request."""
