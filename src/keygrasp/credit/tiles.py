"""Parts of the Triton kernel: reading tiles of the inputs, and the scan within a tile."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from keygrasp.credit.problem import Inputs, Kind

_FIELD = {name: tl.constexpr(index) for index, name in enumerate(Inputs._fields)}
DATA, VALUES, NEXT_VALUES, LAST_VALUE = (_FIELD[n] for n in ("data", "values", "next_values", "last_value"))
TRUNCATED_VALUES, TERMINATED, TRUNCATED = (_FIELD[n] for n in ("truncated_values", "terminated", "truncated"))
MASK, GAMMA, LAM, CARRY = (_FIELD[n] for n in ("mask", "gamma", "lam", "carry"))
LOG_PROBS, BEHAVIOR, NEXT_PROBS = (_FIELD[n] for n in ("log_probs", "behavior_log_probs", "next_probs"))
#: Position of the strides over actions (of next_values, then of next_probs) behind the two strides of each input.
ACTION_STRIDES = tl.constexpr(2 * len(Inputs._fields))

GAE, VTRACE, RETRACE = tl.constexpr(Kind.GAE.value), tl.constexpr(Kind.VTRACE.value), tl.constexpr(Kind.RETRACE.value)
TD_LAMBDA, DISCOUNTED = tl.constexpr(Kind.TD_LAMBDA.value), tl.constexpr(Kind.DISCOUNTED.value)
TRACES, LINEAR = tl.constexpr(Kind.TRACES.value), tl.constexpr(Kind.LINEAR.value)


@triton.jit
def then(u1, v1, u2, v2):
    """First x -> u1 + v1 * x, then x -> u2 + v2 * x."""
    cut = v2 == 0
    return tl.where(cut, u2, u2 + v2 * u1), tl.where(cut, v2, v2 * v1)


@triton.jit
def latest_known(value1, known1, value2, known2):
    """The later of two values that is known."""
    return tl.where(known2 != 0, value2, value1), known1 | known2


@triton.jit
def time_and_row(S, FIELD: tl.constexpr):
    """Strides of an input; where they are those of the data, they are ``None``, and offsets are computed once."""
    if S[2 * FIELD] is None:
        time, row = S[2 * DATA], S[2 * DATA + 1]
    else:
        time, row = S[2 * FIELD], S[2 * FIELD + 1]
    return time, row


@triton.jit
def load_tile(P, S, FIELD: tl.constexpr, t0, n0, dt, dn, keep):
    """A tile of an input; 0 where not ``keep``. Offsets within the tile are small, the tile's place is 64-bit."""
    time, row = time_and_row(S, FIELD)
    place = P[FIELD] + (t0 * time + n0 * row)
    return tl.load(place + (dt * time + dn * row), mask=keep, other=0)


@triton.jit
def load_rows(P, S, FIELD: tl.constexpr, n0, dn, keep):
    """One number a row, [1, BN]."""
    place = P[FIELD] + n0 * S[2 * FIELD + 1]
    return tl.load(place + dn * S[2 * FIELD + 1], mask=keep, other=0).to(tl.float32)


@triton.jit
def load_number(P, S, FIELD: tl.constexpr, scalar, t0, n0, dt, dn, keep):
    """A parameter given as a tensor, or else as a number."""
    if P[FIELD] is not None:
        found = load_tile(P, S, FIELD, t0, n0, dt, dn, keep).to(tl.float32)
    else:
        found = scalar
    return found


@triton.jit
def load_flag(P, S, FIELD: tl.constexpr, t0, n0, dt, dn, keep):
    """A flag that is false where absent or not ``keep``."""
    if P[FIELD] is not None:
        found = load_tile(P, S, FIELD, t0, n0, dt, dn, keep) != 0
    else:
        found = keep & False
    return found


@triton.jit
def load_log_ratio(P, S, t0, n0, dt, dn, keep):
    """Logarithm of the importance ratio."""
    found = load_tile(P, S, LOG_PROBS, t0, n0, dt, dn, keep).to(tl.float32)
    if P[BEHAVIOR] is not None:
        found -= load_tile(P, S, BEHAVIOR, t0, n0, dt, dn, keep).to(tl.float32)
    return found


@triton.jit
def own_factor(P, S, t0, n0, dt, dn, keep, gamma, lam, log_c, KIND: tl.constexpr):
    """Factor between a step's state and what the next processed step receives; 1 where not ``keep`` or masked."""
    counts = keep
    if P[MASK] is not None:
        counts = keep & load_flag(P, S, MASK, t0, n0, dt, dn, keep)
    factor = load_number(P, S, LAM, lam, t0, n0, dt, dn, counts)
    if KIND == RETRACE:
        factor *= tl.exp(tl.minimum(load_log_ratio(P, S, t0, n0, dt, dn, counts), log_c))
    else:
        factor *= load_number(P, S, GAMMA, gamma, t0, n0, dt, dn, counts)
        terminated = load_flag(P, S, TERMINATED, t0, n0, dt, dn, counts)
        truncated = load_flag(P, S, TRUNCATED, t0, n0, dt, dn, counts)
        factor = tl.where(terminated | truncated, 0.0, factor)
    return tl.where(counts, factor, 1.0)


@triton.jit
def expectation(P, S, t0, n0, dt, dn, keep, ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr):
    """Expected value of the successor over its actions, a tile."""
    action = tl.arange(0, ACTION_BLOCK)[None, None, :]
    total = tl.zeros(keep.shape, tl.float32)
    for first in tl.static_range(0, ACTIONS, ACTION_BLOCK):
        inside = keep[:, :, None] & (first + action < ACTIONS)
        q_place = P[NEXT_VALUES] + (t0 * S[2 * NEXT_VALUES] + n0 * S[2 * NEXT_VALUES + 1])
        q_offset = (dt * S[2 * NEXT_VALUES] + dn * S[2 * NEXT_VALUES + 1])[:, :, None]
        q = tl.load(q_place + (q_offset + (first + action) * S[ACTION_STRIDES]), mask=inside, other=0)
        p_place = P[NEXT_PROBS] + (t0 * S[2 * NEXT_PROBS] + n0 * S[2 * NEXT_PROBS + 1])
        p_offset = (dt * S[2 * NEXT_PROBS] + dn * S[2 * NEXT_PROBS + 1])[:, :, None]
        p = tl.load(p_place + (p_offset + (first + action) * S[ACTION_STRIDES + 1]), mask=inside, other=0)
        total += tl.sum(q.to(tl.float32) * p.to(tl.float32), axis=2)
    return total


# Groups of GROUP = 4 steps that are neighbours in memory belong to one thread: 16-byte loads, and a scan over a quarter
# of the elements. Within a tile, index m = 4 g + j; memory order runs with j, the order of the recurrence against it in
# the backward kinds.


@triton.jit
def split_groups(x):
    """[4 G, BN] to four [G, BN], in memory order."""
    grouped = tl.permute(tl.reshape(x, [x.shape[0] // 4, 2, 2, x.shape[1]]), (0, 3, 1, 2))
    even, odd = tl.split(grouped)
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def join_groups(x0, x1, x2, x3):
    """The opposite of ``split_groups``."""
    both = tl.join(tl.join(x0, x2), tl.join(x1, x3))
    return tl.reshape(tl.permute(both, (0, 2, 3, 1)), [x0.shape[0] * 4, x0.shape[1]])


@triton.jit
def moved(x, edge, FORWARD: tl.constexpr, GROUP: tl.constexpr):
    """Each step's predecessor in the order of the recurrence; ``edge`` [G, BN] is that of each group's first step."""
    if GROUP == 1:
        found = edge
    else:
        x0, x1, x2, x3 = split_groups(x)
        if FORWARD:
            found = join_groups(edge, x0, x1, x2)
        else:
            found = join_groups(x1, x2, x3, edge)
    return found


@triton.jit
def previous(x, before, i):
    """The tile moved on by one position; ``before`` [BN] is what came before the tile."""
    index = tl.broadcast_to(tl.maximum(i - 1, 0), x.shape)
    return tl.where(i == 0, before[None, :], tl.gather(x, index, 0))


@triton.jit
def tile_end(x, i):
    """The last position of a tile, [BN]."""
    return tl.sum(tl.where(i == x.shape[0] - 1, x, 0), axis=0)


@triton.jit
def apply(u, v, x):
    """Give u + v * x, where a factor of 0 cuts."""
    return tl.where(v == 0, u, u + v * x)


@triton.jit
def following(
    P, S, value, s0, end, g, t0, n0, back, dg, dn, row_ok, counts, nearest, GROUP: tl.constexpr
):  # fmt: skip
    """Value of the next step in time that isn't masked, and what the tile after this one needs for the same."""
    last = tl.zeros_like(dn).to(tl.float32)
    if P[LAST_VALUE] is not None:
        last = load_rows(P, S, LAST_VALUE, n0, dn, row_ok)
    if P[MASK] is not None:  # groups are single steps here
        latest, known = tl.associative_scan((tl.where(counts, value, 0.0), counts.to(tl.int32)), 0, latest_known)
        latest = tl.where(known != 0, latest, nearest[None, :])
        found = previous(latest, nearest, g)
        nearest = tile_end(latest, g)
    else:
        start = s0 + GROUP * g
        keep = (start > 0) & (start < end) & row_ok
        edge = load_tile(P, S, VALUES, t0 + back, n0, dg, dn, keep).to(tl.float32)
        found = moved(value, tl.where(start == 0, last, edge), False, GROUP)
    return found, nearest


@triton.jit
def solve_tile(u, v, x, g, FORWARD: tl.constexpr, GROUP: tl.constexpr):
    """The scan within a tile, without (u, v) or with the state ``x`` before it.

    Returns:
        The state of each step, the state that each step receives, the composed (u, v) of the whole tile and its end
        state.
    """
    if GROUP > 1:
        if FORWARD:
            a0, a1, a2, a3 = split_groups(u)
            b0, b1, b2, b3 = split_groups(v)
        else:
            a3, a2, a1, a0 = split_groups(u)
            b3, b2, b1, b0 = split_groups(v)
        cu, cv = then(a0, b0, a1, b1)
        cu, cv = then(cu, cv, a2, b2)
        cu, cv = then(cu, cv, a3, b3)
        cu, cv = tl.associative_scan((cu, cv), 0, then)
        ends = apply(cu, cv, x[None, :])
        before = previous(ends, x, g)
        y0 = apply(a0, b0, before)
        y1 = apply(a1, b1, y0)
        y2 = apply(a2, b2, y1)
        if FORWARD:
            state = join_groups(y0, y1, y2, apply(a3, b3, y2))
            received = join_groups(before, y0, y1, y2)
        else:
            state = join_groups(apply(a3, b3, y2), y2, y1, y0)
            received = join_groups(y2, y1, y0, before)
    else:
        cu, cv = tl.associative_scan((u, v), 0, then)
        ends = apply(cu, cv, x[None, :])
        state = ends
        received = previous(state, x, g)
    return state, received, tile_end(cu, g), tile_end(cv, g), tile_end(ends, g)
