"""Settings of the geometric generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keygrasp.errors import ConfigurationError


@dataclass(frozen=True)
class GeneratorConfig:
    """How grasps are generated from a height map; the defaults fit KG-1.

    Attributes:
        friction: Coefficient μ of the contacts: the angle between closing axis and normal may be at most atan μ.
        clearance: Metres kept between the open gripper and what it must not touch, on every side and below.
        table_clearance: Least height in metres of the fingertips above the table.
        opening_margin: Metres by which each finger opens beyond the contact, where there is room.
        min_grip: Least height in metres of object between the pads.
        levels: Heights at which outlines are traced, between the table and the object's top.
        spacing: Distance in metres between outline points that are paired.
        pairs: Contact pairs kept of each level for closer examination.
        lifts: Heights in metres above the deepest possible one that are tried as well.
        apart: Metres within which two candidates of like yaw are alternatives of one grasp.
        turned: Radians within which two candidates have like yaw.
        max_candidates: Candidates in a plan.
        workspace_x: Range of x in metres in which grasps may lie.
        workspace_y: Range of y in metres in which grasps may lie.
    """

    friction: float = 0.5
    clearance: float = 0.003
    table_clearance: float = 0.003
    opening_margin: float = 0.008
    min_grip: float = 0.004
    levels: int = 4
    spacing: float = 0.005
    pairs: int = 50
    lifts: tuple[float, ...] = (0.005, 0.010, 0.016)
    apart: float = 0.008
    turned: float = 0.3
    max_candidates: int = 32
    workspace_x: tuple[float, float] = (-0.18, 0.18)
    workspace_y: tuple[float, float] = (-0.18, 0.18)

    def __post_init__(self) -> None:
        for name in ("friction", "clearance", "table_clearance", "opening_margin", "min_grip", "spacing"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ConfigurationError(f"generator: {name} must be positive, not {value}")
        for name, high in (("levels", 32), ("pairs", 4096), ("max_candidates", 4096)):
            if not 1 <= getattr(self, name) <= high:
                raise ConfigurationError(f"generator: {name} must lie in 1–{high}, not {getattr(self, name)}")
        if not all(np.isfinite(lift) and lift >= 0 for lift in self.lifts):
            raise ConfigurationError(f"generator: lifts must not be negative: {self.lifts}")
        for name in ("workspace_x", "workspace_y"):
            low, high_end = getattr(self, name)
            if not low < high_end:
                raise ConfigurationError(f"generator: {name} is ({low}, {high_end}), the first must be the smaller")
