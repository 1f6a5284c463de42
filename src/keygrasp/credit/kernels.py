"""One Triton kernel for all recurrences.

A program owns ``BN`` rows and walks along time in tiles of ``BT`` steps, in the order of the recurrence: position ``s``
counts from the first processed step, so that ``s = t`` for the forward kinds and ``s = T - 1 - t`` for the others. In
each
tile it makes the coefficients from the inputs, combines them by an associative scan and adds what the tile before left.
Few long rows are split into parts (grid axis 1): one launch reduces every part to its (u, v), a second one folds the
parts before its own and writes. Both are deterministic.

Boundaries are selected, never multiplied: a factor of 0 cuts, so that a NaN of the next episode stays there.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

from __future__ import annotations

import triton
import triton.language as tl

from keygrasp.credit.tiles import (
    CARRY,
    DATA,
    DISCOUNTED,
    GAE,
    GAMMA,
    LAM,
    LAST_VALUE,
    LINEAR,
    LOG_PROBS,
    MASK,
    NEXT_VALUES,
    RETRACE,
    TD_LAMBDA,
    TERMINATED,
    TRACES,
    TRUNCATED,
    TRUNCATED_VALUES,
    VALUES,
    VTRACE,
    apply,
    expectation,
    following,
    load_flag,
    load_log_ratio,
    load_number,
    load_rows,
    load_tile,
    own_factor,
    solve_tile,
    then,
    tile_end,
    time_and_row,
)

#: What a launch does: everything at once, or the two halves of a split over the sequence.
WHOLE, REDUCE, APPLY = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


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
    live = (s0 + (m // GROUP) * GROUP < end) & row_ok  # the whole group: T is a multiple of GROUP
    if FORWARD:
        t0, dt, dg, back = tl.cast(s0, tl.int64), m, GROUP * g, -1
    else:  # positions count backward in time; within a group, memory order stays forward
        t0, dt, dg, back = tl.cast(steps - GROUP - s0, tl.int64), m % GROUP - (m // GROUP) * GROUP, -GROUP * g, GROUP
    counts = live
    if P[MASK] is not None:
        counts = live & load_flag(P, S, MASK, t0, n0, dt, dn, live)
    data = load_tile(P, S, DATA, t0, n0, dt, dn, live).to(tl.float32)
    value = data
    if (P[VALUES] is not None) and (KIND != TD_LAMBDA or GROUP > 1 or P[MASK] is not None):
        value = load_tile(P, S, VALUES, t0, n0, dt, dn, live).to(tl.float32)
    if KIND >= LINEAR:
        u, v = data, value
    elif KIND == TRACES:
        u, v = data, tl.full(data.shape, 1.0, tl.float32)
    else:
        terminated = load_flag(P, S, TERMINATED, t0, n0, dt, dn, live)
        truncated = load_flag(P, S, TRUNCATED, t0, n0, dt, dn, live)
        discount = load_number(P, S, GAMMA, gamma, t0, n0, dt, dn, live)
        trace = load_number(P, S, LAM, lam, t0, n0, dt, dn, live)
        log_ratio = data
        if P[LOG_PROBS] is not None:
            log_ratio = load_log_ratio(P, S, t0, n0, dt, dn, live)
        if KIND == DISCOUNTED:
            successor = tl.zeros_like(data)
        elif P[NEXT_VALUES] is None:
            successor, nearest = following(
                P, S, value, s0, end, g, t0, n0, back, dg, dn, row_ok, counts, nearest, GROUP
            )  # fmt: skip
        elif ACTIONS > 0:
            successor = expectation(P, S, t0, n0, dt, dn, live, ACTIONS, ACTION_BLOCK)
        else:
            successor = load_tile(P, S, NEXT_VALUES, t0, n0, dt, dn, live).to(tl.float32)
        if P[TRUNCATED_VALUES] is not None:
            cut = truncated & (terminated == 0)
            at_cut = load_tile(P, S, TRUNCATED_VALUES, t0, n0, dt, dn, live & cut).to(tl.float32)
            successor = tl.where(cut, at_cut, successor)
        successor = tl.where(terminated, 0.0, successor)
        u, v = _coefficients(
            P, S, data, value, successor, terminated, truncated, discount, trace, log_ratio, log_rho, log_c, KIND
        )  # fmt: skip
    u = tl.where(counts, u, 0.0)
    v = tl.where(counts, v, 1.0)
    if (KIND == RETRACE) or (KIND == TRACES):
        after = -1 if FORWARD else 1
        first = tl.cast(0, tl.int64) if FORWARD else tl.cast(steps - 1, tl.int64)
        entry = own_factor(P, S, t0 + after, n0, dt, dn, live & (t0 + dt != first), gamma, lam, log_c, KIND)
        v = tl.where(live, v * entry, 1.0)
        v = tl.where(live & (entry == 0), 0.0, v)

    state, received, end_u, end_v, end_x = solve_tile(u, v, x, g, FORWARD, GROUP)
    if STAGE == REDUCE:
        au, av = then(au, av, end_u, end_v)
    else:
        first = state
        if (KIND == VTRACE) or (KIND == RETRACE):
            first = value + state
        _store(OUT[0], S, OUT_S, t0, n0, dt, dn, live, tl.where(counts, first, 0.0))
        if OUT[1] is not None:
            if KIND == GAE:
                second = value + state
            elif KIND == RETRACE:
                second = tl.exp(tl.minimum(log_ratio, log_pg)) * state
            else:
                factor = tl.where(terminated | truncated, 0.0, discount)
                onward = apply(discount * successor, factor, received)
                second = tl.exp(tl.minimum(log_ratio, log_pg)) * (data + onward - value)
            _store(OUT[1], S, OUT_S, t0, n0, dt, dn, live, tl.where(counts, second, 0.0))
        x = end_x
    return x, au, av, nearest


@triton.jit
def _store(pointer, S, OUT_S, t0, n0, dt, dn, keep, found):
    if OUT_S[0] is None:
        time, row = time_and_row(S, DATA)
    else:
        time, row = OUT_S[0], OUT_S[1]
    place = pointer + (t0 * time + n0 * row)
    tl.store(place + (dt * time + dn * row), found, mask=keep)


@triton.jit
def _initial(P, S, steps, n0, dn, row_ok, KIND: tl.constexpr):
    """State before the first position, [BN]."""
    if P[CARRY] is not None:
        x = load_rows(P, S, CARRY, n0, dn, row_ok)
    elif (KIND == TD_LAMBDA) or (KIND == DISCOUNTED):
        if P[LAST_VALUE] is not None:
            x = load_rows(P, S, LAST_VALUE, n0, dn, row_ok)
        elif P[NEXT_VALUES] is not None:
            last = tl.cast(steps - 1, tl.int64)
            x = load_tile(P, S, NEXT_VALUES, last, n0, tl.zeros_like(dn), dn, row_ok).to(tl.float32)
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
    u, v = tl.associative_scan((u, v), 0, then)
    u, v = tile_end(u, p), tile_end(v, p)
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
        S: Their strides: time and row of each, ``None`` where they are those of the data; then those over actions.
        OUT: Pointers of the first result, the second and the final carry; ``None`` where not wanted.
        OUT_S: Strides of the first two results, time and row; likewise.
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
        nearest = tl.sum(load_rows(P, S, LAST_VALUE, n0, dn, row_ok), axis=0)
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
                P, S, OUT, OUT_S, s0, end, x, au, av, nearest, steps, n0, dn, row_ok, gamma, lam, log_rho, log_c,
                log_pg,
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
            own = own_factor(P, S, edge, n0, tl.zeros_like(dn), dn, row_ok, gamma, lam, log_c, KIND)
            factor = tl.sum(own, axis=0)
            x = tl.where(factor == 0, 0.0, factor * x)
        tl.store(OUT[2] + row, x, mask=(row < rows) & (part == parts - 1))
