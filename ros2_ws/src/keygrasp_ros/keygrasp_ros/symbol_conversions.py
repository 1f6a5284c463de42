"""Symbolic states, tasks and shaped rewards as messages, and back."""

from __future__ import annotations

from keygrasp_interfaces import msg
from std_msgs.msg import Header

from keygrasp.scene.symbols import SYMBOLS, SymbolicState
from keygrasp.scene.tasks import Task, TaskKind

_NAMES = tuple(symbol.name for symbol in SYMBOLS)


def symbols_message(state: SymbolicState, header: Header, episode: int) -> msg.SymbolicState:
    """A state's message; the header holds its time and the workspace frame."""
    return msg.SymbolicState(header=header, episode=episode, **{name: getattr(state, name) for name in _NAMES})


def symbols_of(message: msg.SymbolicState) -> SymbolicState:
    """A state of a message; raises InputError where a number is not finite or a category has no such value."""
    return SymbolicState(**{name: getattr(message, name) for name in _NAMES})


def task_message(task: Task) -> msg.Task:
    """A task's message."""
    return msg.Task(
        kind=str(task.kind),
        colour=task.colour,
        target_x=task.target_x,
        target_y=task.target_y,
        target_radius=task.target_radius,
    )


def task_of(message: msg.Task) -> Task:
    """A task of a message; raises InputError where it is unknown or not finite."""
    if message.kind != TaskKind.PLACE:  # others have no target, and a message of theirs leaves the circle at 0
        return Task(message.kind, message.colour)
    return Task(message.kind, message.colour, message.target_x, message.target_y, message.target_radius)
