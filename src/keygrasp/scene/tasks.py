"""What a robot is asked to do with the object: the goal part of a goal-augmented state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from keygrasp.errors import InputError
from keygrasp.scene.symbols import COLOURS


class TaskKind(StrEnum):
    """Kinds of tasks."""

    REACH = "reach"
    LIFT = "lift"
    PLACE = "place"


@dataclass(frozen=True)
class Task:
    """A task; equal tasks are one goal.

    Attributes:
        kind: What to do.
        colour: Colour of the object that is meant; empty for any.
        target_x: For ``place``: workspace x in metres of the target circle's centre.
        target_y: For ``place``: workspace y in metres of the target circle's centre.
        target_radius: For ``place``: the target circle's radius in metres.
    """

    kind: TaskKind = TaskKind.LIFT
    colour: str = ""
    target_x: float = 0.0
    target_y: float = 0.0
    target_radius: float = 0.05

    def __post_init__(self) -> None:
        if self.kind not in tuple(TaskKind):
            raise InputError(f"task '{self.kind}' is unknown", f"Known: {', '.join(TaskKind)}")
        object.__setattr__(self, "kind", TaskKind(self.kind))
        if self.colour and self.colour not in COLOURS:
            raise InputError(f"task: colour '{self.colour}' is unknown", f"Known: {', '.join(COLOURS)}")
        if not all(map(math.isfinite, (self.target_x, self.target_y, self.target_radius))) or self.target_radius <= 0:
            raise InputError("task: the target must be finite and its radius positive", "Give metres")

    def text(self) -> str:
        """The task in words."""
        which = f"the {self.colour} object" if self.colour else "the object"
        if self.kind is TaskKind.REACH:
            return f"Bring the open gripper around {which}."
        if self.kind is TaskKind.LIFT:
            return f"Grasp {which}, lift it more than 5 cm and hold it still."
        return (
            f"Grasp {which} and carry it to the circle of {self.target_radius * 100:.1f} cm radius around "
            f"x = {self.target_x:.3f} m, y = {self.target_y:.3f} m."
        )

    def contains(self, x: float, y: float) -> bool:
        """Whether a workspace point lies in the target circle."""
        return math.hypot(x - self.target_x, y - self.target_y) <= self.target_radius
