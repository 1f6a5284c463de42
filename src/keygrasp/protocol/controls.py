"""Planners to compare with that need no network: the principal axis at the centroid, and chance."""

from __future__ import annotations

import time

import numpy as np

from keygrasp.grasps import grasps_from_array, random_feasible
from keygrasp.perception import Perceived, perceive
from keygrasp.scene import Attempt, GraspPlan, GripperSpec, OverheadView, PlanarGrasp, ReachFilter

_DEPTH = 0.020  # metres that the tips reach below the surface at the grasp
_TABLE_GAP = 0.005  # metres that the tips keep from the table
_MARGIN = 0.016  # metres that the opening exceeds the object


class CentroidPlanner:
    """Closes along the short principal axis of the object's outline, at its centroid, whatever that meets."""

    name = "centroid"

    def plan(
        self,
        view: OverheadView,
        gripper: GripperSpec,
        *,
        rng: np.random.Generator,
        attempts: tuple[Attempt, ...] = (),
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Plan on one image; see :meth:`keygrasp.scene.Planner.plan`."""
        start = time.perf_counter()
        perceived = perceive(view)
        if not perceived.segments:
            return GraspPlan(None, reason=perceived.note, timings_ms=_elapsed(start))
        grasp = _principal_grasp(perceived, gripper)
        return GraspPlan(grasp, (grasp,), timings_ms=_elapsed(start))


class RandomPlanner:
    """One collision-free grasp on the object, drawn at random."""

    name = "random"

    def plan(
        self,
        view: OverheadView,
        gripper: GripperSpec,
        *,
        rng: np.random.Generator,
        attempts: tuple[Attempt, ...] = (),
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Plan on one image; see :meth:`keygrasp.scene.Planner.plan`."""
        start = time.perf_counter()
        perceived = perceive(view)
        if not perceived.segments:
            return GraspPlan(None, reason=perceived.note, timings_ms=_elapsed(start))
        drawn = random_feasible(perceived, 0, gripper, rng, 1, reach)
        if len(drawn) == 0:
            return GraspPlan(
                None, reason="every grasp that was drawn would collide or is out of reach", timings_ms=_elapsed(start)
            )
        grasp = grasps_from_array(drawn[:1], np.zeros(1))[0]
        return GraspPlan(grasp, (grasp,), timings_ms=_elapsed(start))


def _elapsed(start: float) -> dict[str, float]:
    return {"total": 1e3 * (time.perf_counter() - start)}


def _principal_grasp(perceived: Perceived, gripper: GripperSpec) -> PlanarGrasp:
    segment, height_map = perceived.segments[0], perceived.height_map
    points = height_map.xy_of(np.argwhere(segment.mask).astype(float))
    offsets = points - segment.centroid
    _, axes = np.linalg.eigh(offsets.T @ offsets)
    short = axes[:, 0]
    span = float(np.ptp(offsets @ short)) + height_map.cell
    top = float(height_map.sample(segment.centroid))
    return PlanarGrasp(
        x=float(segment.centroid[0]),
        y=float(segment.centroid[1]),
        z=max(top - _DEPTH, _TABLE_GAP),
        yaw=float(np.arctan2(short[1], short[0])),
        width=float(np.clip(span + _MARGIN, gripper.min_opening, gripper.max_opening)),
    )
