"""A push along the table: what a gripper does to an object that it can't grasp where it lies."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from keygrasp.errors import InputError


@dataclass(frozen=True)
class PlanarPush:
    """A straight stroke of the closed fingertips, in the workspace frame.

    Attributes:
        x: Metres, middle of the tips where the stroke begins.
        y: Metres, middle of the tips where the stroke begins.
        direction: Radians from the x axis to the way of the stroke.
        length: Metres.
        z: Height in metres of the tips' lowest edge above the table.
        yaw: Radians from the x axis to the closing axis.
    """

    x: float
    y: float
    direction: float
    length: float
    z: float
    yaw: float

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not math.isfinite(getattr(self, field.name)):
                raise InputError(f"push: {field.name} is {getattr(self, field.name)}", "Give a finite number")
        if self.length < 0 or self.z < 0:
            raise InputError(f"push: length {self.length} and z {self.z} m can't be negative")

    @property
    def end(self) -> tuple[float, float]:
        """X and y in metres where the stroke ends."""
        return self.x + self.length * math.cos(self.direction), self.y + self.length * math.sin(self.direction)
