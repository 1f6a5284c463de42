"""Planners that use the Q-network: the refiner, and the controls that it must beat with the same network.

``refined`` is the product: generator, network, refinement. ``argmax`` picks the best of many random feasible grasps;
``cem`` iterates with the cross-entropy method (as GQ-CNN's policy does: Mahler et al., RSS 2017); ``climb`` refines
the generator's best candidate alone, by the greedy Q-policy, without any other start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.grasps import GraspGenerator, footprint_clear, grasps_from_array, random_feasible
from keygrasp.perception import Perceived, perceive
from keygrasp.refine.actions import ActionSet
from keygrasp.refine.network import default_weights
from keygrasp.refine.outcomes import OutcomePredictor
from keygrasp.refine.refiner import Refiner, RefinerConfig, single_thread
from keygrasp.refine.values import Evaluator, Weights
from keygrasp.scene import Attempt, GraspPlan, GripperSpec, OverheadView, PlanarGrasp, ReachFilter

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Request:
    """What a search is asked for.

    Attributes:
        perceived: The image, perceived.
        segment: Index of the object in it.
        gripper: Who will execute.
        rng: Source of all randomness.
        attempts: Earlier executions on this object.
        reach: Which grasps the robot can make.
    """

    perceived: Perceived
    segment: int
    gripper: GripperSpec
    rng: np.random.Generator
    attempts: tuple[Attempt, ...]
    reach: ReachFilter | None = None

    def evaluator(self, weights: Weights) -> Evaluator:
        """Scores grasps on the object."""
        return Evaluator(weights, self.perceived, self.segment, self.gripper, self.attempts)

    def draw(self, count: int) -> Array:
        """Random feasible grasps (n ≤ count, 5)."""
        return random_feasible(self.perceived, self.segment, self.gripper, self.rng, count, self.reach)


#: Searches one perceived object for a grasp.
Search = Callable[[Request], GraspPlan]


@dataclass(frozen=True, eq=False)
class NetworkPlanner:
    """A planner that perceives, searches with the network on the largest segment, and keeps the time.

    Attributes:
        name: Name under which its results are reported.
        search: How it searches.
        kind: Planners of one kind draw the same random numbers in trials, so that comparing them is paired.
    """

    name: str
    search: Search
    kind: str

    def plan(
        self,
        view: OverheadView,
        gripper: GripperSpec,
        *,
        rng: np.random.Generator,
        attempts: tuple[Attempt, ...] = (),
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Plan a grasp on the largest object in view (see :class:`keygrasp.scene.Planner`)."""
        begin = time.perf_counter()
        perceived = perceive(view)
        perceived_at = time.perf_counter()
        if not perceived.segments:
            plan = GraspPlan(None, reason="nothing stands on the table")
        else:
            plan = self.search(Request(perceived, 0, gripper, rng, attempts, reach))
        timings = {
            "perceive": (perceived_at - begin) * 1e3,
            "search": (time.perf_counter() - perceived_at) * 1e3,
        }
        return replace(plan, timings_ms=timings)


def build(name: str, **options: Any) -> NetworkPlanner:
    """Build one of the planners by name (the factory that trials and nodes use).

    Args:
        name: ``refined``, ``argmax``, ``cem`` or ``climb``; any name for its results where ``kind`` is one of these.
        **options: ``kind``, ``weights`` (path; the shipped ones by default) and, by planner, ``evaluations`` (argmax,
            cem) or the fields of :class:`RefinerConfig` (refined).

    Raises:
        InputError: If the name or an option is unknown, or the weights can't be read.
    """
    single_thread()
    path, kind = options.pop("weights", None), options.pop("kind", name)
    weights = Weights.load(Path(path) if path is not None else default_weights())
    makers: dict[str, Callable[..., Search]] = {
        "refined": _refined,
        "argmax": _argmax,
        "cem": _cem,
        "climb": _climb,
    }
    if kind not in makers:
        raise InputError(f"unknown planner '{kind}'", f"Known: {', '.join(makers)}")
    try:
        return NetworkPlanner(name, makers[kind](weights, **options), kind)
    except TypeError as error:
        raise InputError(f"planner '{name}': {error}", "Check the planner's options") from error


def _refined(weights: Weights, outcomes: str | Path | None = None, **options: Any) -> Search:
    predictor = OutcomePredictor.load(Path(outcomes)) if outcomes is not None else None
    refiner, generator = Refiner(weights, RefinerConfig(**options), predictor), GraspGenerator()

    def search(request: Request) -> GraspPlan:
        generated = generator.generate(request.perceived, request.segment, request.gripper, request.reach)
        plan = _refine(refiner, request, generated.candidates)
        return replace(plan, rejections=generated.rejections)

    return search


def _climb(weights: Weights, max_steps: int = 10) -> Search:
    refiner = Refiner(
        weights, RefinerConfig(random_starts=0, refined_starts=1, finalists=1, more_starts=0, max_steps=max_steps)
    )
    generator = GraspGenerator()

    def search(request: Request) -> GraspPlan:
        generated = generator.generate(request.perceived, request.segment, request.gripper, request.reach)
        return _refine(refiner, request, generated.candidates[:1]) if generated.candidates else generated

    return search


def _refine(refiner: Refiner, request: Request, candidates: tuple[PlanarGrasp, ...]) -> GraspPlan:
    return refiner.refine(
        request.perceived,
        request.segment,
        candidates,
        request.gripper,
        rng=request.rng,
        attempts=request.attempts,
        reach=request.reach,
    )


def _argmax(weights: Weights, evaluations: int = 400) -> Search:
    def search(request: Request) -> GraspPlan:
        drawn = request.draw(evaluations)
        if len(drawn) == 0:
            return GraspPlan(None, reason="no feasible grasp within reach was drawn")
        evaluator = request.evaluator(weights)
        return _best(evaluator, drawn, evaluator.execute_logits(drawn), weights)

    return search


def _cem(weights: Weights, evaluations: int = 400, rounds: int = 4, elite: float = 0.2) -> Search:
    """Cross-entropy method with a full-covariance Gaussian, the budget split evenly over the rounds."""

    def search(request: Request) -> GraspPlan:
        batch = evaluations // rounds
        drawn = request.draw(batch)
        if len(drawn) == 0:
            return GraspPlan(None, reason="no feasible grasp within reach was drawn")
        evaluator = request.evaluator(weights)
        values = evaluator.execute_logits(drawn)
        for _ in range(rounds - 1):
            resampled = _resample(drawn, values, max(6, round(elite * batch)), batch, request)
            resampled = resampled[footprint_clear(request.perceived.height_map, resampled, request.gripper)]
            if request.reach is not None:
                resampled = resampled[request.reach(resampled)]
            drawn = np.concatenate([drawn, resampled])
            values = np.concatenate([values, evaluator.execute_logits(resampled)])
        return _best(evaluator, drawn, values, weights)

    return search


def _resample(grasps: Array, values: Array, elites: int, count: int, request: Request) -> Array:
    """Draw ``count`` grasps from a Gaussian fitted to the best; yaw is taken relative to the best one's."""
    best = grasps[np.argsort(-values, kind="stable")[:elites]].copy()
    reference = best[0, 3]
    best[:, 3] = (best[:, 3] - reference + np.pi / 2) % np.pi - np.pi / 2
    spread = np.atleast_2d(np.cov(best.T)) if len(best) > 1 else np.zeros((5, 5))
    jitter = np.diag(np.square([0.002, 0.002, 0.002, 0.05, 0.002]))
    drawn = request.rng.multivariate_normal(best.mean(axis=0), spread + jitter, size=count)
    drawn[:, 3] = (drawn[:, 3] + reference + np.pi / 2) % np.pi - np.pi / 2
    drawn[:, 2] = np.clip(drawn[:, 2], ActionSet().bounds.lowest, ActionSet().bounds.highest)
    drawn[:, 4] = np.clip(drawn[:, 4], request.gripper.min_opening, request.gripper.max_opening)
    return np.asarray(drawn)


def _best(evaluator: Evaluator, grasps: Array, values: Array, weights: Weights) -> GraspPlan:
    order = np.argsort(-values, kind="stable")[:16]
    candidates = tuple(grasps_from_array(grasps[order], values[order]))
    probability = weights.calibration.probability(float(values[order[0]]))
    return GraspPlan(
        grasp=candidates[0].replace(score=probability),
        candidates=candidates,
        success_probability=probability,
        evaluations=evaluator.evaluations,
    )
