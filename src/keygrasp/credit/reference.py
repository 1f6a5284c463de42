"""The meaning: one step after the other, each formula written out. Slow on purpose; every backend must agree with it.

Works on [T, N] views in the precision of the accumulation (float64 if any input is). A masked step leaves everything as
it found it, as if it weren't there, and its results are 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from keygrasp.credit.problem import FORWARD, Inputs, Kind, Numbers, Wanted
from keygrasp.credit.views import Steps, steps_of

#: What a step gives: the state of the recurrence, what the next step receives, and the two results.
_Step = tuple[Tensor, Tensor, Tensor | None]


def solve(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted) -> list[Tensor]:
    """Results of one call: the first, then the second and the final carry where wanted."""
    given = steps_of(kind, inputs, numbers, wanted)
    loop = _Loop(kind, given)
    steps = range(given.count) if kind in FORWARD else range(given.count - 1, -1, -1)
    found = {t: loop.step(t) for t in steps}
    results = [given.result([found[t][0] for t in range(given.count)])]
    if wanted.second:
        results.append(given.result([found[t][1] for t in range(given.count)]))
    if wanted.final:
        results.append(loop.carry.clone())
    return results


class _Loop:
    """State that goes from step to step: the recurrence's carry and the value of the state just processed."""

    def __init__(self, kind: Kind, given: Steps) -> None:
        self._formula = _FORMULAS[kind]
        self._given = given
        self.carry = given.initial_carry()
        self.value = given.last_value

    def step(self, t: int) -> tuple[Tensor, Tensor]:
        given = self._given
        carry, first, second = self._formula(given, t, self._successor(t), self.carry)
        if given.values is not None:
            self.value = given.select(t, given.values[t], self.value)
        self.carry = given.select(t, carry, self.carry)
        zero = torch.zeros_like(first)
        return given.select(t, first, zero), given.select(t, zero if second is None else second, zero)

    def _successor(self, t: int) -> Tensor:
        """Value of the true successor of step t; 0 where there is none."""
        given = self._given
        if given.next_values is not None:
            value = given.next_values[t]
        elif self.value is not None:
            value = self.value
        else:
            value = torch.zeros_like(given.data[t])
        if given.truncated is not None and given.truncated_values is not None:
            value = torch.where(given.truncated[t], given.truncated_values[t], value)
        return value if given.terminated is None else torch.where(given.terminated[t], 0.0, value)


def _cut(given: Steps, t: int, factor: Tensor, carry: Tensor) -> Tensor:
    """``factor * carry``, and 0 across the end of an episode or where the factor is 0, whatever the carry is."""
    return torch.where(given.done(t) | (factor == 0), 0.0, factor * carry)


def _gae(given: Steps, t: int, successor: Tensor, carry: Tensor) -> _Step:
    delta = given.data[t] + given.gamma(t) * successor - given.value(t)
    advantage = delta + _cut(given, t, given.gamma(t) * given.lam(t), carry)
    return advantage, advantage, advantage + given.value(t)


def _vtrace(given: Steps, t: int, successor: Tensor, carry: Tensor) -> _Step:
    numbers, value = given.numbers, given.value(t)
    delta = given.ratio(t, numbers.rho_bar) * (given.data[t] + given.gamma(t) * successor - value)
    trace = given.gamma(t) * given.lam(t) * given.ratio(t, numbers.c_bar)
    correction = delta + _cut(given, t, trace, carry)
    next_target = given.gamma(t) * successor + _cut(given, t, given.gamma(t), carry)
    advantage = given.ratio(t, numbers.pg_rho_bar) * (given.data[t] + next_target - value)
    return correction, value + correction, advantage


def _retrace(given: Steps, t: int, successor: Tensor, carry: Tensor) -> _Step:
    # The carry is c[t+1] * (target[t+1] - q[t+1]), so that a piece needs nothing else of the next one.
    numbers, value = given.numbers, given.value(t)
    reward = given.data[t] + given.gamma(t) * successor - value
    correction = reward + _cut(given, t, given.gamma(t), carry)
    advantage = given.ratio(t, numbers.pg_rho_bar) * correction
    return given.lam(t) * given.ratio(t, numbers.c_bar) * correction, value + correction, advantage


def _td_lambda(given: Steps, t: int, successor: Tensor, carry: Tensor) -> _Step:
    weight = torch.where(given.done(t), 1.0, 1.0 - given.lam(t))
    target = given.data[t] + given.gamma(t) * weight * successor
    target = target + _cut(given, t, given.gamma(t) * given.lam(t), carry)
    return target, target, None


def _discounted(given: Steps, t: int, successor: Tensor, carry: Tensor) -> _Step:
    bootstrap = torch.where(given.done(t), given.gamma(t) * successor, 0.0)
    total = given.data[t] + bootstrap + _cut(given, t, given.gamma(t), carry)
    return total, total, None


def _traces(given: Steps, t: int, successor: Tensor, carry: Tensor) -> _Step:
    del successor
    trace = given.data[t] + carry
    return _cut(given, t, given.gamma(t) * given.lam(t), trace), trace, None


def _linear(given: Steps, t: int, successor: Tensor, carry: Tensor) -> _Step:
    del successor
    state = given.data[t] + _cut(given, t, given.value(t), carry)
    return state, state, None


_FORMULAS = {
    Kind.GAE: _gae,
    Kind.VTRACE: _vtrace,
    Kind.RETRACE: _retrace,
    Kind.TD_LAMBDA: _td_lambda,
    Kind.DISCOUNTED: _discounted,
    Kind.TRACES: _traces,
    Kind.LINEAR: _linear,
    Kind.LINEAR_FORWARD: _linear,
}
