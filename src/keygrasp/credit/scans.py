"""The scan x[t] = u[t] + v[t] * x[t ± 1] in torch operations: a loop in blocks for the CPU, log-depth for a compiler.

A factor of 0 cuts: what lies beyond it has no influence, not even as NaN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

#: A vector operation on fewer elements than this costs about as much as its dispatch.
_WORTHWHILE = 4096
#: Up to this many steps, a plain loop is as fast as two levels of blocks.
_SHORT = 32


def blocked_scan(u: Tensor, v: Tensor, carry: Tensor, forward: bool) -> Tensor:
    """Scan in about T steps where rows are many, in about 2 * sqrt(T) where they are few.

    Args:
        u: Additive coefficients, [T, N].
        v: Factors, [T, N].
        carry: State before the first processed step, [N].
        forward: Whether x[t] depends on x[t - 1] rather than on x[t + 1].

    Returns:
        x, [T, N].
    """
    if u.shape[0] == 0:
        return u.clone()
    # Without NaN or infinity, a factor of 0 cuts by itself; the selections are needed only if something isn't finite.
    found = _scan(u, v, carry, forward, select=False)
    if bool(found.sum().isfinite()):
        return found
    return _scan(u, v, carry, forward, select=True)


def _scan(u: Tensor, v: Tensor, carry: Tensor, forward: bool, *, select: bool) -> Tensor:
    steps, rows = u.shape
    if steps <= _SHORT or rows >= _WORTHWHILE // 2:
        return _loop(u, v, carry, forward, select=select)
    blocks = min(math.isqrt(steps), max(2, _WORTHWHILE // max(rows, 1)))
    length = -(-steps // blocks)
    blocks = -(-steps // length)
    padding = blocks * length - steps
    if padding:  # identity steps behind the last processed one
        ends = (0, 0, 0, padding) if forward else (0, 0, padding, 0)
        u = torch.nn.functional.pad(u, ends)
        v = torch.nn.functional.pad(v, ends, value=1.0)
    u, v = u.reshape(blocks, length, rows), v.reshape(blocks, length, rows)
    sums, factors = torch.empty_like(u), torch.empty_like(v)
    order = range(length) if forward else range(length - 1, -1, -1)
    before: int | None = None
    for t in order:  # all blocks at once, each from its own start
        if before is None:
            sums[:, t], factors[:, t] = u[:, t], v[:, t]
        else:
            _advance(u[:, t], v[:, t], sums[:, before], sums[:, t], select=select)
            torch.mul(v[:, t], factors[:, before], out=factors[:, t])
            if select:
                factors[:, t].masked_fill_(v[:, t] == 0, 0.0)
        before = t
    edge = length - 1 if forward else 0
    ends_of_blocks = _scan(sums[:, edge], factors[:, edge], carry, forward, select=select)
    start = carry.unsqueeze(0)
    entering = (
        torch.cat((start, ends_of_blocks[:-1])) if forward else torch.cat((ends_of_blocks[1:], start))
    ).unsqueeze(1)
    if select:
        sums = torch.where(factors == 0, sums, sums + factors * entering)
    else:
        sums.addcmul_(factors, entering)
    found = sums.reshape(blocks * length, rows)
    return found[:steps] if forward else found[padding:]


def _loop(u: Tensor, v: Tensor, carry: Tensor, forward: bool, *, select: bool) -> Tensor:
    x = torch.empty_like(u)
    state = carry
    steps = list(zip(u.unbind(0), v.unbind(0), x.unbind(0), strict=True))
    for added, factor, out in steps if forward else reversed(steps):
        _advance(added, factor, state, out, select=select)
        state = out
    return x


def _advance(added: Tensor, factor: Tensor, state: Tensor, out: Tensor, *, select: bool) -> None:
    """``out = added + factor * state``, with a factor of 0 cutting where ``select``."""
    torch.addcmul(added, factor, state, out=out)
    if select:
        torch.where(factor == 0, added, out, out=out)


def log_depth_scan(u: Tensor, v: Tensor, carry: Tensor, forward: bool) -> Tensor:
    """Scan in log2(T) whole-tensor steps: few operations, which a compiler can trace, differentiate and fuse.

    Takes and returns what :func:`blocked_scan` does.
    """
    steps = u.shape[0]
    if steps == 0:
        return u.clone()
    if forward:
        return log_depth_scan(u.flip(0), v.flip(0), carry, False).flip(0)
    reach = 1
    while reach < steps:
        near_u, near_v = u[:-reach], v[:-reach]
        cut = near_v == 0
        joined = torch.where(cut, near_u, near_u + near_v * u[reach:])
        factor = torch.where(cut, 0.0, near_v * v[reach:])
        u, v = torch.cat((joined, u[-reach:])), torch.cat((factor, v[-reach:]))
        reach *= 2
    return torch.where(v == 0, u, u + v * carry)
