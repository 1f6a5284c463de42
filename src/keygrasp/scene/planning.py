"""What every planner offers, so that trials, nodes and controls can use any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keygrasp.scene.grasps import GraspPlan, GripperSpec, PlanarGrasp
from keygrasp.scene.outcomes import TrialOutcome
from keygrasp.scene.views import OverheadView


@dataclass(frozen=True)
class Attempt:
    """A grasp that was executed before on the same object, with how it ended."""

    grasp: PlanarGrasp
    outcome: TrialOutcome


class Planner(Protocol):
    """Plans one grasp from one overhead view."""

    @property
    def name(self) -> str:
        """Name under which results are reported."""
        ...

    def plan(
        self,
        view: OverheadView,
        gripper: GripperSpec,
        *,
        rng: np.random.Generator,
        attempts: tuple[Attempt, ...] = (),
    ) -> GraspPlan:
        """Plan a grasp.

        Args:
            view: The image to plan on.
            gripper: The gripper that will execute.
            rng: Source of all randomness: the same state gives the same plan.
            attempts: Earlier executions on this object in this trial, oldest first; the view is newer.

        Returns:
            The plan; ``plan.grasp is None`` says why no grasp was found.
        """
        ...
