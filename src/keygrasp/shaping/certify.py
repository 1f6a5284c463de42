"""A certificate that shaping keeps every optimal policy of a finite MDP, or a counterexample; exact, no tolerance."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.shaping.exact import Solution, solve
from keygrasp.shaping.mdp import FiniteMDP, Transition, exact
from keygrasp.shaping.potential import Potential

#: Φ(s, goal that holds in s) of each state.
Table = Sequence[Fraction]
#: Rewards with shaping: (mdp, Φ, state, action, transition) → reward.
Shaping = Callable[[FiniteMDP, Table, int, Transition], Fraction]


def potential_based(mdp: FiniteMDP, phi: Table, state: int, outcome: Transition) -> Fraction:
    """Add γΦ(s′) − Φ(s) to the reward, with Φ(terminal) = 0: what the shaping term gives."""
    following = Fraction(0) if outcome.terminated else phi[outcome.state]
    return outcome.reward + mdp.gamma * following - phi[state]


@dataclass(frozen=True)
class Counterexample:
    """A state whose optimal actions changed.

    Attributes:
        state: The state in words.
        before: Optimal actions without shaping.
        after: Optimal actions with it.
        values_before: Q* without shaping by action.
        values_after: Q* with it by action.
    """

    state: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    values_before: dict[str, Fraction]
    values_after: dict[str, Fraction]

    def text(self) -> str:
        """The counterexample in words."""

        def listed(values: dict[str, Fraction]) -> str:
            return ", ".join(f"{name} {value} ≈ {float(value):.4g}" for name, value in values.items())

        return (
            f"in {self.state} the optimal actions are {{{', '.join(self.before)}}} without shaping and "
            f"{{{', '.join(self.after)}}} with it\n  Q* without: {listed(self.values_before)}\n"
            f"  Q* with:    {listed(self.values_after)}"
        )


@dataclass(frozen=True)
class Certificate:
    """The result of comparing the whole sets of optimal policies.

    Attributes:
        preserved: Whether they are the same.
        states: Number of states compared.
        ties: States with more than one optimal action without shaping.
        shifted: Whether V*′ = V* − Φ and Q*′ = Q* − Φ hold exactly everywhere, as theory says.
        counterexample: The first state that differs, ``None`` where none does.
    """

    preserved: bool
    states: int
    ties: int
    shifted: bool
    counterexample: Counterexample | None = None

    def text(self) -> str:
        """The certificate, or the counterexample, in words."""
        if self.counterexample is not None:
            return f"NOT preserved: {self.counterexample.text()}"
        shift = "V*′ = V* − Φ exactly" if self.shifted else "values are not shifted by Φ"
        return (
            f"preserved: in all {self.states} states ({self.ties} with ties) the set of optimal actions is the same, "
            f"in exact rational arithmetic; {shift}"
        )


def certify(
    mdp: FiniteMDP,
    potential: Sequence[Any] | Array,
    *,
    shaping: Shaping = potential_based,
    unshaped: Solution | None = None,
) -> Certificate:
    """Compare the optimal policies with and without shaping.

    Args:
        mdp: The finite MDP.
        potential: (S) values Φ(s); floats are taken bit by bit.
        shaping: How the reward is shaped; another than :func:`potential_based` to show what goes wrong with it.
        unshaped: The solution without shaping, where it is known.

    Raises:
        InputError: If there is not one finite value a state.
    """
    if len(potential) != mdp.states:
        raise InputError(f"{len(potential)} potentials for {mdp.states} states", "Give one a state")
    phi = [exact(value) for value in potential]
    before = unshaped or solve(mdp)
    after = solve(mdp.with_rewards(lambda state, _, outcome: shaping(mdp, phi, state, outcome)))
    changed = next((s for s in range(mdp.states) if before.optimal[s] != after.optimal[s]), None)
    acting = [state for state in range(mdp.states) if before.optimal[state]]
    return Certificate(
        preserved=changed is None,
        states=mdp.states,
        ties=sum(len(actions) > 1 for actions in before.optimal),
        shifted=all(
            after.action_values[s][a] == value - phi[s] for s in acting for a, value in before.action_values[s].items()
        ),
        counterexample=None if changed is None else _counterexample(mdp, changed, before, after),
    )


def potential_table(potential: Potential, states: Array, goals: Sequence[Hashable]) -> list[Fraction]:
    """Exact values Φ(s, g) of rows (S, D) with their S goals."""
    return [
        exact(float(potential.values(states[i : i + 1], goal)[0])) for i, goal in enumerate(goals)
    ]  # fmt: skip


def _counterexample(mdp: FiniteMDP, state: int, before: Solution, after: Solution) -> Counterexample:
    def names(actions: frozenset[int]) -> tuple[str, ...]:
        return tuple(mdp.action_name(action) for action in sorted(actions))

    def values(solution: Solution) -> dict[str, Fraction]:
        return {mdp.action_name(action): value for action, value in solution.action_values[state].items()}

    return Counterexample(
        mdp.state_name(state), names(before.optimal[state]), names(after.optimal[state]), values(before), values(after)
    )
