"""Finite Markov decision processes in exact rationals, from arrays or from Gymnasium environments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keygrasp.errors import InputError

if TYPE_CHECKING:
    import gymnasium

#: Most states and transitions that are taken: exact arithmetic on more would not end in a useful time.
MAX_STATES, MAX_TRANSITIONS = 5_000, 500_000
#: Probabilities that were given as floats are taken for the nearest fraction with a denominator up to this.
_DENOMINATOR = 10**6
_CLOSE = 1e-9


@dataclass(frozen=True)
class Transition:
    """One outcome of an action.

    Attributes:
        probability: Its probability, positive.
        state: Where it leads.
        reward: Reward of the task.
        terminated: Whether the episode ends there: nothing follows.
    """

    probability: Fraction
    state: int
    reward: Fraction
    terminated: bool = False


@dataclass(frozen=True)
class FiniteMDP:
    """A finite MDP; an action with no outcome is not available.

    Attributes:
        transitions: Outcomes by state and action; a state without any available action is terminal.
        gamma: Discount in [0, 1).
        start: State in which episodes begin.
        state_names: Names of the states for people; numbers where empty.
        action_names: Names of the actions for people; numbers where empty.
    """

    transitions: tuple[tuple[tuple[Transition, ...], ...], ...]
    gamma: Fraction
    start: int = 0
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.transitions)
        if not 0 < count <= MAX_STATES:
            raise InputError(f"an MDP with {count} states", f"Give 1 to {MAX_STATES}")
        if not 0 <= self.gamma < 1:
            raise InputError(f"γ is {self.gamma}", "The certificate needs a discount in [0, 1)")
        total = 0
        for state, actions in enumerate(self.transitions):
            for action, outcomes in enumerate(actions):
                total += len(outcomes)
                if not outcomes:
                    continue
                where = f"state {state}, action {action}"
                if sum((o.probability for o in outcomes), Fraction(0)) != 1:
                    raise InputError(f"the probabilities of {where} don't add up to 1", "Normalise them")
                if any(o.probability <= 0 or not 0 <= o.state < count for o in outcomes):
                    raise InputError(f"{where} has an outcome with no probability or an unknown state")
        if total > MAX_TRANSITIONS:
            raise InputError(f"an MDP with {total} transitions", f"Give at most {MAX_TRANSITIONS}")

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.transitions)

    def actions(self, state: int) -> list[int]:
        """Available actions of a state; empty where it is terminal."""
        return [action for action, outcomes in enumerate(self.transitions[state]) if outcomes]

    def state_name(self, state: int) -> str:
        """A state in words."""
        return self.state_names[state] if self.state_names else f"state {state}"

    def action_name(self, action: int) -> str:
        """An action in words."""
        return self.action_names[action] if self.action_names else f"action {action}"

    def with_rewards(self, change: Callable[[int, int, Transition], Fraction]) -> FiniteMDP:
        """The same MDP with rewards ``change(state, action, transition)``."""
        rows = tuple(
            tuple(
                tuple(
                    Transition(o.probability, o.state, change(state, action, o), o.terminated) for o in outcomes
                )
                for action, outcomes in enumerate(actions)
            )
            for state, actions in enumerate(self.transitions)
        )  # fmt: skip
        return FiniteMDP(rows, self.gamma, self.start, self.state_names, self.action_names)


def exact(value: Any) -> Fraction:
    """A number as a fraction: integers and fractions as they are, floats bit by bit.

    Raises:
        InputError: If it is not a finite number.
    """
    try:
        return value if isinstance(value, Fraction) else Fraction(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{value!r} is not a finite number", "Give integers, fractions or finite floats") from error


def mdp_from_arrays(
    probabilities: ArrayLike, rewards: ArrayLike, terminal: Sequence[bool], gamma: Fraction | float | str
) -> FiniteMDP:
    """An MDP of tabular arrays.

    Args:
        probabilities: (S, A, S) of floats or fractions; a row of zeros means that the action is not available.
        rewards: (S, A, S) or (S, A).
        terminal: S booleans; rows of terminal states are ignored.
        gamma: Discount in [0, 1); a string such as ``"0.9"`` or ``"9/10"`` is exact.

    Raises:
        InputError: If shapes don't fit, a probability is negative, or a row doesn't add up to 1.
    """
    p, r = np.asarray(probabilities, dtype=object), np.asarray(rewards, dtype=object)
    if p.ndim != 3 or p.shape[0] != p.shape[2] or r.shape not in (p.shape, p.shape[:2]) or len(terminal) != len(p):
        raise InputError(f"probabilities {p.shape}, rewards {r.shape} and {len(terminal)} flags don't fit each other")
    rows = []
    for state in range(len(p)):
        actions = []
        for action in range(p.shape[1]):
            reward = r[state, action]
            outcomes = [
                (p[state, action, to], to, reward[to] if r.ndim == 3 else reward, bool(terminal[to]))
                for to in range(len(p))
                if p[state, action, to] != 0 and not terminal[state]
            ]
            actions.append(_outcomes(outcomes, f"state {state}, action {action}"))
        rows.append(tuple(actions))
    return FiniteMDP(tuple(rows), exact(gamma))


def mdp_from_gymnasium(env: gymnasium.Env[Any, Any], gamma: Fraction | float | str) -> FiniteMDP:
    """The MDP of a Gymnasium environment that can be enumerated: one with a table ``P`` as the toy-text ones have.

    ``P[state][action]`` lists (probability, next state, reward, terminated).

    Raises:
        InputError: If it has no such table or the table is damaged.
    """
    table = getattr(env.unwrapped, "P", None)
    if not isinstance(table, dict) or not table:
        raise InputError("the environment has no transition table P", "Only environments with one can be enumerated")
    try:
        rows = tuple(
            tuple(
                _outcomes(list(table[state][action]), f"state {state}, action {action}")
                for action in range(len(table[state]))
            )
            for state in range(len(table))
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the environment's table P is damaged ({error!r})") from error
    weights = getattr(env.unwrapped, "initial_state_distrib", None)
    return FiniteMDP(rows, exact(gamma), start=0 if weights is None else int(np.argmax(weights)))


def _outcomes(outcomes: Sequence[tuple[Any, int, Any, bool]], where: str) -> tuple[Transition, ...]:
    """Outcomes with exact probabilities; those of one next state, reward and end are added up."""
    if not outcomes:
        return ()
    merged: dict[tuple[int, Fraction, bool], Fraction] = {}
    for probability, state, reward, terminated in outcomes:
        share = exact(probability)
        if isinstance(probability, float):
            share = share.limit_denominator(_DENOMINATOR)
        if share < 0:
            raise InputError(f"{where} has a negative probability")
        if share:
            key = int(state), exact(reward), bool(terminated)
            merged[key] = merged.get(key, Fraction(0)) + share
    total = sum(merged.values(), Fraction(0))
    if not math.isclose(total, 1, abs_tol=_CLOSE * _DENOMINATOR / 100):
        raise InputError(f"the probabilities of {where} add up to {float(total):g}", "They must add up to 1")
    return tuple(Transition(share / total, *key) for key, share in merged.items())
