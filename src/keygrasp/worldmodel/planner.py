"""Planning in imagination: the cross-entropy method with softly weighted elites, cautious where members disagree.

Samples of action sequences are imagined as one batch; the best are weighted by how good they are, as in MPPI (Williams
et al., ICRA 2017) and TD-MPC (Hansen et al., ICML 2022), and the next samples are drawn around their mean. Noise is
correlated in time and a part of the elites is kept, as in iCEM (Pinneri et al., CoRL 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from keygrasp.errors import ConfigurationError
from keygrasp.scene.symbols import SymbolKind
from keygrasp.scene.tabletop import ACTIONS
from keygrasp.worldmodel.ensemble import Ensemble
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.model import Belief, WorldModel
from keygrasp.worldmodel.task_files import RewardTask

#: Deviations that count as one unit of disagreement, by unit of the symbol: a centimetre, six degrees, a contact.
_DISAGREEMENT = {"m": 0.01, "rad": 0.1, "N": 10.0, "steps": 10.0, "": 1.0}


@dataclass(frozen=True)
class PlannerConfig:
    """How a plan is searched.

    Attributes:
        samples: Action sequences an iteration.
        elites: Best sequences that make the next mean.
        iterations: Iterations a decision.
        horizon: Decisions that are imagined.
        temperature: Of the elites' weights, over the spread of their scores: small ones follow the best alone.
        first_deviation: Standard deviation of the first samples.
        least_deviation: Below which it never falls.
        correlation: Between the noise of one decision and the next.
        kept: Elites that are scored again in the next iteration.
        discount: Of rewards, a decision.
        penalty: Reward that one unit of disagreement costs; negative seeks it. Small ones let plans go where the model
            errs in their favour.
        steady: Share of the samples whose grip is one and the same from some decision on, weak as often as not: a grasp
            is worth nothing unless it is kept, and among grips that tremble hardly any is.
    """

    samples: int = 512
    elites: int = 64
    iterations: int = 6
    horizon: int = 12
    temperature: float = 0.3
    first_deviation: float = 0.8
    least_deviation: float = 0.05
    correlation: float = 0.6
    kept: int = 16
    discount: float = 0.99
    penalty: float = 1.0
    steady: float = 0.25

    def __post_init__(self) -> None:
        if not 2 <= self.elites <= self.samples <= 100_000 or not 1 <= self.iterations <= 100:
            raise ConfigurationError("a planner needs 2 elites or more, no more than samples, and 1 to 100 iterations")
        if not 1 <= self.horizon <= 200 or not 0 <= self.kept <= self.elites or not 0 <= self.correlation < 1:
            raise ConfigurationError("a planner needs a horizon of 1 to 200, and no more kept sequences than elites")
        if not 0 <= self.steady <= 1:
            raise ConfigurationError(f"a planner's share of steady samples is {self.steady}", "Give 0 to 1")


@dataclass(frozen=True, eq=False)
class Plan:
    """What was found.

    Attributes:
        actions: (H, 5).
        symbols: (H+1, D) rows that the model imagines for them, from the present one on.
        deviation: (H+1, D) the model's deviations of those.
        value: Discounted return without the penalty that the model expects of them.
        disagreement: Units of disagreement, summed over the symbols, mean over the steps.
    """

    actions: Tensor
    symbols: Tensor
    deviation: Tensor
    value: float
    disagreement: float


def disagreement_scale(layout: Layout, device: torch.device) -> Tensor:
    """(D,) what deviations are multiplied with to make units of disagreement; categories don't count."""
    scale = [0.0 if s.kind is SymbolKind.CATEGORY else 1 / _DISAGREEMENT[s.unit] for s in layout.symbols]
    return torch.tensor(scale, device=device)


class Planner:
    """Plans for one task with one model, each decision from where the last plan left off.

    Args:
        model: Imagines.
        task: Rewards, by code.
        config: How to search.
        seed: Seed of the samples.
    """

    def __init__(self, model: WorldModel, task: RewardTask, config: PlannerConfig | None = None, seed: int = 0) -> None:
        self.model, self.task, self.config = model, task, config or PlannerConfig()
        self._scale = disagreement_scale(model.layout, model.device)
        self.reset(seed)

    def reset(self, seed: int = 0) -> None:
        """Forget the last plan."""
        self._draw = torch.Generator(device=self.model.device).manual_seed(seed)
        self._mean = torch.zeros(self.config.horizon, len(ACTIONS), device=self.model.device)

    def plan(self, belief: Belief) -> Plan:
        """Plan from a belief of one situation (B = 1), with what the model imagines for the plan.

        Raises:
            InputError: If the belief holds symbols that are not finite.
        """
        return self._imagined(belief, self.search(belief))

    @torch.inference_mode()
    def search(self, belief: Belief) -> Tensor:
        """The best actions (H, 5) that were found; see :meth:`plan`."""
        c = self.config
        self.model.layout.check(belief.symbols)
        many = belief.repeat(c.samples)
        mean, deviation = self._mean, torch.full_like(self._mean, c.first_deviation)
        kept = mean[None]
        best, best_score = mean, -torch.inf
        for _ in range(c.iterations):
            sequences = self._steadied((mean + deviation * self._noise()).clamp(-1, 1))
            sequences[: len(kept)] = kept
            scores = self.score(many, _actions_of(sequences))
            top, index = scores.topk(c.elites)
            elites = sequences[index]
            if float(top[0]) > best_score:
                best, best_score = elites[0], float(top[0])
            spread = (top[0] - top[-1]).clamp(min=1e-6)
            weights = torch.softmax((top - top[0]) / (c.temperature * spread), dim=0)[:, None, None]
            mean = (weights * elites).sum(dim=0)
            deviation = (weights * (elites - mean).square()).sum(dim=0).sqrt().clamp(min=c.least_deviation)
            kept = elites[: c.kept]
        self._mean = torch.cat([best[1:], best[-1:]])
        return _actions_of(best)

    def score(self, belief: Belief, sequences: Tensor) -> Tensor:
        """Scores (N,) of action sequences (N, H, 5), each from its own situation of the belief.

        What a task's end cuts off counts nothing; the reward of the step that ends it counts.
        """
        c = self.config
        imagine = self.model.imagine if isinstance(self.model, Ensemble) else self.model.step
        total = belief.symbols.new_zeros(len(sequences))
        going = torch.ones_like(total)
        for t in range(sequences.shape[1]):
            actions = sequences[:, t]
            after = imagine(belief, actions)
            reward = self.task.reward(belief.symbols, actions, after.symbols)
            if c.penalty:
                reward = reward - c.penalty * (after.deviation @ self._scale)
            total = total + going * c.discount**t * reward
            going = going * (~self.task.terminated(after.symbols))
            belief = after
        return total

    def _noise(self) -> Tensor:
        """(N, H, 5) of unit variance, correlated along the second dimension."""
        c = self.config
        shape = (c.samples, c.horizon, len(ACTIONS))
        noise = torch.randn(shape, generator=self._draw, device=self.model.device)
        for t in range(1, c.horizon):
            noise[:, t] = c.correlation * noise[:, t - 1] + (1 - c.correlation**2) ** 0.5 * noise[:, t]
        return noise

    def _steadied(self, sequences: Tensor) -> Tensor:
        """The sequences (N, H, 5), the last ones with a grip that stays as it is from some decision on.

        Half of those open the fingers before it: from closed ones the way to a grasp leads through worse.
        """
        count, horizon = int(self.config.steady * len(sequences)), self.config.horizon
        if not count:
            return sequences
        device = self.model.device
        grip = torch.rand((count, 1), generator=self._draw, device=device) * 1.3 - 0.3
        begin = torch.randint(0, horizon, (count, 1), generator=self._draw, device=device)
        later = torch.arange(horizon, device=device) >= begin
        before = sequences[-count:, :, -1].clone()
        before[: count // 2] = -1.0
        sequences[-count:, :, -1] = torch.where(later, grip, before)
        return sequences

    @torch.no_grad()
    def _imagined(self, belief: Belief, actions: Tensor) -> Plan:
        symbols, deviations = [belief.symbols[0]], [belief.deviation[0]]
        value, discount = 0.0, 1.0
        for action in actions:
            after = self.model.step(belief, action[None])
            value += discount * float(self.task.reward(belief.symbols, action[None], after.symbols)[0])
            discount *= self.config.discount
            symbols.append(after.symbols[0])
            deviations.append(after.deviation[0])
            belief = after
            if bool(self.task.terminated(after.symbols)[0]):
                discount = 0.0
        deviation = torch.stack(deviations)
        unsure = float((deviation[1:] @ self._scale).mean())
        return Plan(actions, torch.stack(symbols), deviation, value, unsure)


def _actions_of(sequences: Tensor) -> Tensor:
    """Actions (..., 5) of what is searched: the roots of grips that close, so that weak ones have room."""
    grip = sequences[..., -1:]
    return torch.cat([sequences[..., :-1], torch.where(grip > 0, grip * grip, grip)], dim=-1)
