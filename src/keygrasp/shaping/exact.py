"""Policy iteration in exact rationals: optimal values without any tolerance.

A policy's value solves (I − γP)V = r. The rows are scaled to integers and eliminated state by state without
fractions, sparsest state first; each row is divided by its greatest common divisor, which keeps the numbers small.
I − γP is strictly diagonally dominant and stays so under elimination, so that no pivot is ever 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from keygrasp.shaping.mdp import FiniteMDP

#: One equation: integer coefficients by state, and the right side.
_Row = dict[int, int]
_RIGHT = -1
#: Sweeps of approximate value iteration that choose where exact policy iteration begins.
_SWEEPS = 200


@dataclass(frozen=True)
class Solution:
    """Optimal values of an MDP, exact.

    Attributes:
        values: (S) V*.
        action_values: Q* by state and available action.
        optimal: All optimal actions of each state: together, every optimal policy.
    """

    values: tuple[Fraction, ...]
    action_values: tuple[dict[int, Fraction], ...]
    optimal: tuple[frozenset[int], ...]


def solve(mdp: FiniteMDP) -> Solution:
    """Optimal values and all optimal actions by Howard's policy iteration, begun at a nearly optimal policy."""
    policy = _approximate_policy(mdp)
    while True:
        values = evaluate(mdp, policy)
        action_values = _action_values(mdp, values)
        better = list(policy)
        for state, q in enumerate(action_values):
            if q:
                best = max(q.values())
                if q[policy[state]] != best:
                    better[state] = next(action for action, value in q.items() if value == best)
        if better == policy:
            break
        policy = better
    optimal = tuple(frozenset(a for a, v in q.items() if v == max(q.values())) for q in action_values)
    return Solution(tuple(values), action_values, optimal)


def evaluate(mdp: FiniteMDP, policy: Sequence[int]) -> list[Fraction]:
    """The value (S) of a deterministic policy; entries of terminal states are not looked at."""
    rows = [_equation(mdp, state, policy[state]) for state in range(mdp.states)]
    order = _eliminate(rows)
    values = [Fraction(0)] * mdp.states
    for state in reversed(order):
        row = rows[state]
        right = Fraction(row[_RIGHT])
        for other, coefficient in row.items():
            if other not in (state, _RIGHT):
                right -= coefficient * values[other]
        values[state] = right / row[state]
    return values


def _equation(mdp: FiniteMDP, state: int, action: int) -> _Row:
    """V(s) − γ Σ p V(s′) = Σ p r, in integers."""
    coefficients: dict[int, Fraction] = {state: Fraction(1), _RIGHT: Fraction(0)}
    outcomes = mdp.transitions[state][action] if mdp.actions(state) else ()
    for outcome in outcomes:
        coefficients[_RIGHT] += outcome.probability * outcome.reward
        if not outcome.terminated:
            before = coefficients.get(outcome.state, Fraction(0))
            coefficients[outcome.state] = before - mdp.gamma * outcome.probability
    common = math.lcm(*(value.denominator for value in coefficients.values()))
    return {name: value.numerator * (common // value.denominator) for name, value in coefficients.items()}


def _eliminate(rows: list[_Row]) -> list[int]:
    """Eliminate states one after another, in place; returns their order, for substitution backwards."""
    users: list[set[int]] = [set() for _ in rows]
    for state, row in enumerate(rows):
        for other in row:
            if other not in (state, _RIGHT):
                users[other].add(state)
    waiting, order = set(range(len(rows))), []
    while waiting:
        state = min(waiting, key=lambda s: (len(users[s] & waiting) * len(rows[s]), s))
        waiting.discard(state)
        order.append(state)
        pivot_row = rows[state]
        for user in users[state] & waiting:
            rows[user] = _without(rows[user], pivot_row, state)
            for other in pivot_row:
                if other not in (state, user, _RIGHT):
                    users[other].add(user)
    return order


def _without(row: _Row, pivot_row: _Row, state: int) -> _Row:
    """A row from which a state was eliminated."""
    factor, pivot = row[state], pivot_row[state]
    shared = math.gcd(factor, pivot)
    factor, pivot = factor // shared, pivot // shared
    result = {name: pivot * value for name, value in row.items() if name != state}
    for name, value in pivot_row.items():
        if name != state:
            result[name] = result.get(name, 0) - factor * value
    divisor = math.gcd(*result.values())  # at least 1: the coefficient of the row's own state stays positive
    return {name: value // divisor for name, value in result.items() if value or name == _RIGHT}


def _action_values(mdp: FiniteMDP, values: Sequence[Fraction]) -> tuple[dict[int, Fraction], ...]:
    """Q of every state and available action, (S)."""
    return tuple(
        {
            action: sum(
                (
                    o.probability * (o.reward if o.terminated else o.reward + mdp.gamma * values[o.state])
                    for o in mdp.transitions[state][action]
                ),
                Fraction(0),
            )
            for action in mdp.actions(state)
        }
        for state in range(mdp.states)
    )


def _approximate_policy(mdp: FiniteMDP) -> list[int]:
    """A policy that value iteration in floats thinks best: a good beginning, on which no result depends."""
    gamma = float(mdp.gamma)
    table = [
        {
            a: [(float(o.probability), float(o.reward), -1 if o.terminated else o.state) for o in mdp.transitions[s][a]]
            for a in mdp.actions(s)
        }
        for s in range(mdp.states)
    ]
    values = [0.0] * (mdp.states + 1)  # the last one stands for what follows a terminal transition: always 0
    policy = [0] * mdp.states
    for _ in range(_SWEEPS):
        change = 0.0
        for state, actions in enumerate(table):
            if not actions:
                continue
            q = {a: sum(p * (r + gamma * values[to]) for p, r, to in outcomes) for a, outcomes in actions.items()}
            policy[state] = max(q, key=lambda a: q[a])
            change = max(change, abs(q[policy[state]] - values[state]))
            values[state] = q[policy[state]]
        if change < 1e-9:
            break
    return policy
