"""Grasps and the gripper that executes them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array, wrap_half_turn


@dataclass(frozen=True)
class GripperSpec:
    """A parallel gripper that points down; the defaults are KG-1's.

    Lengths are in metres. *Along* is the closing axis, *across* the horizontal axis at a right angle to it.

    Attributes:
        max_opening: Largest distance between the pads' inner faces.
        min_opening: Smallest opening that may be commanded before closing.
        pad_width: Pad's size across.
        pad_thickness: Pad's size along.
        pad_height: Pad's vertical size: what is higher than this above the tips meets the palm.
        palm_along: Palm's size along.
        palm_across: Palm's size across.
        force: Closing force in newtons.
    """

    max_opening: float = 0.085
    min_opening: float = 0.004
    pad_width: float = 0.020
    pad_thickness: float = 0.010
    pad_height: float = 0.040
    palm_along: float = 0.120
    palm_across: float = 0.040
    force: float = 40.0

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            value = getattr(self, spec.name)
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"gripper: {spec.name} must be positive, not {value}")
        if self.min_opening >= self.max_opening:
            raise InputError("gripper: min_opening must be less than max_opening")


@dataclass(frozen=True)
class PlanarGrasp:
    """A top-down grasp in the workspace frame.

    Attributes:
        x: Metres, middle between the fingertips.
        y: Metres, middle between the fingertips.
        z: Metres above the table plane of the fingertips' lowest edge when the fingers close.
        yaw: Radians from the workspace's x to the closing axis, wrapped to [-π/2, π/2).
        width: Opening in metres between the pads before closing.
        score: What the planner thinks of it; higher is better; a probability where the planner says so.
    """

    x: float
    y: float
    z: float
    yaw: float
    width: float
    score: float = 0.0

    def __post_init__(self) -> None:
        for name in ("x", "y", "z", "yaw", "width"):
            value = getattr(self, name)
            if not np.isfinite(value):
                raise InputError(f"grasp: {name} is {value}", "A grasp must be finite")
            object.__setattr__(self, name, float(value))
        object.__setattr__(self, "yaw", wrap_half_turn(self.yaw))

    @property
    def closing_axis(self) -> Array:
        """(2,) unit vector of the closing axis in the table plane."""
        return np.array([np.cos(self.yaw), np.sin(self.yaw)])

    def replace(self, **changes: float) -> PlanarGrasp:
        """Copy with some values changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, eq=False)
class GraspPlan:
    """A planner's answer: a grasp, or none with the reason.

    Attributes:
        grasp: What to execute, or ``None``: no grasp is an answer, not an error.
        candidates: All that were considered good enough, best first.
        rejections: How many raw candidates were dropped for each reason.
        reason: Where there is no grasp, the dominating reason in words.
        path: Refinement steps from the start to ``grasp`` (empty where nothing was refined).
        success_probability: The planner's own estimate in [0, 1], ``None`` where it makes none.
        evaluations: Network evaluations spent (grasp poses scored).
        timings_ms: Milliseconds by stage.
    """

    grasp: PlanarGrasp | None
    candidates: tuple[PlanarGrasp, ...] = ()
    rejections: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    path: tuple[PlanarGrasp, ...] = ()
    success_probability: float | None = None
    evaluations: int = 0
    timings_ms: dict[str, float] = field(default_factory=dict)
