"""GAE, TD(λ) and discounted returns of many rows on a CPU: step by step, in buffers that stay in the cache.

Memory that is used for the first time costs a CPU several times more than the arithmetic on it, so only the result is
new memory. All boundaries are selections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from keygrasp.credit.problem import Inputs, Kind, Numbers, Wanted
from keygrasp.credit.views import Steps, steps_of

#: Below this many rows, an operation on one step costs little more than its dispatch.
_FEWEST_ROWS = 512
_KINDS = (Kind.GAE, Kind.TD_LAMBDA, Kind.DISCOUNTED)


def suits(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted) -> bool:
    """Whether this way is possible, and faster than whole-tensor operations."""
    data = inputs.data
    if kind not in _KINDS or data.dim() != 2 or data.is_cuda or data.shape[1 - wanted.time_dim] < _FEWEST_ROWS:
        return False
    plain = inputs.gamma is None and inputs.lam is None and inputs.mask is None
    return plain and numbers.gamma > 0 and numbers.lam > 0 and data.shape[wanted.time_dim] > 0


def solve(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted) -> list[Tensor]:
    """Results of one call: the first, then the second and the final carry where wanted."""
    given = steps_of(kind, inputs, numbers, wanted).rows_together()
    found = torch.empty((given.count, given.layout.rows), dtype=given.data.dtype)
    state = _fill(given, found)
    results = [given.result(found)]
    if wanted.second and given.values is not None:
        results.append(given.result(found + given.values))
    if wanted.final:
        results.append(state.clone())
    return results


def _fill(given: Steps, found: Tensor) -> Tensor:
    """Write each step's result; returns that of the first.

    ``x[t] = r (- V) + γ (0 if terminated, the successor's value if truncated, else what goes on from later steps)``.
    """
    inputs = (given.data, given.values, given.next_values, given.truncated_values, given.terminated, given.truncated)
    steps = zip(found.unbind(0), *(_each(tensor, given.count) for tensor in inputs), strict=True)
    gamma, lam, kind = given.numbers.gamma, given.numbers.lam, given.kind
    onward = torch.empty_like(found[0])  # used again for every step
    state = given.initial_carry()
    following: Any = given.last_value
    for out, data, value, next_value, cut, terminated, truncated in reversed(list(steps)):
        successor = following if next_value is None else next_value
        if kind == Kind.DISCOUNTED or successor is None:
            onward.copy_(state)
        elif kind == Kind.GAE:
            torch.add(successor, state, alpha=lam, out=onward)
        else:
            torch.lerp(successor, state, lam, out=onward)
        if truncated is not None:
            torch.where(truncated, successor if cut is None else cut, onward, out=onward)
        if terminated is not None:
            onward.masked_fill_(terminated, 0.0)
        state = torch.add(data, onward, alpha=gamma, out=out)
        if kind == Kind.GAE:
            out.sub_(value)
        following = value
    return state


def _each(tensor: Tensor | None, count: int) -> Sequence[Any]:
    return [None] * count if tensor is None else tensor.unbind(0)
