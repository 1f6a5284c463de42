"""A potential that is learned: a small network's estimate of the value, dynamic, clipped to [0, 1]."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.scene.symbols import FEATURES, features
from keygrasp.shaping.potential import Potential, Stationarity


@dataclass(frozen=True)
class LearnedConfig:
    """How the value is learned.

    Attributes:
        hidden: Units of each of the two hidden layers.
        learning_rate: Adam's.
        batch: States a gradient step.
        capacity: States that are remembered; the oldest go first.
        seed: Seed of weights and batches.
    """

    hidden: int = 32
    learning_rate: float = 3e-3
    batch: int = 64
    capacity: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.hidden, self.batch, self.capacity) < 1 or self.learning_rate <= 0:
            raise ConfigurationError("learned potential: sizes and learning rate must be positive")


class LearnedPotential(Potential):
    """Φ(s, g) ≈ the discounted success that episodes reached from s, for one goal at a time.

    Values of the unshaped task in [0, 1] (success is worth 1 at most) are fitted by regression on the returns of
    finished episodes. It changes with each :meth:`learn`; being dynamic, the term reuses stored values.

    Args:
        config: How it is learned.
    """

    name = "learned"
    stationarity = Stationarity.DYNAMIC

    def __init__(self, config: LearnedConfig | None = None) -> None:
        self.config = config or LearnedConfig()
        self._generator = torch.Generator().manual_seed(self.config.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            hidden = self.config.hidden
            self._network = nn.Sequential(
                nn.Linear(FEATURES, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
            )
        nn.init.zeros_(self._network[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self._network[-1].bias)  # type: ignore[arg-type]
        self._optimiser = torch.optim.Adam(self._network.parameters(), self.config.learning_rate)
        self._states = torch.zeros(0, FEATURES)
        self._returns = torch.zeros(0)

    @torch.no_grad()
    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Estimates (N,) clipped to [0, 1]; 0 before anything was learned."""
        return np.asarray(self._network(_inputs(states))[:, 0].clamp(0, 1).double().numpy())

    @torch.enable_grad()  # also where a learner computes its targets, without gradients of its own
    def learn(self, states: Array, returns: Array, steps: int = 1) -> float:
        """Remember states (N, D) with their returns (N,) of the unshaped task, and take gradient steps.

        Returns:
            The last mean squared error (NaN where no step was taken).
        """
        kept = self.config.capacity
        self._states = torch.cat([self._states, _inputs(states)])[-kept:]
        self._returns = torch.cat([self._returns, torch.as_tensor(returns, dtype=torch.float32)])[-kept:]
        error = float("nan")
        for _ in range(steps):
            rows = torch.randint(len(self._states), (self.config.batch,), generator=self._generator)
            loss = (self._network(self._states[rows])[:, 0] - self._returns[rows]).square().mean()
            self._optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self._optimiser.step()
            error = float(loss.detach())
        return error


def _inputs(states: Array) -> Tensor:
    return torch.as_tensor(features(states), dtype=torch.float32)
