"""What every planner offers, so that trials, nodes and controls can use any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keygrasp.scene.grasps import GraspPlan, GripperSpec, PlanarGrasp
from keygrasp.scene.outcomes import TrialOutcome
from keygrasp.scene.views import OverheadView

#: Which of grasps (n, 5) of x, y, z, yaw, width a robot can make, (n,): given by the robot, asked by planners.
ReachFilter = Callable[[NDArray[np.float64]], NDArray[np.bool_]]


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
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Plan a grasp.

        Args:
            view: The image to plan on.
            gripper: The gripper that will execute.
            rng: Source of all randomness: the same state gives the same plan.
            attempts: Earlier executions on this object in this trial, oldest first; the view is newer.
            reach: Which grasps the robot can make; ``None`` where the gripper is the only limit.

        Returns:
            The plan; ``plan.grasp is None`` says why no grasp was found.
        """
        ...
