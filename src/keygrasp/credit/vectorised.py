"""The same results from whole-tensor operations: coefficients first, then one scan along time.

This is the backend for the CPU, for code under ``torch.compile`` and for gradients: all of it is differentiable, with
the scan as the only operation that torch doesn't know.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from keygrasp.credit.problem import FORWARD, Inputs, Kind, Numbers, Wanted
from keygrasp.credit.views import Steps, log_bound, steps_of

#: Solves x[t] = u[t] + v[t] * x[t + 1] (x[t - 1] where ``forward``) from u, v [T, N] and the carry [N].
Scan = Callable[[Tensor, Tensor, Tensor, bool], Tensor]


def solve(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted, scan: Scan) -> list[Tensor]:
    """Results of one call: the first, then the second and the final carry where wanted."""
    given = steps_of(kind, inputs, numbers, wanted)
    if not torch.compiler.is_compiling() and given.data.stride(0) < given.data.stride(1):
        given = given.rows_together()
    u, v, successor = _coefficients(given)
    forward = kind in FORWARD
    carry = given.initial_carry()
    if given.mask is not None:
        u = torch.where(given.mask, u, 0.0)
        v = torch.where(given.mask, v, 1.0)
    entry = _entry(given)
    if entry is not None:
        v = torch.where(entry == 0, 0.0, v * entry)
    x = scan(u, v, carry, forward)
    first = x + _values(given) if kind in (Kind.VTRACE, Kind.RETRACE) else x
    results = [_finish(given, first)]
    if wanted.second:
        results.append(_finish(given, _second(given, x, carry, successor)))
    if wanted.final:
        results.append(_final(given, x, carry))
    return results


def _finish(given: Steps, found: Tensor) -> Tensor:
    return given.result(found if given.mask is None else torch.where(given.mask, found, 0.0))


def _coefficients(given: Steps) -> tuple[Tensor, Tensor, Tensor | None]:
    """U and v of each step, [T, N], and the successors' values where the second result needs them."""
    kind, data = given.kind, given.data
    if kind in (Kind.LINEAR, Kind.LINEAR_FORWARD):
        return data, _values(given), None
    if kind == Kind.TRACES:
        return data, torch.ones_like(data), None
    gamma: Tensor | float = given.numbers.gamma if given.gammas is None else given.gammas
    lam: Tensor | float = given.numbers.lam if given.lams is None else given.lams
    successor = _successors(given)
    if kind == Kind.DISCOUNTED:
        u = data if successor is None else _plus(data, gamma, successor)
        return u, _until_done(given, gamma), None
    if successor is None:
        raise RuntimeError("the values of the successors are missing")
    if kind == Kind.TD_LAMBDA:
        weight = _until_done(given, gamma * (1.0 - lam), beyond=gamma)
        return _plus(data, weight, successor), _until_done(given, gamma * lam), None
    delta = _plus(data, gamma, successor).sub_(_values(given))
    if kind == Kind.GAE:
        return delta, _until_done(given, gamma * lam), None
    if kind == Kind.RETRACE:
        return delta, _until_done(given, gamma), None
    numbers = given.numbers
    trace = gamma * lam * _ratios(given, numbers.c_bar)
    return _ratios(given, numbers.rho_bar) * delta, _until_done(given, trace), successor


def _plus(data: Tensor, factor: Tensor | float, other: Tensor) -> Tensor:
    """``data + factor * other`` in one pass; a new tensor."""
    if isinstance(factor, Tensor):
        return torch.addcmul(data, factor, other)
    return torch.add(data, other, alpha=factor)


def _until_done(given: Steps, factor: Tensor | float, beyond: Tensor | float = 0.0) -> Tensor:
    """``factor`` for each step, and ``beyond`` where the episode ends with it, [T, N]."""
    done = _done(given)
    if done is None:
        whole = factor if isinstance(factor, Tensor) else given.data.new_tensor(factor)
        return whole.expand_as(given.data)
    if isinstance(factor, Tensor) or isinstance(beyond, Tensor):
        return torch.where(done, beyond, factor)
    fast = given.data.dtype is torch.float32 and not torch.compiler.is_compiling()
    if beyond == 0.0 and fast:  # exact, and several times faster than a selection, but no compiler takes the view
        return torch.rsub(done.view(torch.uint8), factor, alpha=factor)
    return torch.full_like(given.data, factor).masked_fill_(done, beyond)


def _done(given: Steps) -> Tensor | None:
    if given.terminated is None or given.truncated is None:
        return given.truncated if given.terminated is None else given.terminated
    return given.terminated | given.truncated


def _successors(given: Steps) -> Tensor | None:
    """Value of each step's true successor, 0 after a terminal step, [T, N]; ``None`` if nothing bootstraps."""
    if given.kind == Kind.DISCOUNTED:  # the recurrence itself goes on where no episode was cut
        if given.truncated is None or given.truncated_values is None:
            return None
        cut = given.truncated if given.terminated is None else given.truncated & ~given.terminated
        return torch.where(cut, given.truncated_values, 0.0)
    following = given.next_values
    if following is None:
        following = _following(given)
        if given.truncated is not None and given.truncated_values is not None:
            following = torch.where(given.truncated, given.truncated_values, following)
    return following if given.terminated is None else torch.where(given.terminated, 0.0, following)


def _following(given: Steps) -> Tensor:
    """Value of the next step that isn't masked, and the last value after all of them, [T, N]."""
    values = _values(given)
    last = values.new_zeros(given.layout.rows) if given.last_value is None else given.last_value
    later = torch.cat((values[1:], last.unsqueeze(0)))[: given.count]
    if given.mask is None or not given.count:
        return later
    steps = torch.arange(given.count, device=values.device).unsqueeze(1)
    own = torch.where(given.mask, steps, given.count)
    nearest = own.flip(0).cummin(0).values.flip(0)
    end = torch.full_like(nearest[:1], given.count)
    return torch.cat((values, last.unsqueeze(0))).gather(0, torch.cat((nearest[1:], end)))


def _entry(given: Steps) -> Tensor | None:
    """Factor that a step applies for the one processed before it, [T, N]; ``None`` if there is none."""
    if given.kind not in (Kind.RETRACE, Kind.TRACES):
        return None
    own = _own_factor(given)
    if given.mask is not None:
        own = torch.where(given.mask, own, 1.0)
    edge = torch.ones_like(own[:1])
    return torch.cat((edge, own[:-1])) if given.kind in FORWARD else torch.cat((own[1:], edge))


def _own_factor(given: Steps) -> Tensor:
    """Factor between a step's state and what the next processed step receives, [T, N]."""
    lam: Tensor | float = given.numbers.lam if given.lams is None else given.lams
    if given.kind == Kind.RETRACE:
        return lam * _ratios(given, given.numbers.c_bar)
    gamma: Tensor | float = given.numbers.gamma if given.gammas is None else given.gammas
    return _until_done(given, gamma * lam)


def _ratios(given: Steps, bar: float) -> Tensor:
    if given.log_ratios is None:
        raise RuntimeError("the log-probabilities are missing")
    return given.log_ratios.clamp(max=log_bound(bar)).exp()


def _values(given: Steps) -> Tensor:
    if given.values is None:
        raise RuntimeError("the values are missing")
    return given.values


def _second(given: Steps, x: Tensor, carry: Tensor, successor: Tensor | None) -> Tensor:
    """The second result, [T, N]."""
    values = _values(given)
    if given.kind == Kind.GAE:
        return x + values
    ratios = _ratios(given, given.numbers.pg_rho_bar)
    if given.kind == Kind.RETRACE:
        return ratios * x
    if successor is None:
        raise RuntimeError("V-trace keeps the successors' values")
    gamma: Tensor | float = given.numbers.gamma if given.gammas is None else given.gammas
    factor = _until_done(given, gamma)
    received = torch.cat((x[1:], carry.unsqueeze(0)))[: given.count]
    onward = torch.where(factor == 0, 0.0, factor * received)
    return ratios * (given.data + gamma * successor + onward - values)


def _final(given: Steps, x: Tensor, carry: Tensor) -> Tensor:
    """What the neighbouring piece continues from, [N]."""
    if given.count == 0:
        return carry.clone()
    edge = given.count - 1 if given.kind in FORWARD else 0
    if given.kind not in (Kind.RETRACE, Kind.TRACES):
        return x[edge].clone()
    factor = _own_factor(given)[edge]
    if given.mask is not None:
        factor = torch.where(given.mask[edge], factor, 1.0)
    return torch.where(factor == 0, 0.0, factor * x[edge])
