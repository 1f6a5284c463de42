"""The shaping term F = γΦ(s′, g′) − Φ(s, g), kept for N environments in step, with its five conditions enforced.

With them V′ = V − Φ, Q′ = Q − Φ and A′ = A, and the optimal policies are the same (Ng, Harada, Russell 1999; terminal
states: Grześ 2017; dynamic potentials: Devlin and Kudenko 2012).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.shaping.conditions import (
    DiscountError,
    EpisodeEndError,
    GoalError,
    StaticPotentialError,
    StoredPotentialError,
    TerminalPotentialError,
)
from keygrasp.shaping.potential import Potential, Stationarity

Booleans = NDArray[np.bool_]
#: Goals, and states of each, whose values are remembered to find out that a potential declared static is not.
_REMEMBERED_GOALS, _REMEMBERED = 16, 8192
#: Two values of one state that differ by less are one: batches of another size may round differently.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class ShapingStep:
    """What one step of N environments gives.

    Attributes:
        potential: (N,) Φ(s, g), the values stored when s was reached; both potentials belong into a replay.
        next_potential: (N,) Φ(s′, g′): 0 where terminated, kept where truncated.
        shaping: (N,) scale · (γ · next_potential − potential), to be added to the reward.
    """

    potential: Array
    next_potential: Array
    shaping: Array


class ShapingTerm:
    """Shaping for N environments that step together.

    The discount is given here once; learners read :attr:`gamma`, or let :meth:`require_gamma` check their own.

    Args:
        potential: Φ.
        gamma: The learner's discount, in (0, 1].
        scale: Factor of the term. F times a constant is the term of Φ times that constant, so any value keeps the
            optimal policies.
        count: Number of environments N.
    """

    def __init__(self, potential: Potential, gamma: float, *, scale: float = 1.0, count: int = 1) -> None:
        if not 0 < gamma <= 1:
            raise DiscountError(f"γ is {gamma}", "It must lie in (0, 1]")
        if not math.isfinite(scale):
            raise InputError(f"the scale of the shaping term is {scale}", "Give a finite number")
        if count < 1:
            raise InputError(f"a shaping term for {count} environments", "Give at least 1")
        self.potential, self.gamma, self.scale = potential, gamma, scale
        self._stored = np.zeros(count)
        self._running = np.zeros(count, dtype=bool)
        self._goals: list[Hashable] = [None] * count
        self._seen: dict[Hashable, dict[bytes, float]] = {}

    @property
    def count(self) -> int:
        """Number of environments."""
        return len(self._stored)

    @property
    def running(self) -> Booleans:
        """(N,) whether each environment is within an episode."""
        return self._running.copy()

    def require_gamma(self, gamma: float) -> None:
        """Check a learner's discount.

        Raises:
            DiscountError: If it is not this term's.
        """
        if gamma != self.gamma:
            raise DiscountError(
                f"the learner discounts by {gamma}, the shaping term by {self.gamma}",
                "Build the term with the learner's γ, or let the learner read term.gamma",
            )

    def reset(self, states: Array, goals: Sequence[Hashable], where: ArrayLike | None = None) -> Array:
        """Begin episodes.

        Args:
            states: (N, D) first states.
            goals: N goals.
            where: (N,) bool, the environments that begin; all where ``None``.

        Returns:
            Φ (N,) as stored now.
        """
        begins = np.ones(self.count, dtype=bool) if where is None else self._flags(where, "where")
        self._take_goals(goals, begins)
        self._stored = np.where(begins, self._evaluate(states, begins), self._stored)
        self._running |= begins
        return self._stored.copy()

    def step(
        self,
        next_states: Array,
        terminated: ArrayLike,
        truncated: ArrayLike,
        goals: Sequence[Hashable] | None = None,
        where: ArrayLike | None = None,
    ) -> ShapingStep:
        """Account for one step.

        Args:
            next_states: (N, D) states s′; where an episode ended, its *last* state, not the first of the next one.
                Rows of terminated environments are not looked at.
            terminated: (N,) bool, whether s′ is terminal; wins where both are true.
            truncated: (N,) bool, whether the episode was cut off at s′.
            goals: N goals g′ that hold from s′ on; those of the last call where ``None``.
            where: (N,) bool, the environments that stepped; the shaping of others is 0.

        Raises:
            EpisodeEndError: If an environment steps that has ended and was not reset.
        """
        ends, cut = self._flags(terminated, "terminated"), self._flags(truncated, "truncated")
        steps = np.ones(self.count, dtype=bool) if where is None else self._flags(where, "where")
        if np.any(steps & ~self._running):
            raise EpisodeEndError(
                f"environment {int(np.argmax(steps & ~self._running))} steps but has not begun an episode",
                "Call reset with its first state; the step in which it resets itself earns nothing",
            )
        if goals is not None:
            self._take_goals(goals, steps)
        potential = np.where(steps, self._stored, 0.0)
        following = self._evaluate(next_states, steps & ~ends)
        shaping = self.scale * (self.gamma * following - potential)
        self._stored = np.where(steps, following, self._stored)
        self._running &= ~(steps & (ends | cut))
        return ShapingStep(potential, following, shaping)

    def _take_goals(self, goals: Sequence[Hashable], where: Booleans) -> None:
        if len(goals) != self.count:
            raise InputError(f"{len(goals)} goals for {self.count} environments", "Give one goal an environment")
        for index in np.flatnonzero(where):
            self._goals[index] = goals[int(index)]

    def _evaluate(self, states: Array, where: Booleans) -> Array:
        """Φ (N,) of the states under the present goals; 0 where not asked for."""
        if len(states) != self.count:
            raise InputError(f"{len(states)} states for {self.count} environments", "Give one state an environment")
        values = np.zeros(self.count)
        for goal, rows in self._by_goal(where):
            chosen = np.ascontiguousarray(states[rows])
            values[rows] = self.potential.values(chosen, goal)
            if self.potential.stationarity is Stationarity.STATIC:
                self._remember(chosen, goal, values[rows])
        return values

    def _by_goal(self, where: Booleans) -> list[tuple[Hashable, NDArray[np.intp]]]:
        """The environments that are asked for, grouped by their present goal."""
        rows = np.flatnonzero(where)
        if all(goal is self._goals[0] for goal in self._goals):  # by far the most common, and hashing goals is slow
            return [(self._goals[0], rows)] if len(rows) else []
        groups: dict[Hashable, list[int]] = {}
        for row in rows.tolist():
            groups.setdefault(self._goals[row], []).append(row)
        return [(goal, np.array(members)) for goal, members in groups.items()]

    def _remember(self, states: Array, goal: Hashable, values: Array) -> None:
        """Compare with what the same states gave before."""
        seen = self._seen.setdefault(goal, {})
        for state, value in zip(states, values.tolist(), strict=True):
            before = seen.setdefault(state.tobytes(), value)
            if abs(before - value) > _ROUNDING:
                raise StaticPotentialError(
                    f"potential '{self.potential.name}' is declared static but gave {before:g} and then {value:g} "
                    "for the same state and goal",
                    "Make it a function of state and goal alone, or declare it dynamic",
                )
        self._forget()

    def _forget(self) -> None:
        """Keep memory bounded: the oldest goals go, then the oldest states."""
        while len(self._seen) > _REMEMBERED_GOALS:
            del self._seen[next(iter(self._seen))]
        for seen in self._seen.values():
            while len(seen) > _REMEMBERED:
                del seen[next(iter(seen))]

    def _flags(self, values: ArrayLike, what: str) -> Booleans:
        flags = np.atleast_1d(np.asarray(values, dtype=bool))
        if flags.shape != (self.count,):
            raise InputError(f"{what} has shape {flags.shape}, expected ({self.count},)")
        return flags


def shaped_rewards(
    rewards: Array, potential: Array, next_potential: Array, terminated: ArrayLike, gamma: float
) -> Array:
    """Rewards with shaping from potentials that were stored with the transitions, as in a replay.

    Any estimator of returns stays correct on them, with values V′ = V − Φ: one-step, n-step, TD(λ), GAE, Retrace.

    Args:
        rewards: (...) rewards of the task.
        potential: (...) Φ(s, g) as stored, times the scale.
        next_potential: (...) Φ(s′, g′) as stored, times the scale.
        terminated: (...) bool, whether s′ is terminal.
        gamma: The learner's discount.

    Raises:
        TerminalPotentialError: If a stored potential of a terminal state is not 0.
    """
    if np.any(np.asarray(terminated, dtype=bool) & (next_potential != 0)):
        raise TerminalPotentialError("a stored Φ(s′) of a terminal state is not 0", "Store what ShapingTerm.step gives")
    return np.asarray(rewards + gamma * next_potential - potential)


def check_stored(
    potential: Array, next_potential: Array, ended: ArrayLike, goals: Sequence[Sequence[Hashable]] | None = None
) -> None:
    """Check potentials that were stored along trajectories: each Φ(s′) must be the next step's Φ(s).

    Args:
        potential: (T, N) Φ(s, g).
        next_potential: (T, N) Φ(s′, g′).
        ended: (T, N) bool, terminated or truncated: what follows is another episode.
        goals: T times N goals that held in s, to tell a change of goal from another fault.

    Raises:
        GoalError: If they differ where the goal changed.
        StoredPotentialError: If they differ elsewhere.
    """
    differs = (np.abs(next_potential[:-1] - potential[1:]) > _ROUNDING) & ~np.asarray(ended, dtype=bool)[:-1]
    for step, environment in np.argwhere(differs).tolist():
        place = f"in environment {environment} between steps {step} and {step + 1}"
        if goals is not None and goals[step][environment] != goals[step + 1][environment]:
            raise GoalError(f"Φ(s′) is that of the old goal {place}", "Give step() the goal that holds from s′ on")
        raise StoredPotentialError(f"Φ(s′) was not reused as Φ(s) {place}", "Store what ShapingTerm.step gives")
