"""What a worker does with one scene of the sim-to-real checks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.cameras import overhead_pose
from keygrasp.geometry.poses import Array, make_pose, rotation_from_quaternion
from keygrasp.grasps import grasp_array
from keygrasp.protocol import PROTOCOL, Perturbation, ReferencePlanner, Scene, SceneError, SceneSpec, build_scene
from keygrasp.protocol.depth_cameras import depth_camera
from keygrasp.robots.delta_x import MODELS
from keygrasp.scene import Outcome, OverheadView, PlanarGrasp, Planner
from keygrasp.sim import DeltaTwin, Flaws
from keygrasp.trials.planners import PlannerSpec, ScenePlanner, build_planner, stream_of
from keygrasp.trials.sim2real import CONDITIONS, DELTA, UR5, Condition, SceneResult

Json = dict[str, Any]

# Streams of randomness of one scene; planning's is that of trials, so that the grasps are the same as there.
_PLANNING, _FLAWS, _CAMERA = 2, 10, 11


def build(setup: Json) -> Callable[[Json], Json]:
    """Handler of :func:`keygrasp.trials.pool.run_tasks`: ``setup`` has the planner."""
    planner = build_planner(PlannerSpec(**setup["planner"]))
    if isinstance(planner, ScenePlanner):
        raise InputError(f"planner '{planner.name}' looks behind the image", "Choose one that plans on images")

    def do(task: Json) -> Json:
        spec = SceneSpec(**task["spec"])
        try:
            return dataclasses.asdict(_run_scene(task["scene"], spec, planner, task["factors"]))
        except SceneError as error:
            return dataclasses.asdict(SceneResult(task["scene"], spec.object_name, fault=str(error)))

    return do


def _run_scene(index: int, spec: SceneSpec, planner: Planner, factors: bool) -> SceneResult:
    with build_scene(spec, UR5) as arm:
        tail = not _reference_succeeds(arm)
        result = SceneResult(index, spec.object_name, tail)
        if not tail and not factors:
            return result
        with build_scene(spec, DELTA) as cell:
            grasp = _plan(cell, planner, cell.view)
            if grasp is None:
                return dataclasses.replace(result, outcomes={DELTA: Outcome.NO_GRASP, UR5: Outcome.NO_GRASP})
            first = cell.execute(grasp)
            outcomes = {DELTA: str(first.outcome), UR5: str(arm.execute(grasp).outcome)}
            if factors:
                outcomes |= {condition.name: _under(cell, condition, planner, grasp) for condition in CONDITIONS}
    return dataclasses.replace(
        result, outcomes=outcomes, message=first.message, within_reach=_within_reach(cell, grasp)
    )


def _reference_succeeds(arm: Scene) -> bool:
    plan = ReferencePlanner().plan(arm.view, arm.robot.gripper, rng=np.random.default_rng(0))
    return plan.grasp is not None and arm.execute(plan.grasp).success


def _plan(cell: Scene, planner: Planner, view: OverheadView) -> PlanarGrasp | None:
    rng = cell.spec.stream(_PLANNING, stream_of(planner))
    return planner.plan(view, cell.robot.gripper, rng=rng, reach=cell.robot.reach).grasp


def _under(cell: Scene, condition: Condition, planner: Planner, planned: PlanarGrasp) -> str:
    """How the twin fares under a condition."""
    twin = cell.robot
    assert isinstance(twin, DeltaTwin)  # noqa: S101 - the scene was built with it
    grasp: PlanarGrasp | None = planned
    if condition.camera:
        seen = depth_camera(condition.camera).image(cell.true_depth, cell.spec.stream(_CAMERA, condition.camera))
        grasp = _plan(cell, planner, OverheadView(seen, PROTOCOL.intrinsics, overhead_pose(PROTOCOL.camera_height)))
    if grasp is None:
        return str(Outcome.NO_GRASP)
    twin.flaws = Flaws(
        mount=_mount_error(condition, cell.spec.stream(_FLAWS)),
        latency=condition.latency,
        backlash=condition.backlash,
        turn_backlash=condition.backlash,
    )
    try:
        return str(cell.execute(grasp, Perturbation(friction=condition.friction, mass=condition.mass)).outcome)
    finally:
        twin.flaws = Flaws()


def _mount_error(condition: Condition, rng: np.random.Generator) -> Array:
    """The robot's true pose where it is believed to stand exactly; directions are the same for all conditions."""
    away, axis = (vector / np.linalg.norm(vector) for vector in rng.normal(size=(2, 3)))
    half = condition.turn / 2
    rotation = rotation_from_quaternion(np.array([*(math.sin(half) * axis), math.cos(half)]))
    return make_pose(condition.position * away, rotation)


def _within_reach(cell: Scene, grasp: PlanarGrasp) -> dict[str, bool]:
    """Whether the maker's models, and the trials' own, could make the grasp, each over a table as low as it can."""
    twin = cell.robot
    assert isinstance(twin, DeltaTwin)  # noqa: S101 - the scene was built with it
    row = grasp_array([grasp])
    return {model.name: bool(twin.reach_with(model)(row)[0]) for model in (*MODELS.values(), twin.model)}
