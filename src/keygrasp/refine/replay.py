"""A bounded memory of n-step transitions, with both potentials of each, for learners with and without shaping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array


@dataclass(frozen=True, eq=False)
class Transitions:
    """B n-step transitions.

    Attributes:
        scene: (B,) number of the scene.
        before: (B, 5) grasps.
        action: (B,) first actions.
        reward: (B,) discounted rewards of the task along the way.
        after: (B, 5) grasps from whose value the return bootstraps.
        discount: (B,) discount of that value; 0 where the episode terminated.
        shaping: (B,) discounted shaping terms along the way, from stored potentials. They telescope:
            ``discount · Φ(after) − Φ(before)``.
    """

    scene: NDArray[np.int64]
    before: NDArray[np.float32]
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    after: NDArray[np.float32]
    discount: NDArray[np.float32]
    shaping: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Episode:
    """One finished episode of T steps.

    Attributes:
        scene: Number of its scene.
        grasps: (T + 1, 5), the last is where it ended.
        actions: (T,).
        rewards: (T,) rewards of the task.
        shaping: (T,) shaping terms, as added to them.
        terminated: Whether its end is terminal; else it was cut off.
    """

    scene: int
    grasps: NDArray[np.float32]
    actions: NDArray[np.int64]
    rewards: Array
    shaping: Array
    terminated: bool

    def transitions(self, gamma: float, n_step: int) -> Transitions:
        """Its n-step transitions, one a step; none crosses its end."""
        count = len(self.actions)
        ends = np.minimum(np.arange(count) + n_step, count)
        task = n_step_returns(self.rewards, gamma, n_step)
        discount = gamma ** (ends - np.arange(count)) * ~(self.terminated & (ends == count))
        return Transitions(
            scene=np.full(count, self.scene),
            before=self.grasps[:-1],
            action=self.actions,
            reward=task.astype(np.float32),
            after=self.grasps[ends],
            discount=discount.astype(np.float32),
            shaping=n_step_returns(self.shaping, gamma, n_step).astype(np.float32),
        )


def n_step_returns(rewards: Sequence[float] | Array, gamma: float, n_step: int) -> Array:
    """Σₖ γᵏ r(t + k) over the next ``n_step`` rewards of one episode, or as many as are left; (T,)."""
    padded = np.concatenate([np.asarray(rewards, dtype=float), np.zeros(n_step - 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, n_step)
    return np.asarray(windows @ gamma ** np.arange(n_step))


class Replay:
    """Keeps the newest transitions, as grasps and numbers: features are computed anew when they are drawn.

    Args:
        capacity: Most transitions.
    """

    def __init__(self, capacity: int) -> None:
        self._kept = Transitions(
            scene=np.zeros(capacity, np.int64),
            before=np.zeros((capacity, 5), np.float32),
            action=np.zeros(capacity, np.int64),
            reward=np.zeros(capacity, np.float32),
            after=np.zeros((capacity, 5), np.float32),
            discount=np.zeros(capacity, np.float32),
            shaping=np.zeros(capacity, np.float32),
        )
        self._capacity, self._added = capacity, 0

    def __len__(self) -> int:
        return min(self._added, self._capacity)

    def add(self, transitions: Transitions) -> None:
        """Remember transitions; the oldest go."""
        slots = (self._added + np.arange(len(transitions.action))) % self._capacity
        for each in fields(Transitions):
            getattr(self._kept, each.name)[slots] = getattr(transitions, each.name)
        self._added += len(slots)

    def draw(self, count: int, rng: np.random.Generator) -> Transitions:
        """Transitions drawn with replacement."""
        rows = rng.integers(len(self), size=count)
        return Transitions(**{each.name: getattr(self._kept, each.name)[rows] for each in fields(Transitions)})
