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
    if P[MASK] is not None:
        counts = keep & _flag(P, S, MASK, t0, n0, dt, dn, keep)
    else:
        counts = keep
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


@triton.jit
def _following(P, S, s, i, t0, n0, dt, dn, live, row_ok, counts, nearest):
    """Value of the next step in time that isn't masked, and what the tile after this one needs for the same."""
    if P[LAST_VALUE] is not None:
        last = _load_rows(P, S, LAST_VALUE, n0, dn, row_ok)
    else:
        last = tl.zeros_like(dn).to(tl.float32)
    if P[MASK] is None:
        value = _load(P, S, VALUES, t0 + 1, n0, dt, dn, live & (s > 0)).to(tl.float32)
        value = tl.where(s == 0, last, value)
    else:
        own = _load(P, S, VALUES, t0, n0, dt, dn, counts).to(tl.float32)
        latest, known = tl.associative_scan((own, counts.to(tl.int32)), 0, _latest)
        latest = tl.where(known != 0, latest, nearest[None, :])
        value = _previous(latest, nearest, i)
        nearest = _end(latest, i)
    return value, nearest


@triton.jit
def _previous(x, before, i):
    """The tile moved on by one position; ``before`` is what came before the tile."""
    index = tl.broadcast_to(tl.maximum(i - 1, 0), x.shape)
    return tl.where(i == 0, before[None, :], tl.gather(x, index, 0))


@triton.jit
def _end(x, i):
    """The last position of a tile, [BN]."""
    return tl.sum(tl.where(i == x.shape[0] - 1, x, 0.0), axis=0)


@triton.jit
def _tile(
    P, S, O, OS, s0, end, x, au, av, nearest, steps, n0, dn, row_ok, gamma, lam, log_rho, log_c, log_pg,
    KIND: tl.constexpr, FORWARD: tl.constexpr, STAGE: tl.constexpr,
    ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr, BT: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Process one tile from position ``s0``; returns the state after it and, for REDUCE, the composed (u, v)."""
    i = tl.arange(0, BT)[:, None]
    if WIDE:
        i = i.to(tl.int64)
    s = s0 + i
    live = (s < end) & row_ok
    if FORWARD:
        t0, dt, back = tl.cast(s0, tl.int64), i, -1
    else:
        t0, dt, back = tl.cast(steps - 1 - s0, tl.int64), -i, 1
    counts = live
    if P[MASK] is not None:
        counts = live & _flag(P, S, MASK, t0, n0, dt, dn, live)
    data = _load(P, S, DATA, t0, n0, dt, dn, live).to(tl.float32)
    if P[VALUES] is not None:
        value = _load(P, S, VALUES, t0, n0, dt, dn, live).to(tl.float32)

    # Coefficients: x -> u + v * x at each step that counts.
    if KIND >= LINEAR:
        u, v = data, value
    elif KIND == TRACES:
        u, v = data, tl.full(data.shape, 1.0, tl.float32)
    else:
        terminated = _flag(P, S, TERMINATED, t0, n0, dt, dn, live)
        truncated = _flag(P, S, TRUNCATED, t0, n0, dt, dn, live)
        done = terminated | truncated
        discount = _number(P, S, GAMMA, gamma, t0, n0, dt, dn, live)
        if KIND == DISCOUNTED:
            successor = tl.zeros_like(data)
        elif P[NEXT_VALUES] is None:
            successor, nearest = _following(P, S, s, i, t0, n0, dt, dn, live, row_ok, counts, nearest)
        elif ACTIONS > 0:
            successor = _expectation(P, S, t0, n0, dt, dn, live, ACTIONS, ACTION_BLOCK)
        else:
            successor = _load(P, S, NEXT_VALUES, t0, n0, dt, dn, live).to(tl.float32)
        if P[TRUNCATED_VALUES] is not None:
            cut = truncated & (terminated == 0)
            successor = tl.where(
                cut, _load(P, S, TRUNCATED_VALUES, t0, n0, dt, dn, live & cut).to(tl.float32), successor
            )
        successor = tl.where(terminated, 0.0, successor)
        if KIND == DISCOUNTED:
            u = data + discount * successor
            v = discount
        elif KIND == TD_LAMBDA:
            trace = _number(P, S, LAM, lam, t0, n0, dt, dn, live)
            u = data + discount * tl.where(done, 1.0, 1.0 - trace) * successor
            v = discount * trace
        elif KIND == GAE:
            u = data + discount * successor - value
            v = discount * _number(P, S, LAM, lam, t0, n0, dt, dn, live)
        elif KIND == RETRACE:
            u = data + discount * successor - value
            v = discount
        else:
            log_ratio = _log_ratio(P, S, t0, n0, dt, dn, live)
            u = tl.exp(tl.minimum(log_ratio, log_rho)) * (data + discount * successor - value)
            v = discount * _number(P, S, LAM, lam, t0, n0, dt, dn, live) * tl.exp(tl.minimum(log_ratio, log_c))
        v = tl.where(done, 0.0, v)
    u = tl.where(counts, u, 0.0)
    v = tl.where(counts, v, 1.0)
    if (KIND == RETRACE) or (KIND == TRACES):
        entry = _own_factor(P, S, t0 + back, n0, dt, dn, live & (s > 0), gamma, lam, log_c, KIND)
        v = tl.where(entry == 0, 0.0, v * entry)

    u, v = tl.associative_scan((u, v), 0, _then)
    if STAGE == REDUCE:
        au, av = _then(au, av, _end(u, i), _end(v, i))
    else:
        state = tl.where(v == 0, u, u + v * x[None, :])
        first = state
        if (KIND == VTRACE) or (KIND == RETRACE):
            first = value + state
        _store(O[0], OS[0], OS[1], t0, n0, dt, dn, live, tl.where(counts, first, 0.0))
        if O[1] is not None:
            if KIND == GAE:
                second = value + state
            elif KIND == RETRACE:
                second = tl.exp(tl.minimum(_log_ratio(P, S, t0, n0, dt, dn, live), log_pg)) * state
            else:
                factor = tl.where(done, 0.0, discount)
                onward = tl.where(factor == 0, 0.0, factor * _previous(state, x, i))
                second = tl.exp(tl.minimum(log_ratio, log_pg)) * (data + discount * successor + onward - value)
            _store(O[1], OS[2], OS[3], t0, n0, dt, dn, live, tl.where(counts, second, 0.0))
        x = _end(state, i)
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
    P, S, O, OS, aggregates, steps, rows, part_steps, parts, gamma, lam, log_rho, log_c, log_pg,
    KIND: tl.constexpr, FORWARD: tl.constexpr, STAGE: tl.constexpr, SINGLE: tl.constexpr,
    ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr, BT: tl.constexpr, BN: tl.constexpr,
    PART_BLOCK: tl.constexpr, PIPELINE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Solve one recurrence for ``BN`` rows (grid axis 0) and one part of the steps (grid axis 1).

    Args:
        P: Pointers of the inputs in the order of ``Inputs``, ``None`` where absent.
        S: Their strides: time and row of each, then those over actions.
        O: Pointers of the first result, the second and the final carry; ``None`` where not wanted.
        OS: Strides of the first two results: time and row of each.
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
            P, S, O, OS, begin, end, x, au, av, nearest, steps, n0, dn, row_ok, gamma, lam, log_rho, log_c, log_pg,
            KIND, FORWARD, STAGE, ACTIONS, ACTION_BLOCK, BT, WIDE,
        )  # fmt: skip
    else:
        for s0 in tl.range(begin, end, BT, num_stages=PIPELINE):
            x, au, av, nearest = _tile(
                P, S, O, OS, s0, end, x, au, av, nearest, steps, n0, dn, row_ok, gamma, lam, log_rho, log_c, log_pg,
                KIND, FORWARD, STAGE, ACTIONS, ACTION_BLOCK, BT, WIDE,
            )  # fmt: skip
    row = n0 + tl.arange(0, BN)
    if STAGE == REDUCE:
        place = aggregates + part * tl.cast(rows, tl.int64) + row
        tl.store(place, au, mask=row < rows)
        tl.store(place + tl.cast(parts, tl.int64) * rows, av, mask=row < rows)
    elif O[2] is not None:
        if (KIND == RETRACE) or (KIND == TRACES):
            if FORWARD:
                edge = tl.cast(steps - 1, tl.int64)
            else:
                edge = tl.zeros([], tl.int64)
            own = _own_factor(P, S, edge, n0, tl.zeros_like(dn), dn, row_ok, gamma, lam, log_c, KIND)
            factor = tl.sum(own, axis=0)
            x = tl.where(factor == 0, 0.0, factor * x)
        tl.store(O[2] + row, x, mask=(row < rows) & (part == parts - 1))
