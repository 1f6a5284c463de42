"""Parts of the Triton kernel: reading and writing the steps that a thread owns, and the scan over all threads.

A tile is ``BT`` steps of ``BN`` rows, cut into G = BT / GROUP groups of neighbouring steps. A group of one row belongs
to one thread: everything about a tile is a tuple of GROUP arrays [G, BN], the k-th of which holds the k-th step of each
group in the order of the recurrence. So the scan within a group needs no communication, and all loads are under way at
once.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, assignment"

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

#: Parts of a place, as ``place_tile`` makes it: position and time of the tile's first processed step and its first row
#: (64 bits where they reach into memory); offsets in time of the groups' first steps, [G, 1], and of the rows, [1, BN];
#: which steps exist, a tuple; and for groups that are read as vectors the same in the order of memory, [BT, .].
S0, T0, N0, DT, DN, KEEP, VECTOR_T0, VECTOR_DT, VECTOR_KEEP = (tl.constexpr(index) for index in range(9))


@triton.jit
def place_tile(
    s0, end, steps, n0, dn, row_ok,
    FORWARD: tl.constexpr, FULL: tl.constexpr, BT: tl.constexpr, GROUP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Where the tile from position ``s0`` on lies; no step at or behind position ``end`` exists."""
    start = tl.arange(0, BT // GROUP)[:, None] * GROUP
    member = tl.arange(0, BT)[:, None]
    vector_start = member // GROUP * GROUP
    every = tl.full([BT // GROUP, dn.shape[1]], True, tl.int1)
    vector_keep = tl.full([BT, dn.shape[1]], True, tl.int1)
    keep = ()
    for k in tl.static_range(GROUP):
        if FULL:
            keep = keep + (every,)
        else:
            keep = keep + ((s0 + start + k < end) & row_ok,)
    if not FULL:
        vector_keep = (s0 + vector_start < end) & row_ok
    if FORWARD:
        t0 = tl.cast(s0, tl.int64)
        vector_t0, dt, vector_dt = t0, start, member
    else:
        t0 = tl.cast(steps - 1 - s0, tl.int64)
        vector_t0, dt, vector_dt = tl.cast(steps - GROUP - s0, tl.int64), -start, member % GROUP - vector_start
    if WIDE:
        dt, vector_dt = dt.to(tl.int64), vector_dt.to(tl.int64)
    return s0, t0, n0, dt, dn, keep, vector_t0, vector_dt, vector_keep


@triton.jit
def then(u1, v1, u2, v2):
    """First x -> u1 + v1 * x, then x -> u2 + v2 * x."""
    cut = v2 == 0
    return tl.where(cut, u2, u2 + v2 * u1), tl.where(cut, v2, v2 * v1)


@triton.jit
def apply(u, v, x):
    """Give u + v * x, where a factor of 0 cuts."""
    return tl.where(v == 0, u, u + v * x)


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
def split_groups(x, FORWARD: tl.constexpr):
    """[4 G, BN] in the order of memory to a group's four steps in the order of the recurrence, each [G, BN]."""
    grouped = tl.permute(tl.reshape(x, [x.shape[0] // 4, 2, 2, x.shape[1]]), (0, 3, 1, 2))
    even, odd = tl.split(grouped)
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    if FORWARD:
        found = (x0, x1, x2, x3)
    else:
        found = (x3, x2, x1, x0)
    return found


@triton.jit
def join_groups(x, FORWARD: tl.constexpr):
    """The opposite of ``split_groups``."""
    if FORWARD:
        both = tl.join(tl.join(x[0], x[2]), tl.join(x[1], x[3]))
    else:
        both = tl.join(tl.join(x[3], x[1]), tl.join(x[2], x[0]))
    return tl.reshape(tl.permute(both, (0, 2, 3, 1)), [x[0].shape[0] * 4, x[0].shape[1]])


@triton.jit
def _vector_offsets(at, time, row):
    """Offsets of a tile and within it, in the order of memory; strides of rows are multiples of 4 with VECTOR."""
    base = tl.multiple_of(at[VECTOR_T0] * time + at[N0] * row, 4)
    return base, at[VECTOR_DT] * time + tl.multiple_of(at[DN] * row, [4, 4])


@triton.jit
def read(P, S, FIELD: tl.constexpr, at, keep, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr):
    """An input at the steps of a tile; 0 where not ``keep``. With VECTOR, ``keep`` is that of the tile."""
    time, row = time_and_row(S, FIELD)
    found = ()
    if VECTOR:
        base, offset = _vector_offsets(at, time, row)
        found = split_groups(tl.load(P[FIELD] + base + offset, mask=at[VECTOR_KEEP], other=0), FORWARD)
    else:
        offset = at[DT] * time + at[DN] * row
        for k in tl.static_range(GROUP):
            pointer = P[FIELD] + ((at[T0] + (k if FORWARD else -k)) * time + at[N0] * row)
            found = found + (tl.load(pointer + offset, mask=keep[k], other=0),)
    return found


@triton.jit
def floats(x, GROUP: tl.constexpr):
    """A tuple of arrays as float32."""
    found = ()
    for k in tl.static_range(GROUP):
        found = found + (x[k].to(tl.float32),)
    return found


@triton.jit
def read_floats(P, S, FIELD: tl.constexpr, at, keep, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr):
    """An input as float32."""
    return floats(read(P, S, FIELD, at, keep, FORWARD, GROUP, VECTOR), GROUP)


@triton.jit
def read_flags(P, S, FIELD: tl.constexpr, at, keep, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr):
    """A flag, false where absent or not ``keep``."""
    found = ()
    if P[FIELD] is not None:
        raw = read(P, S, FIELD, at, keep, FORWARD, GROUP, VECTOR)
        for k in tl.static_range(GROUP):
            found = found + (raw[k] != 0,)
    else:
        never = tl.full(keep[0].shape, False, tl.int1)
        for _ in tl.static_range(GROUP):
            found = found + (never,)
    return found


@triton.jit
def read_numbers(
    P, S, FIELD: tl.constexpr, number, at, keep, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """A parameter given as a tensor, or else as a number."""
    found = ()
    if P[FIELD] is not None:
        found = read_floats(P, S, FIELD, at, keep, FORWARD, GROUP, VECTOR)
    else:
        for _ in tl.static_range(GROUP):
            found = found + (number,)
    return found


@triton.jit
def read_log_ratios(P, S, at, keep, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr):
    """Logarithms of the importance ratios."""
    target = read(P, S, LOG_PROBS, at, keep, FORWARD, GROUP, VECTOR)
    found = ()
    if P[BEHAVIOR] is not None:
        acted = read(P, S, BEHAVIOR, at, keep, FORWARD, GROUP, VECTOR)
        for k in tl.static_range(GROUP):
            found = found + (target[k].to(tl.float32) - acted[k].to(tl.float32),)
    else:
        found = floats(target, GROUP)
    return found


@triton.jit
def read_rows(P, S, FIELD: tl.constexpr, n0, dn, keep):
    """One number a row, [1, BN]."""
    pointer = P[FIELD] + n0 * S[2 * FIELD + 1]
    return tl.load(pointer + dn * S[2 * FIELD + 1], mask=keep, other=0).to(tl.float32)


@triton.jit
def read_expectations(
    P, S, at, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr,
    ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr,
):  # fmt: skip
    """Expected values of the successors; ACTION_BLOCK, which divides ACTIONS and all strides, is read at once."""
    q_base = tl.multiple_of(at[T0] * S[2 * NEXT_VALUES] + at[N0] * S[2 * NEXT_VALUES + 1], ACTION_BLOCK)
    p_base = tl.multiple_of(at[T0] * S[2 * NEXT_PROBS] + at[N0] * S[2 * NEXT_PROBS + 1], ACTION_BLOCK)
    q_pointer, p_pointer = P[NEXT_VALUES] + q_base, P[NEXT_PROBS] + p_base
    q_action, p_action = S[ACTION_STRIDES], S[ACTION_STRIDES + 1]
    found = ()
    for k in tl.static_range(GROUP):
        dt, dn, keep = at[DT] + (k if FORWARD else -k), at[DN], at[KEEP][k]
        if VECTOR:  # lanes of a warp go along the last dimension but the actions: along time here
            dt, dn, keep = tl.trans(dt), tl.trans(dn), tl.trans(keep)
        total = tl.zeros(keep.shape, tl.float32)
        q_offset = tl.multiple_of(dt * S[2 * NEXT_VALUES] + dn * S[2 * NEXT_VALUES + 1], [ACTION_BLOCK, ACTION_BLOCK])
        p_offset = tl.multiple_of(dt * S[2 * NEXT_PROBS] + dn * S[2 * NEXT_PROBS + 1], [ACTION_BLOCK, ACTION_BLOCK])
        for first in tl.static_range(0, ACTIONS, ACTION_BLOCK):
            if ACTION_BLOCK == 1:
                q = tl.load(q_pointer + (q_offset + first * q_action), mask=keep, other=0).to(tl.float32)
                p = tl.load(p_pointer + (p_offset + first * p_action), mask=keep, other=0).to(tl.float32)
                total += q * p
            else:
                action = first + tl.arange(0, ACTION_BLOCK)[None, None, :]
                q = tl.load(q_pointer + (q_offset[:, :, None] + action * q_action), mask=keep[:, :, None], other=0)
                p = tl.load(p_pointer + (p_offset[:, :, None] + action * p_action), mask=keep[:, :, None], other=0)
                total += tl.sum(q.to(tl.float32) * p.to(tl.float32), axis=2)
        if VECTOR:
            total = tl.trans(total)
        found = found + (total,)
    return found


@triton.jit
def write(pointer, S, OUT_S, at, x, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr):
    """Write one result at the steps of a tile."""
    if OUT_S[0] is None:
        time, row = time_and_row(S, DATA)
    else:
        time, row = OUT_S[0], OUT_S[1]
    if VECTOR:
        base, offset = _vector_offsets(at, time, row)
        tl.store(pointer + base + offset, join_groups(x, FORWARD), mask=at[VECTOR_KEEP])
    else:
        offset = at[DT] * time + at[DN] * row
        for k in tl.static_range(GROUP):
            target = pointer + ((at[T0] + (k if FORWARD else -k)) * time + at[N0] * row)
            tl.store(target + offset, x[k], mask=at[KEEP][k])


@triton.jit
def tile_end(x):
    """The last of the groups, [BN]."""
    index = tl.arange(0, x.shape[0])[:, None]
    return tl.sum(tl.where(index == x.shape[0] - 1, x, 0), axis=0)


@triton.jit
def previous(x, before):
    """Each group's predecessor; ``before`` [BN] is that of the first one."""
    index = tl.arange(0, x.shape[0])[:, None]
    found = tl.gather(x, tl.broadcast_to(tl.maximum(index - 1, 0), x.shape), 0)
    return tl.where(index == 0, before[None, :], found)


@triton.jit
def _then_before(u1, v1, eu1, ev1, u2, v2, eu2, ev2):
    """``then``, and beside it what comes before the last of all: the same without that one."""
    u, v = then(u1, v1, u2, v2)
    eu, ev = then(u1, v1, eu2, ev2)
    return u, v, eu, ev


@triton.jit
def compose(u, v, GROUP: tl.constexpr):
    """(u, v) of each group, [G, BN]."""
    cu, cv = u[0], v[0]
    for k in tl.static_range(1, GROUP):
        cu, cv = then(cu, cv, u[k], v[k])
    return cu, cv


@triton.jit
def compose_all(u, v, GROUP: tl.constexpr):
    """(u, v) of a whole tile, [BN]."""
    cu, cv = compose(u, v, GROUP)
    if cu.shape[0] > 1:
        cu, cv = tl.associative_scan((cu, cv), 0, then)
    return tile_end(cu), tile_end(cv)


@triton.jit
def scan(u, v, GROUP: tl.constexpr):
    """(u, v) of all steps before each group, [G, BN], and of the whole tile, [BN]."""
    cu, cv = compose(u, v, GROUP)
    eu, ev = tl.zeros(cu.shape, tl.float32), tl.full(cv.shape, 1.0, tl.float32)
    if cu.shape[0] > 1:
        cu, cv, eu, ev = tl.associative_scan((cu, cv, eu, ev), 0, _then_before)
    return eu, ev, tile_end(cu), tile_end(cv)


@triton.jit
def solve(u, v, eu, ev, x, GROUP: tl.constexpr):
    """States of all steps from the state ``x`` [BN] before the tile and what ``scan`` gave.

    Returns:
        The state of each step, what each group receives, and the state after the tile.
    """
    received = apply(eu, ev, tl.broadcast_to(x[None, :], eu.shape))
    state = received
    states = ()
    for k in tl.static_range(GROUP):
        state = apply(u[k], v[k], state)
        states = states + (state,)
    return states, received, tile_end(state)
