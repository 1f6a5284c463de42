"""From symbolic states of single objects to the rows that a world model of several objects reads."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from keygrasp_interfaces import msg
from std_msgs.msg import Header

from keygrasp.geometry.poses import Array
from keygrasp.scene.symbols import SymbolicState
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.task_files import FileTask
from keygrasp_ros.symbol_conversions import symbols_of

#: Where objects lie that nobody has told of: on the table, far outside the gripper's reach.
_AWAY = {
    "object_x": 0.55, "object_y": 0.55, "object_z": 0.02, "object_yaw": 0.0, "object_length": 0.06,
    "object_width": 0.04, "object_height": 0.04, "height": 0.0,
}  # fmt: skip


def subject_of(task: FileTask) -> str:
    """The object that a task is about: the last that its terms name, else the first of the layout."""
    named = [str(dict(use.arguments)["object"]) for use in task.terms if "object" in dict(use.arguments)]
    return named[-1] if named else task.layout.objects[0]


@dataclass(frozen=True, eq=False)
class Situation:
    """A row (D,) of what was seen last, with the header and the episode of the newest state."""

    row: Array
    header: Header
    episode: int


class Situations:
    """Collects the newest state of each object; thread-safe.

    A state belongs to the object of the layout that is named as its colour. One of another colour, such as the one
    object of the simulated graph, counts as the object that the task is about; where that is there too, as the last
    object of the layout that isn't.

    Args:
        layout: Names of the objects.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout, self._lock = layout, threading.Lock()
        self._seen: dict[str, SymbolicState] = {}
        self._newest: tuple[Header, int] | None = None

    def see(self, message: msg.SymbolicState) -> None:
        """Take a state; one of another episode makes those before it void.

        Raises:
            InputError: If it is no state.
        """
        state = symbols_of(message)
        with self._lock:
            if self._newest is not None and self._newest[1] != message.episode:
                self._seen.clear()
            self._newest = message.header, message.episode
            self._seen.pop(state.object_colour, None)  # so that the newest comes last
            self._seen[state.object_colour] = state

    def now(self, task: FileTask) -> Situation | None:
        """What is known; ``None`` before the first state."""
        with self._lock:
            if self._newest is None:
                return None
            header, episode = self._newest
            newest = next(reversed(self._seen.values()))
            states = {name: state for name, state in self._seen.items() if name in self._layout.objects}
            others = [state for name, state in self._seen.items() if name not in self._layout.objects]
        free = [name for name in (subject_of(task), *reversed(self._layout.objects)) if name not in states]
        if others and free:
            states[free[0]] = others[-1]
        away = newest.replace(**_AWAY, contact_left=False, contact_right=False, held_steps=0)
        every = {name: states.get(name, away) for name in self._layout.objects}
        gripper = {name: getattr(newest, name) for name in ("gripper_x", "gripper_y", "gripper_z", "gripper_yaw")}
        every = {name: s.replace(**gripper, gripper_width=newest.gripper_width) for name, s in every.items()}
        return Situation(self._layout.row(every), header, episode)
