"""The product's geometric planner."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np

from keygrasp.grasps.arrays import grasp_array
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.grasps.generator import GraspGenerator, near
from keygrasp.perception import Perceived, PerceptionConfig, perceive
from keygrasp.scene import Attempt, GraspPlan, GripperSpec, OverheadView, PlanarGrasp, ReachFilter


class GeometricPlanner:
    """Perceives the view and takes the generator's best grasp on the largest object that offers one.

    Args:
        config: Settings of the generator.
        perception: Settings of perception.
    """

    #: A grasp this near (metres, radians) to one that failed is a repeat.
    repeat_distance = 0.012
    repeat_turn = 0.35

    def __init__(self, config: GeneratorConfig | None = None, perception: PerceptionConfig | None = None) -> None:
        self._generator = GraspGenerator(config)
        self._perception = perception or PerceptionConfig()

    @property
    def name(self) -> str:
        """Name under which results are reported."""
        return "geometric"

    def plan(
        self,
        view: OverheadView,
        gripper: GripperSpec,
        *,
        rng: np.random.Generator,
        attempts: tuple[Attempt, ...] = (),
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Plan a grasp; see :class:`keygrasp.scene.Planner`. The planner draws nothing from ``rng``.

        Raises:
            ImageError: If the image shows no table.
        """
        perceived = perceive(view, self._perception)
        return self.plan_perceived(perceived, gripper, attempts, reach)

    def plan_perceived(
        self,
        perceived: Perceived,
        gripper: GripperSpec,
        attempts: tuple[Attempt, ...] = (),
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Plan a grasp on a view that was perceived already."""
        if not perceived.segments:
            return GraspPlan(None, reason=perceived.note, timings_ms=dict(perceived.timings_ms))
        rejections: Counter[str] = Counter()
        plans = []
        for index in range(len(perceived.segments)):
            plan = self._generator.generate(perceived, index, gripper, reach)
            rejections.update(plan.rejections)
            plans.append(plan)
            if plan.grasp is not None:
                break
        # Where no object offers a grasp, the largest one's reason stands for all.
        chosen = plans[-1] if plans[-1].grasp is not None else plans[0]
        candidates = repeats_last(chosen.candidates, attempts, self.repeat_distance, self.repeat_turn)
        return dataclasses.replace(
            chosen,
            grasp=candidates[0] if candidates else None,
            candidates=candidates,
            rejections=dict(rejections),
            timings_ms={**perceived.timings_ms, **chosen.timings_ms},
        )


def repeats_last(
    candidates: tuple[PlanarGrasp, ...], attempts: tuple[Attempt, ...], distance: float, turn: float
) -> tuple[PlanarGrasp, ...]:
    """The candidates with near-repeats of failed attempts moved to the end, both parts in their old order."""
    if not candidates or not attempts:
        return candidates
    grasps = grasp_array(candidates)
    repeated = np.zeros(len(grasps), np.bool_)
    for failed in grasp_array(a.grasp for a in attempts if not a.outcome.success):
        repeated |= near(grasps, failed, distance, turn)
    return tuple(candidates[i] for i in np.argsort(repeated, kind="stable"))
