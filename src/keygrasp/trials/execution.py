"""What a worker does with one scene: every planner plans on the same image and acts on the same start."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from keygrasp.errors import KeygraspError, MissingExtraError, StorageError
from keygrasp.geometry.cameras import overhead_pose
from keygrasp.protocol import PROTOCOL, Perturbation, Scene, SceneError, SceneSpec, build_scene
from keygrasp.scene import Attempt, GraspPlan, GripperSpec, Outcome, OverheadView, PlanarGrasp, Planner, TrialOutcome
from keygrasp.trials.planners import PlannerSpec, ScenePlanner, build_planner, planner_spec, stream_of
from keygrasp.trials.records import AttemptRecord, TrialRecord, attempt_record, grasp_from_row

Json = dict[str, Any]

# Streams of randomness of one scene; planners draw from their own, so that none depends on who else is in the run.
_PLANNING, _CAMERA, _ROBUSTNESS = 2, 3, 4


def build(setup: Json) -> Callable[[Json], Json]:
    """Handler of :func:`keygrasp.trials.pool.run_tasks`: ``setup`` has planners, robot, up_to, robust and ceiling."""
    planners = [build_planner(PlannerSpec(**data)) for data in setup["planners"]]
    ceiling = build_planner(planner_spec("oracle")) if setup["ceiling"] else None
    _warm_up(planners)

    def do(task: Json) -> Json:
        records = run_scene(
            task["scene"], SceneSpec(**task["spec"]), planners, setup["robot"], setup["up_to"], setup["robust"],
            only_tail=task["only_tail"], ceiling=ceiling,
        )  # fmt: skip
        return {"records": [record.to_json() for record in records]}

    return do


def _warm_up(planners: list[Planner | ScenePlanner]) -> None:
    """Plan once on a drawn block: what libraries do at their first call is no part of a planning time."""
    depth = np.full((PROTOCOL.image_size, PROTOCOL.image_size), PROTOCOL.camera_height, dtype=np.float32)
    depth[50:80, 58:72] -= np.float32(0.05)
    view = OverheadView(depth, PROTOCOL.intrinsics, overhead_pose(PROTOCOL.camera_height))
    for planner in planners:
        if not isinstance(planner, ScenePlanner):
            with contextlib.suppress(KeygraspError):  # its trials will tell
                planner.plan(view, GripperSpec(), rng=np.random.default_rng(0))


def run_scene(
    index: int,
    spec: SceneSpec,
    planners: list[Planner | ScenePlanner],
    robot: str,
    up_to: int,
    robust: bool,
    *,
    only_tail: bool = False,
    ceiling: Planner | ScenePlanner | None = None,
) -> list[TrialRecord]:
    """Try every planner on one scene; one record each, in the planners' order.

    With ``only_tail`` the reference comes first, and nobody follows where it succeeds. ``ceiling`` acts where everybody
    fails.
    """
    start = time.perf_counter()
    common: Json = {
        "scene": index,
        "object_name": spec.object_name,
        "rule": spec.rule,
        "source": spec.source,
        "seed": spec.seed,
        "robot": robot,
    }
    try:
        scene = build_scene(spec, robot)
    except SceneError as error:
        return [
            TrialRecord(**common, category="", planner=planner.name, scene_fault=str(error)) for planner in planners
        ]
    with scene:
        common.update(category=scene.prepared.category, build_s=time.perf_counter() - start)
        records = []
        for planner in planners:
            records.append(_run_planner(scene, planner, up_to, robust, common))
            if only_tail and planner.name == "reference" and records[-1].single_shot:
                return records
        if ceiling is not None and not any(record.up_to for record in records):
            records.append(_run_planner(scene, ceiling, 1, False, common))
        return records


def _run_planner(scene: Scene, planner: Planner | ScenePlanner, up_to: int, robust: bool, common: Json) -> TrialRecord:
    scene.reset()
    attempts, fault = _attempts(scene, planner, up_to)
    grasp = attempts[0].grasp if attempts else None
    successes = trials = 0
    if robust and grasp is not None:
        trials = PROTOCOL.robust_trials
        scene.reset()
        successes = robust_successes(scene, grasp_from_row(grasp), scene.spec.stream(_ROBUSTNESS))
    return TrialRecord(
        **common,
        planner=planner.name,
        attempts=tuple(attempts),
        robust_successes=successes,
        robust_trials=trials,
        fault=fault,
    )


def robust_successes(scene: Scene, grasp: PlanarGrasp, rng: np.random.Generator) -> int:
    """Successes of KG-1's ten perturbed executions; the same perturbations for equal states of ``rng``."""
    perturbations = [Perturbation.sample(rng) for _ in range(PROTOCOL.robust_trials)]
    return sum(scene.execute(grasp, perturbation).success for perturbation in perturbations)


def _attempts(scene: Scene, planner: Planner | ScenePlanner, up_to: int) -> tuple[list[AttemptRecord], str]:
    """Plan and execute until success, at most ``up_to`` times; also what went wrong with the planner, if it did."""
    records: list[AttemptRecord] = []
    history: list[Attempt] = []
    planning = scene.spec.stream(_PLANNING, stream_of(planner))
    camera = scene.spec.stream(_CAMERA, stream_of(planner))
    view = scene.view
    for number in range(up_to):
        if number > 0:
            newer = scene.again(camera)
            if newer is None:
                lost = TrialOutcome(Outcome.NO_GRASP, message=scene.lost_reason)
                records.append(attempt_record(GraspPlan(None), 0.0, lost, 0.0))
                break
            view = newer
        try:
            record, attempt = _attempt(scene, planner, view, planning, tuple(history))
        except (StorageError, MissingExtraError):
            raise
        except Exception as error:
            text = str(error) if isinstance(error, KeygraspError) else f"{type(error).__name__}: {error}"
            return records, f"the planner raised {text}"
        records.append(record)
        if attempt is not None:
            history.append(attempt)
        if record.success:
            break
    return records, ""


def _attempt(
    scene: Scene,
    planner: Planner | ScenePlanner,
    view: OverheadView,
    rng: np.random.Generator,
    history: tuple[Attempt, ...],
) -> tuple[AttemptRecord, Attempt | None]:
    start = time.perf_counter()
    if isinstance(planner, ScenePlanner):
        plan = planner.plan_in_scene(scene, rng=rng)
    else:
        plan = planner.plan(view, scene.robot.gripper, rng=rng, attempts=history, reach=scene.robot.reach)
    planned = time.perf_counter()
    plan_ms = 1e3 * (planned - start)
    if plan.grasp is None:
        outcome = TrialOutcome(Outcome.NO_GRASP, message=f"no grasp: {plan.reason or 'no reason given'}")
        return attempt_record(plan, plan_ms, outcome, 0.0), None
    outcome = scene.execute(plan.grasp)
    record = attempt_record(plan, plan_ms, outcome, time.perf_counter() - planned)
    return record, Attempt(plan.grasp, outcome)
