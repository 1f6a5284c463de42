"""Faults that the emulator injects on request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from keygrasp.errors import InputError

#: Commands after which nobody would wait for a fault.
_LAST_COMMAND = 1_000_000


class FaultKind(StrEnum):
    """What goes wrong."""

    NOISE = "noise"  # random bytes run into the command's answer
    LOST_ACK = "lost-ack"  # the command's answer never arrives
    RESET = "reset"  # the firmware restarts half-way through the command
    UNPLUG = "unplug"  # the port vanishes half-way through the command, and comes back later
    STALL = "stall"  # the command never ends
    END_STOP = "end-stop"  # an end stop is not seen: homing never ends (counts homings)


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: What goes wrong.
        at: At which queued command, counted from 1 since power-on; for ``end-stop`` at which homing.
    """

    kind: FaultKind
    at: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.at <= _LAST_COMMAND:
            raise InputError(f"fault '{self.kind}' at command {self.at}", f"Give 1 to {_LAST_COMMAND}")


def parse_fault(text: str) -> Fault:
    """Read ``KIND`` or ``KIND@N``.

    Raises:
        InputError: If the kind is unknown or N is not a number.
    """
    kind, _, at = text.partition("@")
    try:
        return Fault(FaultKind(kind), int(at or "1"))
    except ValueError as error:
        known = ", ".join(FaultKind)
        raise InputError(f"'{text}' is not a fault", f"Give KIND or KIND@N; kinds: {known}") from error
