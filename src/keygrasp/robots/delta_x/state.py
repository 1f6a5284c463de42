"""What a driver knows of its robot."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """What the driver knows."""

    DISCONNECTED = "disconnected"
    READY = "ready"  # connected, and the position is known
    STOPPED = "stopped"  # by an emergency stop
    LOST = "lost"  # the port vanished, or the robot doesn't answer, restarted, or is not where it should be

    @property
    def remedy(self) -> str:
        """What makes the robot ready again."""
        return _REMEDIES[self]


_REMEDIES = {
    State.DISCONNECTED: "Connect first",
    State.STOPPED: "Reset the emergency stop",
    State.LOST: "Reconnect, which homes it",
    State.READY: "",
}
