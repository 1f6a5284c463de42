"""One Triton kernel for all recurrences.

A program owns ``BN`` rows and walks along time in tiles of ``BT`` steps, in the order of the recurrence: position ``s``
counts from the first processed step, so that ``s = t`` for the forward kinds and ``s = T - 1 - t`` for the others. In each
tile it makes the coefficients from the inputs, combines them by an associative scan and adds what the tile before left.
Few long rows are split into parts (grid axis 1): one launch reduces every part to its (u, v), a second one folds the
parts before its own and writes. Both are deterministic.

Boundaries are selected, never multiplied: a factor of 0 cuts, so that a NaN of the next episode stays there.
"""

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

#: What a launch does: everything at once, or the two halves of a split over the sequence.
WHOLE, REDUCE, APPLY = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@triton.jit
def _then(u1, v1, u2, v2):
    """First x -> u1 + v1 * x, then x -> u2 + v2 * x."""
    cut = v2 == 0
    return tl.where(cut, u2, u2 + v2 * u1), tl.where(cut, v2, v2 * v1)


@triton.jit
def _latest(value1, known1, value2, known2):
    """The later of two values that is known."""
    return tl.where(known2 != 0, value2, value1), known1 | known2


@triton.jit
def _load(P, S, FIELD: tl.constexpr, t0, n0, dt, dn, keep):
    """A tile of an input; 0 where not ``keep``. Offsets within the tile are small, the tile's place is 64-bit."""
    place = P[FIELD] + t0 * S[2 * FIELD] + n0 * S[2 * FIELD + 1]
    return tl.load(place + (dt * S[2 * FIELD] + dn * S[2 * FIELD + 1]), mask=keep, other=0)


@triton.jit
def _load_rows(P, S, FIELD: tl.constexpr, n0, dn, keep):
    """One number a row, [1, BN]."""
    place = P[FIELD] + n0 * S[2 * FIELD + 1]
    return tl.load(place + dn * S[2 * FIELD + 1], mask=keep, other=0).to(tl.float32)


@triton.jit
def _number(P, S, FIELD: tl.constexpr, scalar, t0, n0, dt, dn, keep):
    """A parameter given as a tensor, or else as a number."""
    if P[FIELD] is not None:
        found = _load(P, S, FIELD, t0, n0, dt, dn, keep).to(tl.float32)
    else:
        found = scalar
    return found


@triton.jit
def _flag(P, S, FIELD: tl.constexpr, t0, n0, dt, dn, keep):
    if P[FIELD] is not None:
        found = _load(P, S, FIELD, t0, n0, dt, dn, keep) != 0
    else:
        found = keep & False
    return found


@triton.jit
def _log_ratio(P, S, t0, n0, dt, dn, keep):
    """Logarithm of the importance ratio."""
    found = _load(P, S, LOG_PROBS, t0, n0, dt, dn, keep).to(tl.float32)
    if P[BEHAVIOR] is not None:
        found -= _load(P, S, BEHAVIOR, t0, n0, dt, dn, keep).to(tl.float32)
    return found


@triton.jit
def _own_factor(P, S, t0, n0, dt, dn, keep, gamma, lam, log_c, KIND: tl.constexpr):
    """Factor between a step's state and what the next processed step receives; 1 where not ``keep`` or masked."""
    counts = keep
    if P[MASK] is not None:
        counts = keep & _flag(P, S, MASK, t0, n0, dt, dn, keep)
    factor = _number(P, S, LAM, lam, t0, n0, dt, dn, counts)
    if KIND == RETRACE:
        factor *= tl.exp(tl.minimum(_log_ratio(P, S, t0, n0, dt, dn, counts), log_c))
    else:
        factor *= _number(P, S, GAMMA, gamma, t0, n0, dt, dn, counts)
        terminated = _flag(P, S, TERMINATED, t0, n0, dt, dn, counts)
        truncated = _flag(P, S, TRUNCATED, t0, n0, dt, dn, counts)
        factor = tl.where(terminated | truncated, 0.0, factor)
    return tl.where(counts, factor, 1.0)


@triton.jit
def _expectation(P, S, t0, n0, dt, dn, keep, ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr):
    """Expected value of the successor over its actions, a tile."""
    action = tl.arange(0, ACTION_BLOCK)[None, None, :]
    total = tl.zeros(keep.shape, tl.float32)
    for first in tl.static_range(0, ACTIONS, ACTION_BLOCK):
        inside = keep[:, :, None] & (first + action < ACTIONS)
        q_place = P[NEXT_VALUES] + t0 * S[2 * NEXT_VALUES] + n0 * S[2 * NEXT_VALUES + 1]
        q_offset = (dt * S[2 * NEXT_VALUES] + dn * S[2 * NEXT_VALUES + 1])[:, :, None]
        q = tl.load(q_place + (q_offset + (first + action) * S[ACTION_STRIDES]), mask=inside, other=0)
        p_place = P[NEXT_PROBS] + t0 * S[2 * NEXT_PROBS] + n0 * S[2 * NEXT_PROBS + 1]
        p_offset = (dt * S[2 * NEXT_PROBS] + dn * S[2 * NEXT_PROBS + 1])[:, :, None]
        p = tl.load(p_place + (p_offset + (first + action) * S[ACTION_STRIDES + 1]), mask=inside, other=0)
        total += tl.sum(q.to(tl.float32) * p.to(tl.float32), axis=2)
    return total


# Groups of GROUP = 4 steps that are neighbours in memory belong to one thread: 16-byte loads, and a scan over a quarter
# of the elements. Within a tile, index m = 4 g + j; memory order runs with j, the order of the recurrence against it in
# the backward kinds.


@triton.jit
def _split(x):
    """[4 G, BN] to four [G, BN], in memory order."""
    grouped = tl.permute(tl.reshape(x, [x.shape[0] // 4, 2, 2, x.shape[1]]), (0, 3, 1, 2))
    even, odd = tl.split(grouped)
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def _join(x0, x1, x2, x3):
    """The opposite of ``_split``."""
    both = tl.join(tl.join(x0, x2), tl.join(x1, x3))
    return tl.reshape(tl.permute(both, (0, 2, 3, 1)), [x0.shape[0] * 4, x0.shape[1]])


@triton.jit
def _moved(x, edge, FORWARD: tl.constexpr):
    """Each step's predecessor in the order of the recurrence; ``edge`` [G, BN] is that of each group's first step."""
    x0, x1, x2, x3 = _split(x)
    if FORWARD:
        found = _join(edge, x0, x1, x2)
    else:
        found = _join(x1, x2, x3, edge)
    return found


@triton.jit
def _previous(x, before, i):
    """The tile moved on by one position; ``before`` [BN] is what came before the tile."""
    index = tl.broadcast_to(tl.maximum(i - 1, 0), x.shape)
    return tl.where(i == 0, before[None, :], tl.gather(x, index, 0))


@triton.jit
def _end(x, i):
    """The last position of a tile, [BN]."""
    return tl.sum(tl.where(i == x.shape[0] - 1, x, 0.0), axis=0)


@triton.jit
def _apply(u, v, x):
    """u + v * x, where a factor of 0 cuts."""
    return tl.where(v == 0, u, u + v * x)


@triton.jit
def _following(
    P, S, value, s0, end, s, i, g, t0, n0, dt, dg, dn, live, row_ok, counts, nearest, GROUP: tl.constexpr
):  # fmt: skip
    """Value of the next step in time that isn't masked, and what the tile after this one needs for the same."""
    last = tl.zeros_like(dn).to(tl.float32)
    if P[LAST_VALUE] is not None:
        last = _load_rows(P, S, LAST_VALUE, n0, dn, row_ok)
    if P[MASK] is not None:
        latest, known = tl.associative_scan((tl.where(counts, value, 0.0), counts.to(tl.int32)), 0, _latest)
        latest = tl.where(known != 0, latest, nearest[None, :])
        found = _previous(latest, nearest, i)
        nearest = _end(latest, i)
    elif GROUP > 1:
        start = s0 + GROUP * g
        keep = (start > 0) & (start < end) & row_ok
        edge = _load(P, S, VALUES, t0 + GROUP, n0, dg, dn, keep).to(tl.float32)
        found = _moved(value, tl.where(start == 0, last, edge), False)
    else:
        found = _load(P, S, VALUES, t0 + 1, n0, dt, dn, live & (s > 0)).to(tl.float32)
        found = tl.where(s == 0, last, found)
    return found, nearest


@triton.jit
def _solve_tile(u, v, x, i, g, FORWARD: tl.constexpr, GROUP: tl.constexpr):
    """The scan within a tile, without (u, v) or with the state ``x`` before it.

    Returns:
        The state of each step, the state that each step receives, the composed (u, v) of the whole tile and its end state.
    """
    if GROUP > 1:
        if FORWARD:
            a0, a1, a2, a3 = _split(u)
            b0, b1, b2, b3 = _split(v)
        else:
            a3, a2, a1, a0 = _split(u)
            b3, b2, b1, b0 = _split(v)
        cu, cv = _then(a0, b0, a1, b1)
        cu, cv = _then(cu, cv, a2, b2)
        cu, cv = _then(cu, cv, a3, b3)
        cu, cv = tl.associative_scan((cu, cv), 0, _then)
        ends = _apply(cu, cv, x[None, :])
        before = _previous(ends, x, g)
        y0 = _apply(a0, b0, before)
        y1 = _apply(a1, b1, y0)
        y2 = _apply(a2, b2, y1)
        if FORWARD:
            state = _join(y0, y1, y2, _apply(a3, b3, y2))
            received = _join(before, y0, y1, y2)
        else:
            state = _join(_apply(a3, b3, y2), y2, y1, y0)
            received = _join(y2, y1, y0, before)
        end_u, end_v, end = _end(cu, g), _end(cv, g), _end(ends, g)
    else:
        u, v = tl.associative_scan((u, v), 0, _then)
        state = _apply(u, v, x[None, :])
        received = state
        end_u, end_v, end = _end(u, i), _end(v, i), _end(state, i)
    return state, received, end_u, end_v, end


@triton.jit
def _coefficients(
    P, S, data, value, successor, terminated, truncated, discount, trace, log_ratio, log_rho, log_c, KIND: tl.constexpr
):  # fmt: skip
    """(u, v) of each step: x -> u + v * x."""
    done = terminated | truncated
    if KIND == DISCOUNTED:
        u, v = data + discount * successor, discount
    elif KIND == TD_LAMBDA:
        u, v = data + discount * tl.where(done, 1.0, 1.0 - trace) * successor, discount * trace
    elif KIND == GAE:
        u, v = data + discount * successor - value, discount * trace
    elif KIND == RETRACE:
        u, v = data + discount * successor - value, discount
    else:
        u = tl.exp(tl.minimum(log_ratio, log_rho)) * (data + discount * successor - value)
        v = discount * trace * tl.exp(tl.minimum(log_ratio, log_c))
    return u, tl.where(done, 0.0, v)


@triton.jit
def _tile(
    P, S, OUT, OUT_S, s0, end, x, au, av, nearest, steps, n0, dn, row_ok, gamma, lam, log_rho, log_c, log_pg,
    KIND: tl.constexpr, FORWARD: tl.constexpr, STAGE: tl.constexpr, ACTIONS: tl.constexpr,
    ACTION_BLOCK: tl.constexpr, BT: tl.constexpr, GROUP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Process one tile from position ``s0``; returns the state after it and, for REDUCE, the composed (u, v)."""
    m = tl.arange(0, BT)[:, None]
    g = tl.arange(0, BT // GROUP)[:, None]  # groups, and where each starts in time
    if WIDE:
        m, g = m.to(tl.int64), g.to(tl.int64)
    if FORWARD:
        i, t0, dt, dg, back = m, tl.cast(s0, tl.int64), m, GROUP * g, -1
    else:  # positions count backward in time; within a group, memory order stays forward
        i = (m // GROUP) * GROUP + (GROUP - 1 - m % GROUP)
        t0, dt, dg, back = tl.cast(steps - GROUP - s0, tl.int64), m % GROUP - (m // GROUP) * GROUP, -GROUP * g, GROUP
    s = s0 + i
    live = (s0 + (m // GROUP) * GROUP < end) & row_ok  # the whole group: T is a multiple of GROUP
    counts = live
    if P[MASK] is not None:
        counts = live & _flag(P, S, MASK, t0, n0, dt, dn, live)
    data = _load(P, S, DATA, t0, n0, dt, dn, live).to(tl.float32)
    value = data
    if P[VALUES] is not None:
        if KIND != TD_LAMBDA or GROUP > 1 or P[MASK] is not None:
            value = _load(P, S, VALUES, t0, n0, dt, dn, live).to(tl.float32)
    if KIND >= LINEAR:
        u, v = data, value
    elif KIND == TRACES:
        u, v = data, tl.full(data.shape, 1.0, tl.float32)
    else:
        terminated = _flag(P, S, TERMINATED, t0, n0, dt, dn, live)
        truncated = _flag(P, S, TRUNCATED, t0, n0, dt, dn, live)
        discount = _number(P, S, GAMMA, gamma, t0, n0, dt, dn, live)
        trace = _number(P, S, LAM, lam, t0, n0, dt, dn, live)
        log_ratio = data
        if P[LOG_PROBS] is not None:
            log_ratio = _log_ratio(P, S, t0, n0, dt, dn, live)
        if KIND == DISCOUNTED:
            successor = tl.zeros_like(data)
        elif P[NEXT_VALUES] is None:
            successor, nearest = _following(
                P, S, value, s0, end, s, i, g, t0, n0, dt, dg, dn, live, row_ok, counts, nearest, GROUP
            )  # fmt: skip
        elif ACTIONS > 0:
            successor = _expectation(P, S, t0, n0, dt, dn, live, ACTIONS, ACTION_BLOCK)
        else:
            successor = _load(P, S, NEXT_VALUES, t0, n0, dt, dn, live).to(tl.float32)
        if P[TRUNCATED_VALUES] is not None:
            cut = truncated & (terminated == 0)
            at_cut = _load(P, S, TRUNCATED_VALUES, t0, n0, dt, dn, live & cut).to(tl.float32)
            successor = tl.where(cut, at_cut, successor)
        successor = tl.where(terminated, 0.0, successor)
        u, v = _coefficients(
            P, S, data, value, successor, terminated, truncated, discount, trace, log_ratio, log_rho, log_c, KIND
        )  # fmt: skip
    u = tl.where(counts, u, 0.0)
    v = tl.where(counts, v, 1.0)
    if (KIND == RETRACE) or (KIND == TRACES):
        if GROUP > 1:
            start = s0 + GROUP * g
            keep = (start > 0) & (start < end) & row_ok
            edge = _own_factor(P, S, t0 + back, n0, dg, dn, keep, gamma, lam, log_c, KIND)
            entry = _moved(_own_factor(P, S, t0, n0, dt, dn, live, gamma, lam, log_c, KIND), edge, FORWARD)
        else:
            entry = _own_factor(P, S, t0 + back, n0, dt, dn, live & (s > 0), gamma, lam, log_c, KIND)
        v = tl.where(live, v * entry, 1.0)
        v = tl.where(live & (entry == 0), 0.0, v)

    state, received, end_u, end_v, end_x = _solve_tile(u, v, x, i, g, FORWARD, GROUP)
    if STAGE == REDUCE:
        au, av = _then(au, av, end_u, end_v)
    else:
        first = state
        if (KIND == VTRACE) or (KIND == RETRACE):
            first = value + state
        _store(OUT[0], OUT_S[0], OUT_S[1], t0, n0, dt, dn, live, tl.where(counts, first, 0.0))
        if OUT[1] is not None:
            if KIND == GAE:
                second = value + state
            elif KIND == RETRACE:
                second = tl.exp(tl.minimum(log_ratio, log_pg)) * state
            else:
                if GROUP == 1:
                    received = _previous(state, x, i)
                factor = tl.where(terminated | truncated, 0.0, discount)
                onward = _apply(discount * successor, factor, received)
                second = tl.exp(tl.minimum(log_ratio, log_pg)) * (data + onward - value)
            _store(OUT[1], OUT_S[2], OUT_S[3], t0, n0, dt, dn, live, tl.where(counts, second, 0.0))
        x = end_x
    return x, au, av, nearest


@triton.jit
def _store(pointer, time_stride, row_stride, t0, n0, dt, dn, keep, found):
    place = pointer + t0 * time_stride + n0 * row_stride
    tl.store(place + (dt * time_stride + dn * row_stride), found, mask=keep)


@triton.jit
def _initial(P, S, steps, n0, dn, row_ok, KIND: tl.constexpr):
    """State before the first position, [BN]."""
    if P[CARRY] is not None:
        x = _load_rows(P, S, CARRY, n0, dn, row_ok)
    elif (KIND == TD_LAMBDA) or (KIND == DISCOUNTED):
        if P[LAST_VALUE] is not None:
            x = _load_rows(P, S, LAST_VALUE, n0, dn, row_ok)
        elif P[NEXT_VALUES] is not None:
            last = tl.cast(steps - 1, tl.int64)
            x = _load(P, S, NEXT_VALUES, last, n0, tl.zeros_like(dn), dn, row_ok).to(tl.float32)
        else:
            x = tl.zeros_like(dn).to(tl.float32)
    else:
        x = tl.zeros_like(dn).to(tl.float32)
    return tl.sum(x, axis=0)


@triton.jit
def _fold(aggregates, part, parts, rows, n0, dn, row_ok, x, PART_BLOCK: tl.constexpr):
    """State before a part: the initial state taken through all parts before it."""
    p = tl.arange(0, PART_BLOCK)[:, None]
    keep = (p < part) & row_ok
    place = aggregates + n0 + (p * tl.cast(rows, tl.int64) + dn)
    u = tl.load(place, mask=keep, other=0.0)
    v = tl.load(place + tl.cast(parts, tl.int64) * rows, mask=keep, other=1.0)
    u, v = tl.associative_scan((u, v), 0, _then)
    u, v = _end(u, p), _end(v, p)
    return tl.where(v == 0, u, u + v * x)


@triton.jit
def scan_kernel(
    P, S, OUT, OUT_S, aggregates, steps, rows, part_steps, parts, gamma, lam, log_rho, log_c, log_pg,
    KIND: tl.constexpr, FORWARD: tl.constexpr, STAGE: tl.constexpr, SINGLE: tl.constexpr,
    ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr, BT: tl.constexpr, BN: tl.constexpr,
    GROUP: tl.constexpr, PART_BLOCK: tl.constexpr, PIPELINE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Solve one recurrence for ``BN`` rows (grid axis 0) and one part of the steps (grid axis 1).

    Args:
        P: Pointers of the inputs in the order of ``Inputs``, ``None`` where absent.
        S: Their strides: time and row of each, then those over actions.
        OUT: Pointers of the first result, the second and the final carry; ``None`` where not wanted.
        OUT_S: Strides of the first two results: time and row of each.
        aggregates: [2, parts, rows]: (u, v) of each part; written by REDUCE, read by APPLY.
        steps, rows: T and N.
        part_steps: Steps of a part, a multiple of ``BT`` unless there is one part.
        parts: Number of parts.
        gamma, lam, log_rho, log_c, log_pg: Scalar parameters; clips of ratios as logarithms.
        KIND, FORWARD: The recurrence and its direction.
        STAGE: WHOLE, REDUCE or APPLY.
        SINGLE: Whether a part is a single tile.
        ACTIONS, ACTION_BLOCK: Actions of the successors (0: none) and how many are read at once.
        BT, BN: Size of a tile, powers of two.
        GROUP: 4 where four neighbouring steps are read at once (time contiguous, T a multiple of 4), else 1.
        PART_BLOCK: Power of two that is at least ``parts``.
        PIPELINE: Tiles in flight.
        WIDE: Whether offsets within a tile need 64 bits.
    """
    n0 = tl.program_id(0).to(tl.int64) * BN
    part = tl.program_id(1)
    dn = tl.arange(0, BN)[None, :]
    if WIDE:
        dn = dn.to(tl.int64)
    row_ok = n0 + dn < rows
    begin = part * part_steps
    end = tl.minimum(begin + part_steps, steps)
    au = tl.zeros([BN], tl.float32)
    av = tl.full([BN], 1.0, tl.float32)
    nearest = tl.zeros([BN], tl.float32)
    if P[MASK] is not None and P[LAST_VALUE] is not None:
        nearest = tl.sum(_load_rows(P, S, LAST_VALUE, n0, dn, row_ok), axis=0)
    x = tl.zeros([BN], tl.float32)
    if STAGE != REDUCE:
        x = _initial(P, S, steps, n0, dn, row_ok, KIND)
    if STAGE == APPLY:
        x = _fold(aggregates, part, parts, rows, n0, dn, row_ok, x, PART_BLOCK)
    if SINGLE:
        x, au, av, nearest = _tile(
            P, S, OUT, OUT_S, begin, end, x, au, av, nearest, steps, n0, dn, row_ok, gamma, lam, log_rho, log_c, log_pg,
            KIND, FORWARD, STAGE, ACTIONS, ACTION_BLOCK, BT, GROUP, WIDE,
        )  # fmt: skip
    else:
        for s0 in tl.range(begin, end, BT, num_stages=PIPELINE):
            x, au, av, nearest = _tile(
                P, S, OUT, OUT_S, s0, end, x, au, av, nearest, steps, n0, dn, row_ok, gamma, lam, log_rho, log_c, log_pg,
                KIND, FORWARD, STAGE, ACTIONS, ACTION_BLOCK, BT, GROUP, WIDE,
            )  # fmt: skip
    row = n0 + tl.arange(0, BN)
    if STAGE == REDUCE:
        place = aggregates + part * tl.cast(rows, tl.int64) + row
        tl.store(place, au, mask=row < rows)
        tl.store(place + tl.cast(parts, tl.int64) * rows, av, mask=row < rows)
    elif OUT[2] is not None:
        if (KIND == RETRACE) or (KIND == TRACES):
            if FORWARD:
                edge = tl.cast(steps - 1, tl.int64)
            else:
                edge = tl.zeros([], tl.int64)
            own = _own_factor(P, S, edge, n0, tl.zeros_like(dn), dn, row_ok, gamma, lam, log_c, KIND)
            factor = tl.sum(own, axis=0)
            x = tl.where(factor == 0, 0.0, factor * x)
        tl.store(OUT[2] + row, x, mask=(row < rows) & (part == parts - 1))
