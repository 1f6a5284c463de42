"""Clients of the physics engine, used one world after the other: a new one costs a tenth of a trial."""

from __future__ import annotations

from typing import Any

#: Clients without a world that are kept; each holds some megabytes.
_MOST_IDLE = 2
_idle: list[int] = []


def take_client(bullet: Any) -> int:
    """An empty client: one that was given back, or a new one.

    A kept client is emptied once more: a call of the engine that names no client goes to client 0, which may lie idle
    here while somebody else's code in this process believes it to be its own.

    Args:
        bullet: The engine's module.
    """
    try:
        client = _idle.pop()
    except IndexError:
        return int(bullet.connect(bullet.DIRECT))
    bullet.resetSimulation(physicsClientId=client)
    return client


def give_client(bullet: Any, client: int) -> None:
    """Take everything out of a client and keep it for the next world, which can't tell it from a new one.

    The engine's parameters stay: every world sets the same ones.
    """
    if len(_idle) < _MOST_IDLE:
        bullet.resetSimulation(physicsClientId=client)
        _idle.append(client)
    else:
        bullet.disconnect(physicsClientId=client)
