"""One trial as one JSON line: all that a table or a picture of it needs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from keygrasp.errors import InputError
from keygrasp.scene import GraspPlan, Outcome, PlanarGrasp, TrialOutcome

#: How many of a plan's candidates and of its refinement steps a record keeps.
KEPT_CANDIDATES = 8
KEPT_STEPS = 64

#: A grasp as x, y, z, yaw, width, score.
GraspRow = list[float]


@dataclass(frozen=True)
class AttemptRecord:
    """One plan and what came of it.

    Attributes:
        outcome: A value of :class:`keygrasp.scene.Outcome`.
        message: One sentence for people: what happened, or why there is no grasp.
        grasp: The grasp that was executed, or ``None``.
        probability: Success probability that the planner states, if it does.
        candidates: The best alternatives.
        path: Refinement steps from the start to the grasp.
        rejections: Raw candidates that were dropped, by reason.
        evaluations: Network evaluations.
        plan_ms: Milliseconds from image to grasp on one core.
        timings_ms: The planner's own, by stage.
        execute_s: Wall-clock seconds of the execution.
        rise: Metres by which the object rose.
        opening: Metres between the pads at the end.
        contact_force: Largest force in newtons while descending.
        seconds: Simulated seconds.
    """

    outcome: str
    message: str = ""
    grasp: GraspRow | None = None
    probability: float | None = None
    candidates: list[GraspRow] = field(default_factory=list)
    path: list[GraspRow] = field(default_factory=list)
    rejections: dict[str, int] = field(default_factory=dict)
    evaluations: int = 0
    plan_ms: float = 0.0
    timings_ms: dict[str, float] = field(default_factory=dict)
    execute_s: float = 0.0
    rise: float = 0.0
    opening: float = 0.0
    contact_force: float = 0.0
    seconds: float = 0.0

    @property
    def success(self) -> bool:
        """Whether the object was lifted and held."""
        return self.outcome == Outcome.SUCCESS


@dataclass(frozen=True)
class TrialRecord:
    """One planner on one scene.

    Attributes:
        scene: Index of the scene in the run.
        object_name: The object.
        category: Its category.
        rule: Scaling rule.
        source: Where the object comes from.
        seed: Seed of the scene, from which image and pose can be made again.
        robot: Who executed.
        planner: Who planned.
        build_s: Wall-clock seconds to make the scene and its image (shared by all planners).
        attempts: The first is the single-shot trial; more follow only where it failed and up-to trials were asked for.
        robust_successes: Successes of the perturbed executions of the first grasp.
        robust_trials: Perturbed executions (0 where there was no grasp or none were asked for).
        fault: Why the trial, or a later attempt, could not be carried out (a worker died, the planner raised); what has
            not been carried out counts as failed.
        scene_fault: Why the scene could not be made; no planner is charged with that.
    """

    scene: int
    object_name: str
    category: str
    rule: str
    source: str
    seed: int
    robot: str
    planner: str
    build_s: float = 0.0
    attempts: tuple[AttemptRecord, ...] = ()
    robust_successes: int = 0
    robust_trials: int = 0
    fault: str = ""
    scene_fault: str = ""

    @property
    def first(self) -> AttemptRecord:
        """The single-shot trial."""
        return self.attempts[0] if self.attempts else AttemptRecord(Outcome.ROBOT_FAULT, self.fault)

    @property
    def single_shot(self) -> bool:
        """Whether the first attempt succeeded."""
        return self.first.success

    @property
    def up_to(self) -> bool:
        """Whether any attempt succeeded."""
        return any(attempt.success for attempt in self.attempts)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready copy."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> TrialRecord:
        """Inverse of :meth:`to_json`.

        Raises:
            InputError: If keys are missing or unknown.
        """
        try:
            attempts = tuple(AttemptRecord(**attempt) for attempt in data["attempts"])
            return TrialRecord(**{**data, "attempts": attempts})
        except (TypeError, KeyError) as error:
            raise InputError(
                f"a trial's record can't be read: {error}", "Was it written by another version?"
            ) from error


def grasp_row(grasp: PlanarGrasp) -> GraspRow:
    """A grasp as six numbers; a score that is not finite becomes 0, since JSON has no such numbers."""
    score = float(grasp.score) if math.isfinite(grasp.score) else 0.0
    return [grasp.x, grasp.y, grasp.z, grasp.yaw, grasp.width, score]


def grasp_from_row(row: GraspRow) -> PlanarGrasp:
    """Inverse of :func:`grasp_row`."""
    return PlanarGrasp(*row)


def attempt_record(plan: GraspPlan, plan_ms: float, outcome: TrialOutcome, execute_s: float) -> AttemptRecord:
    """Put a plan and its execution together."""
    return AttemptRecord(
        outcome=str(outcome.outcome),
        message=outcome.message,
        grasp=None if plan.grasp is None else grasp_row(plan.grasp),
        probability=None if plan.success_probability is None else float(plan.success_probability),
        candidates=[grasp_row(grasp) for grasp in plan.candidates[:KEPT_CANDIDATES]],
        path=[grasp_row(grasp) for grasp in plan.path[:KEPT_STEPS]],
        rejections={reason: int(count) for reason, count in plan.rejections.items()},
        evaluations=int(plan.evaluations),
        plan_ms=plan_ms,
        timings_ms={stage: float(ms) for stage, ms in plan.timings_ms.items()},
        execute_s=execute_s,
        rise=float(outcome.rise),
        opening=float(outcome.opening),
        contact_force=float(outcome.contact_force),
        seconds=float(outcome.seconds),
    )
