"""The refiner: scores many starts with the Q-network, refines the best in a few steps, and says how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.grasps import footprint_clear, grasp_array, grasps_from_array, random_feasible
from keygrasp.perception import Perceived
from keygrasp.refine.actions import EXECUTE, ActionSet
from keygrasp.refine.outcomes import OutcomePredictor
from keygrasp.refine.values import Evaluator, Rollout, Weights, greedy_rollout
from keygrasp.scene import Attempt, GraspPlan, GripperSpec, PlanarGrasp, ReachFilter

Array = NDArray[np.float64]

#: Errors of execution, as (x, y, z, yaw, width): KG-1's standard deviations, each axis both ways, times √3 so that
#: the points have the errors' variance in every axis.
_ERRORS = torch.tensor([0.002, 0.002, 0.001, 0.0524, 0.0]) * 3**0.5
_NEIGHBOURS = torch.cat([torch.diag(_ERRORS)[:4], -torch.diag(_ERRORS)[:4]])
_ALL_COLLIDE = "every grasp that was found would collide or is out of reach"


@dataclass(frozen=True)
class RefinerConfig:
    """How the refiner searches.

    Attributes:
        random_starts: Random feasible grasps that are scored beside the generator's candidates.
        refined_starts: How many of the best-scored starts are refined step by step.
        max_steps: Most moves of one refinement.
        finalists: How many of the best grasps found are compared by their mean success under small errors of
            execution; the most robust is chosen (1: the highest value wins, however narrow its peak).
        sure: Success probability under which the search goes on once with ``more_starts``.
        more_starts: Random feasible grasps of that second look (0: there is none).
        threshold: Success probability under which the answer is "no grasp" (0 answers always).
        outcome_weight: How much the outcome model's logit of success counts beside the network's when finalists are
            ranked; as the next two, 0 asks no outcome model.
        push_cost: What a centimetre costs by which a finalist is expected to move the object, in logits.
        force_cost: What ten newtons cost that it is expected to press with while descending, in logits.
        actions: Step sizes and bounds of the moves.
    """

    random_starts: int = 72
    refined_starts: int = 8
    max_steps: int = 8
    finalists: int = 6
    sure: float = 0.9
    more_starts: int = 160
    threshold: float = 0.0
    outcome_weight: float = 0.0
    push_cost: float = 0.0
    force_cost: float = 0.0
    actions: ActionSet = field(default_factory=ActionSet)

    def __post_init__(self) -> None:
        if (
            min(self.random_starts, self.more_starts) < 0
            or min(self.refined_starts, self.finalists) < 1
            or self.max_steps < 0
        ):
            raise InputError("refiner: random_starts, max_steps ≥ 0 and refined_starts, finalists ≥ 1 are needed")
        if not (0 <= self.threshold < 1 and 0 <= self.sure <= 1):
            raise InputError(f"refiner: threshold {self.threshold} and sure {self.sure} must be probabilities")
        if not all(0 <= value < 1e3 for value in (self.outcome_weight, self.push_cost, self.force_cost)):
            raise InputError("refiner: outcome_weight, push_cost and force_cost lie in [0, 1000)")

    @property
    def asks_outcomes(self) -> bool:
        """Whether an outcome model has a say."""
        return max(self.outcome_weight, self.push_cost, self.force_cost) > 0


@dataclass(frozen=True, eq=False)
class _Found:
    """What a search found: the grasp's logit and rank, the path (n, 5) to it, and the starts (m, 5), best first."""

    logit: float
    rank: float
    path: NDArray[np.float32]
    starts: Array


class Refiner:
    """Refines grasps on one object of a perceived image.

    Args:
        weights: The network.
        config: How to search.
        outcomes: Outcome model that has a say where the configuration gives it one.

    Raises:
        InputError: If it is to have a say and there is none.
    """

    def __init__(
        self, weights: Weights, config: RefinerConfig | None = None, outcomes: OutcomePredictor | None = None
    ) -> None:
        self.weights, self.outcomes = weights, outcomes
        self.config = config or RefinerConfig()
        if self.config.asks_outcomes and outcomes is None:
            raise InputError("refiner: outcome_weight and costs need an outcome model", "Name one, or set them to 0")

    @classmethod
    def load(cls, path: Path, config: RefinerConfig | None = None, outcomes: Path | None = None) -> Refiner:
        """Read weights, and those of an outcome model where one is named, from safetensors files."""
        return cls(Weights.load(path), config, OutcomePredictor.load(outcomes) if outcomes is not None else None)

    def refine(
        self,
        perceived: Perceived,
        segment_index: int,
        candidates: Sequence[PlanarGrasp],
        gripper: GripperSpec,
        *,
        rng: np.random.Generator,
        attempts: Sequence[Attempt] = (),
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Choose and refine a grasp.

        The candidates are inputs, not limits: random feasible grasps are scored beside them, so that an object on
        which the generator found nothing is answered too.

        Returns:
            A plan whose ``path`` leads from the start to the grasp, with a calibrated ``success_probability``.
        """
        config = self.config
        evaluator = Evaluator(self.weights, perceived, segment_index, gripper, attempts)
        drawn = random_feasible(perceived, segment_index, gripper, rng, config.random_starts, reach)
        starts = np.concatenate([grasp_array(candidates), drawn])
        found = self._search(evaluator, perceived, segment_index, starts, reach)
        unsure = found is None or self.weights.calibration.probability(found.logit) < config.sure
        if unsure and config.more_starts > 0:
            drawn = random_feasible(perceived, segment_index, gripper, rng, config.more_starts, reach)
            second = self._search(evaluator, perceived, segment_index, drawn, reach)
            if found is None or (second is not None and second.rank > found.rank):
                found = second
        if found is None:
            reason = (
                "no start without a collision and within reach was found"
                if len(starts) + len(drawn) == 0
                else _ALL_COLLIDE
            )
            return GraspPlan(None, reason=reason, evaluations=evaluator.evaluations)
        return self._answer(found, evaluator.evaluations)

    def _search(
        self, evaluator: Evaluator, perceived: Perceived, segment_index: int, starts: Array, reach: ReachFilter | None
    ) -> _Found | None:
        """Score starts (n, 5), refine the best, and choose the most robust of what was visited."""
        config = self.config
        if len(starts) == 0:
            return None
        grasps = torch.as_tensor(starts, dtype=torch.float32)
        logits = evaluator.logits(grasps)
        order = torch.argsort(logits[:, EXECUTE], descending=True, stable=True)
        best = order[: config.refined_starts]
        rollout = greedy_rollout(evaluator, grasps[best], logits[best], config.actions, config.max_steps)
        finalists = _best_clear(rollout, perceived, evaluator.gripper, config.finalists, reach)
        if not finalists:
            return None
        steps, paths = (torch.tensor(part) for part in zip(*finalists, strict=True))
        last = rollout.visited[steps, paths]
        robust = _robust_logits(evaluator, last, rollout.execute[steps, paths])
        ranks = robust + self._said_by_outcomes(perceived, segment_index, last, evaluator.gripper)
        winner = int(ranks.argmax())
        step, path = finalists[winner]
        way = rollout.visited[: step + 1, path].numpy()
        return _Found(float(robust[winner]), float(ranks[winner]), way, starts[order.numpy()])

    def _said_by_outcomes(
        self, perceived: Perceived, segment_index: int, grasps: Tensor, gripper: GripperSpec
    ) -> Tensor:
        """What the outcome model adds to the ranks of grasps (n, 5), in logits; zeros where it isn't asked."""
        config = self.config
        if self.outcomes is None or not config.asks_outcomes:
            return torch.zeros(len(grasps))
        expected = self.outcomes(perceived, segment_index, grasps.double().numpy(), gripper)
        success = np.clip(expected.success, 1e-6, 1 - 1e-6)
        said = (
            config.outcome_weight * np.log(success / (1 - success))
            - config.push_cost * expected.moved / 0.01
            - config.force_cost * expected.force / 10.0
        )
        return torch.as_tensor(said, dtype=torch.float32)

    def _answer(self, found: _Found, evaluations: int) -> GraspPlan:
        probability = self.weights.calibration.probability(found.logit)
        poses = grasps_from_array(_without_repeats(found.path))
        grasp = poses[-1].replace(score=probability)
        refused = probability < self.config.threshold
        return GraspPlan(
            grasp=None if refused else grasp,
            candidates=tuple(grasps_from_array(found.starts[:16])),
            reason=f"best success probability {probability:.2f} is below {self.config.threshold}" if refused else "",
            path=(*poses[:-1], grasp),
            success_probability=probability,
            evaluations=evaluations,
        )


def _best_clear(
    rollout: Rollout, perceived: Perceived, gripper: GripperSpec, count: int, reach: ReachFilter | None
) -> list[tuple[int, int]]:
    """(step, start) of the visited grasps with the highest values that are possible, no grasp twice, best first."""
    flat = rollout.visited.numpy().reshape(-1, 5).astype(float)
    clear = footprint_clear(perceived.height_map, flat, gripper)
    if reach is not None:
        clear &= reach(flat)
    values = np.where(clear, rollout.execute.numpy().ravel(), -np.inf)
    _, first = np.unique(flat, axis=0, return_index=True)
    order = first[np.argsort(-values[first], kind="stable")][:count]
    starts = rollout.visited.shape[1]
    return [divmod(int(i), starts) for i in order if np.isfinite(values[i])]


def _robust_logits(evaluator: Evaluator, grasps: Tensor, execute: Tensor) -> Tensor:
    """Logits (n,) of the mean success of grasps (n, 5), known to be ``execute``, and of their neighbours.

    A neighbour is one error of execution away.
    """
    around = grasps[:, None] + _NEIGHBOURS
    values = evaluator.logits(around.reshape(-1, 5))[:, EXECUTE].reshape(len(grasps), -1)
    values = torch.sigmoid(torch.cat([execute[:, None], values], dim=1))
    return torch.logit(values.mean(dim=1).clamp(1e-6, 1 - 1e-6))


def _without_repeats(path: NDArray[np.float32]) -> Array:
    """Drop poses equal to the one before (a start that had stopped)."""
    keep = np.ones(len(path), dtype=bool)
    keep[1:] = np.any(path[1:] != path[:-1], axis=1)
    return np.asarray(path[keep], dtype=float)


def single_thread() -> None:
    """Let torch use one thread: batches this small only lose by more, and figures are given per core."""
    torch.set_num_threads(1)
