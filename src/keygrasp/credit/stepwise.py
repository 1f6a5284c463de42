"""GAE, TD(λ) and discounted returns of many rows on a CPU: step by step, in buffers that stay in the cache.

Memory that is used for the first time costs a CPU several times more than the arithmetic on it, so only the result is
new memory. On a step of some thousand rows, NumPy's operations cost a third of torch's, which mostly dispatch, and its
masked copies a third of torch's selections. All boundaries are selections.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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
    with np.errstate(all="ignore"):  # what lies beyond a boundary may be anything, and is not selected
        _fill(given, found.numpy())
    results = [given.result(found)]
    if wanted.second and given.values is not None:
        results.append(given.result(found + given.values))
    if wanted.final:
        results.append(found[0].clone())
    return results


def _fill(given: Steps, found: NDArray[Any]) -> None:
    """Write each step's result.

    ``x[t] = r (- V) + γ (0 if terminated, the successor's value if truncated, else what goes on from later steps)``.
    """
    inputs = (given.data, given.values, given.next_values, given.truncated_values, given.terminated, given.truncated)
    gamma, lam, kind = (found.dtype.type(given.numbers.gamma), found.dtype.type(given.numbers.lam), given.kind)
    onward, weighed = np.empty_like(found[0]), np.empty_like(found[0])  # used again for every step
    state = given.initial_carry().detach().numpy()
    following: Any = None if given.last_value is None else given.last_value.detach().numpy()
    for out, data, value, next_value, cut, terminated, truncated in zip(
        found[::-1], *map(_backwards, inputs), strict=False
    ):
        successor = following if next_value is None else next_value
        if kind == Kind.DISCOUNTED or successor is None:
            np.copyto(onward, state)
        elif kind == Kind.GAE:
            np.multiply(state, lam, out=onward)
            np.add(onward, successor, out=onward)
        else:
            np.multiply(state, lam, out=onward)
            np.multiply(successor, 1 - lam, out=weighed)
            np.add(onward, weighed, out=onward)
        if truncated is not None:
            np.copyto(onward, successor if cut is None else cut, where=truncated)
        if terminated is not None:
            np.copyto(onward, 0, where=terminated)
        np.multiply(onward, gamma, out=onward)
        state = np.add(data, onward, out=out)
        if kind == Kind.GAE:
            np.subtract(out, value, out=out)
        following = value


def _backwards(tensor: Tensor | None) -> Iterable[Any]:
    return repeat(None) if tensor is None else tensor.detach().numpy()[::-1]
