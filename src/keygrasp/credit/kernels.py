"""One Triton kernel for all recurrences.

A program owns ``BN`` rows and walks along time in tiles of ``BT`` steps, in the order of the recurrence: position ``s``
counts from the first processed step, so that ``s = t`` for the forward kinds and ``s = T - 1 - t`` for the others. In
each tile it makes the coefficients from the inputs, combines them by an associative scan and adds what the tile before
left. Few long rows are split into parts (grid axis 1): over two launches, of which the first reduces every part to its
(u, v) and the second goes on from those, or in one launch that looks back (``parts.py``). All of it is deterministic.

Boundaries are selected, never multiplied: a factor of 0 cuts, so that a NaN of the next episode stays there.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, assignment"

from __future__ import annotations

import triton
import triton.language as tl

from keygrasp.credit.parts import clear, fold, look_back
from keygrasp.credit.tiles import (
    CARRY,
    DATA,
    DISCOUNTED,
    DN,
    DT,
    GAE,
    GAMMA,
    KEEP,
    LAM,
    LAST_VALUE,
    LINEAR,
    LOG_PROBS,
    MASK,
    N0,
    NEXT_VALUES,
    RETRACE,
    S0,
    T0,
    TD_LAMBDA,
    TERMINATED,
    TRACES,
    TRUNCATED,
    TRUNCATED_VALUES,
    VALUES,
    VTRACE,
    apply,
    compose_all,
    latest_known,
    place_tile,
    previous,
    read,
    read_expectations,
    read_flags,
    read_floats,
    read_log_ratios,
    read_numbers,
    read_rows,
    scan,
    solve,
    then,
    tile_end,
    write,
)

#: What a launch does: everything at once; or the two halves of a split over the sequence; or a split in one pass, and
#: what has to come before that.
WHOLE, REDUCE, APPLY, CHAIN, CLEAR = (tl.constexpr(stage) for stage in range(5))
#: Position of the scalar parameters; clips of ratios are logarithms.
N_GAMMA, N_LAM, N_RHO, N_C, N_PG_RHO = (tl.constexpr(index) for index in range(5))
#: Position of what a step is made of.
X_DATA, X_VALUE, X_TERMINATED, X_TRUNCATED, X_DISCOUNT, X_TRACE, X_LOG_RATIO = (tl.constexpr(i) for i in range(7))


@triton.jit
def _edge(at, FORWARD: tl.constexpr, GROUP: tl.constexpr):
    """The place of the step processed before each group's first one."""
    start = at[S0] + GROUP * tl.arange(0, at[DT].shape[0])[:, None]
    keep = (at[KEEP][0] & (start > 0),)
    return at[S0], at[T0] + (-1 if FORWARD else 1), at[N0], at[DT], at[DN], keep


@triton.jit
def _given(
    P, S, at, counts, numbers, KIND: tl.constexpr, FORWARD: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr
):  # fmt: skip
    """What the steps of a tile are made of, in the order of X_DATA and so on; anything where a kind has none of it."""
    data = read_floats(P, S, DATA, at, at[KEEP], FORWARD, GROUP, VECTOR)
    value, terminated, truncated, discount, trace, log_ratio = data, counts, counts, data, data, data
    if (P[VALUES] is not None) and (KIND != TD_LAMBDA or GROUP > 1 or P[MASK] is not None):
        value = read_floats(P, S, VALUES, at, at[KEEP], FORWARD, GROUP, VECTOR)
    if KIND < LINEAR:
        terminated = read_flags(P, S, TERMINATED, at, at[KEEP], FORWARD, GROUP, VECTOR)
        truncated = read_flags(P, S, TRUNCATED, at, at[KEEP], FORWARD, GROUP, VECTOR)
        discount = read_numbers(P, S, GAMMA, numbers[N_GAMMA], at, at[KEEP], FORWARD, GROUP, VECTOR)
        trace = read_numbers(P, S, LAM, numbers[N_LAM], at, at[KEEP], FORWARD, GROUP, VECTOR)
    if P[LOG_PROBS] is not None:
        log_ratio = read_log_ratios(P, S, at, at[KEEP], FORWARD, GROUP, VECTOR)
    return data, value, terminated, truncated, discount, trace, log_ratio


@triton.jit
def _following(P, S, value, counts, nearest, at, row_ok, GROUP: tl.constexpr):
    """Value of the next step in time that isn't masked, and what the tile after this one needs for the same."""
    found = ()
    if P[MASK] is not None:  # groups are single steps here
        latest, known = tl.associative_scan(
            (tl.where(counts[0], value[0], 0.0), counts[0].to(tl.int32)), 0, latest_known
        )
        latest = tl.where(known != 0, latest, nearest[None, :])
        found = (previous(latest, nearest),)
        nearest = tile_end(latest)
    else:
        edge_at = _edge(at, False, GROUP)
        edge = read_floats(P, S, VALUES, edge_at, edge_at[KEEP], False, 1, False)[0]
        if P[LAST_VALUE] is not None:
            last = read_rows(P, S, LAST_VALUE, at[N0], at[DN], row_ok)
            start = at[S0] + GROUP * tl.arange(0, at[DT].shape[0])[:, None]
            edge = tl.where(start == 0, last, edge)
        found = (edge,)
        for k in tl.static_range(1, GROUP):
            found = found + (value[k - 1],)
    return found, nearest


@triton.jit
def _successors(
    P, S, given, counts, nearest, at, row_ok, KIND: tl.constexpr, FORWARD: tl.constexpr, GROUP: tl.constexpr,
    VECTOR: tl.constexpr, ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr,
):  # fmt: skip
    """Values of the true successors, 0 after a terminal step; and what the next tile needs for the same."""
    raw = given[X_DATA]
    if (KIND <= TD_LAMBDA) and (P[NEXT_VALUES] is None):
        raw, nearest = _following(P, S, given[X_VALUE], counts, nearest, at, row_ok, GROUP)
    elif ACTIONS > 0:
        raw = read_expectations(P, S, at, FORWARD, GROUP, VECTOR, ACTIONS, ACTION_BLOCK)
    elif KIND <= TD_LAMBDA:
        raw = read_floats(P, S, NEXT_VALUES, at, at[KEEP], FORWARD, GROUP, VECTOR)
    cut, at_cut = counts, given[X_DATA]
    if P[TRUNCATED_VALUES] is not None:
        cut = ()
        for k in tl.static_range(GROUP):
            cut = cut + (given[X_TRUNCATED][k] & (given[X_TERMINATED][k] == 0) & at[KEEP][k],)
        at_cut = read(P, S, TRUNCATED_VALUES, at, cut, FORWARD, GROUP, False)
    found = ()
    for k in tl.static_range(GROUP):
        successor = raw[k]
        if KIND == DISCOUNTED:
            successor = tl.zeros_like(successor)
        if P[TRUNCATED_VALUES] is not None:
            successor = tl.where(cut[k], at_cut[k].to(tl.float32), successor)
        found = found + (tl.where(given[X_TERMINATED][k], 0.0, successor),)
    return found, nearest


@triton.jit
def _coefficients(given, k: tl.constexpr, successor, numbers, KIND: tl.constexpr):
    """(u, v) of the k-th steps: x -> u + v * x; for Retrace and traces, v lacks the factor of the step before."""
    data, value, discount, trace = given[X_DATA][k], given[X_VALUE][k], given[X_DISCOUNT][k], given[X_TRACE][k]
    done = given[X_TERMINATED][k] | given[X_TRUNCATED][k]
    if KIND >= LINEAR:
        u, v = data, value
    elif KIND == TRACES:
        u, v = data, tl.full(data.shape, 1.0, tl.float32)
    elif KIND == DISCOUNTED:
        u, v = data + discount * successor, tl.where(done, 0.0, discount)
    elif KIND == TD_LAMBDA:
        u = data + discount * tl.where(done, 1.0, 1.0 - trace) * successor
        v = tl.where(done, 0.0, discount * trace)
    elif KIND == GAE:
        u, v = data + discount * successor - value, tl.where(done, 0.0, discount * trace)
    elif KIND == RETRACE:
        u, v = data + discount * successor - value, tl.where(done, 0.0, discount)
    else:
        log_ratio = given[X_LOG_RATIO][k]
        u = tl.exp(tl.minimum(log_ratio, numbers[N_RHO])) * (data + discount * successor - value)
        v = tl.where(done, 0.0, discount * trace * tl.exp(tl.minimum(log_ratio, numbers[N_C])))
    return u, v


@triton.jit
def _own_factor(given, k: tl.constexpr, counts, numbers, KIND: tl.constexpr):
    """Factor between a step's state and what the next processed step receives; 1 where the step doesn't count."""
    if KIND == RETRACE:
        factor = given[X_TRACE][k] * tl.exp(tl.minimum(given[X_LOG_RATIO][k], numbers[N_C]))
    else:
        done = given[X_TERMINATED][k] | given[X_TRUNCATED][k]
        factor = tl.where(done, 0.0, given[X_DISCOUNT][k] * given[X_TRACE][k])
    return tl.where(counts, factor, 1.0)


@triton.jit
def _own_factor_at(P, S, at, numbers, KIND: tl.constexpr, FORWARD: tl.constexpr):
    """The same of single steps that aren't part of the tile."""
    counts = at[KEEP]
    if P[MASK] is not None:
        counts = (counts[0] & read_flags(P, S, MASK, at, counts, FORWARD, 1, False)[0],)
    given = _given(P, S, at, counts, numbers, KIND, FORWARD, 1, False)
    return _own_factor(given, 0, counts[0], numbers, KIND)


@triton.jit
def _equations(
    P, S, given, successor, counts, at, numbers, KIND: tl.constexpr, FORWARD: tl.constexpr, GROUP: tl.constexpr
):  # fmt: skip
    """(u, v) of all steps of a tile, the identity where a step doesn't count."""
    chained: tl.constexpr = (KIND == RETRACE) or (KIND == TRACES)
    entry = counts[0]
    if chained:
        entry = _own_factor_at(P, S, _edge(at, FORWARD, GROUP), numbers, KIND, FORWARD)
    us, vs = (), ()
    for k in tl.static_range(GROUP):
        u, v = _coefficients(given, k, successor[k], numbers, KIND)
        u, v = tl.where(counts[k], u, 0.0), tl.where(counts[k], v, 1.0)
        if chained:
            v = tl.where(at[KEEP][k], tl.where(entry == 0, 0.0, v * entry), 1.0)
            entry = _own_factor(given, k, counts[k], numbers, KIND)
        us, vs = us + (u,), vs + (v,)
    return us, vs


@triton.jit
def _results(
    given, successor, counts, states, received, numbers, KIND: tl.constexpr, GROUP: tl.constexpr, SECOND: tl.constexpr
):  # fmt: skip
    """The first or the second result of all steps."""
    found = ()
    for k in tl.static_range(GROUP):
        value, log_ratio, result = given[X_VALUE][k], given[X_LOG_RATIO][k], states[k]
        if not SECOND:
            if (KIND == VTRACE) or (KIND == RETRACE):
                result = value + states[k]
        elif KIND == GAE:
            result = value + states[k]
        elif KIND == RETRACE:
            result = tl.exp(tl.minimum(log_ratio, numbers[N_PG_RHO])) * states[k]
        else:
            discount = given[X_DISCOUNT][k]
            factor = tl.where(given[X_TERMINATED][k] | given[X_TRUNCATED][k], 0.0, discount)
            onward = apply(discount * successor[k], factor, received)
            result = tl.exp(tl.minimum(log_ratio, numbers[N_PG_RHO])) * (given[X_DATA][k] + onward - value)
            received = states[k]
        found = found + (tl.where(counts[k], result, 0.0),)
    return found


@triton.jit
def _initial(P, S, steps, n0, dn, row_ok, KIND: tl.constexpr):
    """State before the first position, [BN]."""
    if P[CARRY] is not None:
        x = read_rows(P, S, CARRY, n0, dn, row_ok)
    elif ((KIND == TD_LAMBDA) or (KIND == DISCOUNTED)) and (P[LAST_VALUE] is not None):
        x = read_rows(P, S, LAST_VALUE, n0, dn, row_ok)
    elif ((KIND == TD_LAMBDA) or (KIND == DISCOUNTED)) and (P[NEXT_VALUES] is not None):
        last = (0, tl.cast(steps - 1, tl.int64), n0, tl.zeros([1, 1], tl.int32), dn)
        x = read_floats(P, S, NEXT_VALUES, last, (row_ok,), False, 1, False)[0]
    else:
        x = tl.zeros_like(dn).to(tl.float32)
    return tl.sum(x, axis=0)


@triton.jit
def _start(
    P, S, aggregates, u, v, part, parts, steps, rows, n0, dn, row_ok, KIND: tl.constexpr, STAGE: tl.constexpr,
    WINDOW: tl.constexpr, PART_BLOCK: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """State before the first step of a program, [BN]; CHAIN is given (u, v) of its part."""
    x = tl.zeros([dn.shape[1]], tl.float32)
    if STAGE != REDUCE:
        x = _initial(P, S, steps, n0, dn, row_ok, KIND)
    if OVERLAP and (STAGE == APPLY or STAGE == CHAIN):  # what the launch before this one wrote is used from here on
        tl.extra.cuda.gdc_wait()
    if STAGE == APPLY:
        x = fold(aggregates, part, parts, rows, n0, dn, row_ok, x, PART_BLOCK)
    elif STAGE == CHAIN:
        x = look_back(aggregates, u, v, x, part, parts, n0, dn, row_ok, WINDOW, PART_BLOCK, OVERLAP)
    return x


@triton.jit
def _tile(
    P, S, OUT, OUT_S, aggregates, s0, end, state, part, parts, steps, rows, n0, dn, row_ok, numbers,
    KIND: tl.constexpr, FORWARD: tl.constexpr, STAGE: tl.constexpr, SINGLE: tl.constexpr,
    ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr, BT: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr,
    FULL: tl.constexpr, WINDOW: tl.constexpr, PART_BLOCK: tl.constexpr, WIDE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Process one tile; takes and returns the state before it, the composed (u, v) and the nearest value."""
    x, au, av, nearest = state
    at = place_tile(s0, end, steps, n0, dn, row_ok, FORWARD, FULL, BT, GROUP, WIDE)
    counts = at[KEEP]
    if P[MASK] is not None:
        mask = read_flags(P, S, MASK, at, at[KEEP], FORWARD, GROUP, VECTOR)
        counts = ()
        for k in tl.static_range(GROUP):
            counts = counts + (at[KEEP][k] & mask[k],)
    given = _given(P, S, at, counts, numbers, KIND, FORWARD, GROUP, VECTOR)
    successor, nearest = _successors(
        P, S, given, counts, nearest, at, row_ok, KIND, FORWARD, GROUP, VECTOR, ACTIONS, ACTION_BLOCK
    )  # fmt: skip
    u, v = _equations(P, S, given, successor, counts, at, numbers, KIND, FORWARD, GROUP)
    if STAGE == REDUCE:
        tile_u, tile_v = compose_all(u, v, GROUP)
        au, av = then(au, av, tile_u, tile_v)
    else:
        before_u, before_v, tile_u, tile_v = scan(u, v, GROUP)
        if SINGLE:  # after the loads, so that they are under way meanwhile
            x = _start(
                P, S, aggregates, tile_u, tile_v, part, parts, steps, rows, n0, dn, row_ok, KIND, STAGE, WINDOW,
                PART_BLOCK, OVERLAP,
            )  # fmt: skip
        states, received, x = solve(u, v, before_u, before_v, x, GROUP)
        first = _results(given, successor, counts, states, received, numbers, KIND, GROUP, False)
        write(OUT[0], S, OUT_S, at, first, FORWARD, GROUP, VECTOR)
        if OUT[1] is not None:
            second = _results(given, successor, counts, states, received, numbers, KIND, GROUP, True)
            write(OUT[1], S, OUT_S, at, second, FORWARD, GROUP, VECTOR)
    return x, au, av, nearest


@triton.jit
def scan_kernel(
    P, S, OUT, OUT_S, aggregates, steps, rows, part_steps, parts, numbers,
    KIND: tl.constexpr, FORWARD: tl.constexpr, STAGE: tl.constexpr, SINGLE: tl.constexpr,
    ACTIONS: tl.constexpr, ACTION_BLOCK: tl.constexpr, BT: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
    VECTOR: tl.constexpr, FULL: tl.constexpr, WINDOW: tl.constexpr, PART_BLOCK: tl.constexpr, PIPELINE: tl.constexpr,
    WIDE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    """Solve one recurrence for ``BN`` rows (grid axis 0) and one part of the steps (grid axis 1).

    Args:
        P: Pointers of the inputs in the order of ``Inputs``, ``None`` where absent.
        S: Their strides: time and row of each, ``None`` where they are those of the data; then those over actions.
        OUT: Pointers of the first result, the second and the final carry; ``None`` where not wanted.
        OUT_S: Strides of the first two results, time and row; likewise.
        aggregates: (u, v) of each part: [2, parts, rows], written by REDUCE and read by APPLY, or words, [rows, parts +
            PART_BLOCK], of CLEAR and CHAIN.
        steps, rows: T and N.
        part_steps: Steps of a part, a multiple of ``BT`` unless there is one part.
        parts: Number of parts.
        numbers: γ, λ and the clips of V-trace and Retrace; clips of ratios as logarithms.
        KIND, FORWARD: The recurrence and its direction.
        STAGE: WHOLE, REDUCE, APPLY, CHAIN or CLEAR.
        SINGLE: Whether a part is a single tile.
        ACTIONS, ACTION_BLOCK: Actions of the successors (0: none) and how many are read at once.
        BT, BN: Size of a tile, powers of two.
        GROUP: Neighbouring steps that one thread owns, a power of two.
        VECTOR: Whether they are neighbours in memory too and read at once; GROUP is 4 then and divides T.
        FULL: Whether ``BT`` divides T and ``BN`` divides N.
        WINDOW: Parts of a group of CHAIN, a power of two.
        PART_BLOCK: Power of two that is at least ``parts`` and ``FOLD``; of CHAIN, at least its groups.
        PIPELINE: Tiles in flight.
        WIDE: Whether offsets within a tile need 64 bits.
        OVERLAP: Whether programs run at the same time, and those of a second launch beside the last of the first.
    """
    if OVERLAP and (STAGE == REDUCE or STAGE == CLEAR):
        tl.extra.cuda.gdc_launch_dependents()
    if STAGE == CLEAR:
        clear(aggregates, tl.cast(rows, tl.int64) * (parts + PART_BLOCK))
        return
    n0 = tl.program_id(0).to(tl.int64) * BN
    part = tl.program_id(1)
    dn = tl.arange(0, BN)[None, :]
    if WIDE:
        dn = dn.to(tl.int64)
    row_ok = n0 + dn < rows
    begin = part * part_steps
    end = tl.minimum(begin + part_steps, steps)
    zero, nearest = tl.zeros([BN], tl.float32), tl.zeros([BN], tl.float32)
    if P[MASK] is not None and P[LAST_VALUE] is not None:
        nearest = tl.sum(read_rows(P, S, LAST_VALUE, n0, dn, row_ok), axis=0)
    state = (zero, zero, tl.full([BN], 1.0, tl.float32), nearest)
    if SINGLE:
        state = _tile(
            P, S, OUT, OUT_S, aggregates, begin, end, state, part, parts, steps, rows, n0, dn, row_ok, numbers,
            KIND, FORWARD, STAGE, SINGLE, ACTIONS, ACTION_BLOCK, BT, GROUP, VECTOR, FULL, WINDOW, PART_BLOCK, WIDE,
            OVERLAP,
        )  # fmt: skip
    else:
        x = _start(
            P, S, aggregates, zero, zero, part, parts, steps, rows, n0, dn, row_ok, KIND, STAGE, WINDOW, PART_BLOCK,
            OVERLAP,
        )  # fmt: skip
        state = (x, state[1], state[2], state[3])
        for s0 in tl.range(begin, end, BT, num_stages=PIPELINE):
            state = _tile(
                P, S, OUT, OUT_S, aggregates, s0, end, state, part, parts, steps, rows, n0, dn, row_ok, numbers,
                KIND, FORWARD, STAGE, SINGLE, ACTIONS, ACTION_BLOCK, BT, GROUP, VECTOR, FULL, WINDOW, PART_BLOCK, WIDE,
                OVERLAP,
            )  # fmt: skip
    x, au, av, nearest = state
    row = n0 + tl.arange(0, BN)
    if STAGE == REDUCE:
        place = aggregates + part * tl.cast(rows, tl.int64) + row
        tl.store(place, au, mask=row < rows)
        tl.store(place + tl.cast(parts, tl.int64) * rows, av, mask=row < rows)
    elif OUT[2] is not None:
        if (KIND == RETRACE) or (KIND == TRACES):
            last = tl.cast(steps - 1, tl.int64) if FORWARD else tl.zeros([], tl.int64)
            at = (0, last, n0, tl.zeros([1, 1], tl.int32), dn, (row_ok,))
            factor = tl.sum(_own_factor_at(P, S, at, numbers, KIND, FORWARD), axis=0)
            x = tl.where(factor == 0, 0.0, factor * x)
        tl.store(OUT[2] + row, x, mask=(row < rows) & (part == parts - 1))
