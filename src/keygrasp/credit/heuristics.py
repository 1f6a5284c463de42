"""How the work of a call is cut up: a pure function of its shape, so that it can be read, tested and measured.

The numbers are the best measured of some fifteen tilings a shape for GAE, V-trace and Retrace on an H200; the other
kinds follow GAE unmeasured. ``benchmarks/credit_tune.py`` measures the alternatives for any kind, shape and GPU.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from keygrasp.credit.problem import Kind


class Tiling(NamedTuple):
    """The shape of one launch.

    Attributes:
        steps: Steps of a tile, a power of two.
        rows: Rows of a program, a power of two.
        warps: Warps of a program, a power of two.
        parts: Parts that the sequence is split into; 1 for none.
        pipeline: Tiles in flight where a program has several.
        group: Neighbouring steps that a thread owns, a power of two; where time is contiguous, 1, or 4 in one read.
        window: If not 0, each tile is a part, and looks back in the same launch: a power of two, parts whose (u, v) are
            composed to one for those behind them.
    """

    steps: int
    rows: int
    warps: int
    parts: int = 1
    pipeline: int = 2
    group: int = 1
    window: int = 0


#: A sequence is split if a multiprocessor had fewer programs than this (half of it where rows are neighbours).
_PROGRAMS = 2
#: Programs that a multiprocessor gets when a sequence is split (half of it where rows are neighbours).
_SPLIT_PROGRAMS = 8
#: Most parts of a split: each program folds all parts before its own.
_MOST_PARTS = 512
#: Whether the parts of a split sequence meet in one launch that looks back, rather than over two launches, where that
#: was measured to be faster. Off until the test of it has run on a GPU: ``pytest -m gpu tests/credit``.
CHAINED = False
#: Most parts of that: they are looked at in two steps, of their square root each.
_MOST_CHAINED = 1 << 14


def choose_tiling(
    kind: Kind,
    steps: int,
    rows: int,
    *,
    time_contiguous: bool,
    actions: int = 0,
    splittable: bool = True,
    groupable: bool = True,
    processors: int = 132,
) -> Tiling:
    """Tile, warps and split for one call.

    Args:
        kind: The recurrence; those with more inputs get smaller tiles.
        steps: T, at least 1.
        rows: N, at least 1.
        time_contiguous: Whether consecutive steps, rather than rows, are neighbours in memory.
        actions: Actions of the successors, 0 if their values are given without that dimension.
        splittable: Whether parts of a sequence can be processed independently.
        groupable: Whether steps can be grouped; not if a step's successor depends on the mask.
        processors: Multiprocessors of the GPU.
    """
    heavy = kind in (Kind.VTRACE, Kind.RETRACE)
    if time_contiguous:
        tiling = _along_actions(steps, rows, processors) if actions > 1 else _along_time(steps, rows, heavy, processors)
        group = 4 if groupable and steps % 4 == 0 and tiling.steps >= 8 else 1
        tiling = tiling._replace(group=group)
    else:
        tiling = _along_rows(steps, rows, heavy, actions > 1, processors)
        if not groupable:
            tiling = tiling._replace(group=1)
    programs = -(-rows // tiling.rows)
    tiles = -(-steps // tiling.steps)
    share = 1 if time_contiguous else 2
    if splittable and tiles > 4 and programs < _PROGRAMS * processors // share and steps > 2048:
        parts = min(tiles, _MOST_PARTS, -(-_SPLIT_PROGRAMS * processors // (share * programs)))
        chained = _chained(rows, heavy, actions > 1, time_contiguous, tiling.group)
        parts_of_chain = -(-steps // chained.steps)
        if CHAINED and _chain_pays(kind, rows, actions > 1, time_contiguous) and parts_of_chain <= _MOST_CHAINED:
            return chained._replace(parts=parts_of_chain, window=choose_window(parts_of_chain, chained))
        tiling = tiling._replace(parts=max(1, parts))
    return tiling


def _chain_pays(kind: Kind, rows: int, actions: bool, time_contiguous: bool) -> bool:
    """Whether one launch was faster than two, at the four long shapes of the benchmark on an H200."""
    if time_contiguous:
        return kind is not Kind.VTRACE or rows > 1
    return actions


def choose_window(parts: int, tiling: Tiling) -> int:
    """Parts of a group in a launch that looks back: one word for each thread if possible, and as many as groups if not.

    Args:
        parts: Tiles of a row.
        tiling: The tiles; its window is not looked at.
    """
    threads = max(1, 32 * tiling.warps // tiling.rows)
    if parts <= threads:
        return _power(parts)
    return max(threads, _power(math.isqrt(parts - 1) + 1))


def _chained(rows: int, heavy: bool, actions: bool, time_contiguous: bool, group: int) -> Tiling:
    """Tiles that stay in registers between the reading of their inputs and the state before them."""
    if time_contiguous and actions:
        return Tiling(256, 1, 2, pipeline=1, group=group)
    if time_contiguous:
        return Tiling(1024, 1, 8 if heavy else 4, pipeline=1, group=group)
    columns = min(16 if rows <= 64 else 32, _power(rows))
    elements = 1024 if heavy else 2048
    return Tiling(elements // columns, columns, 8, pipeline=1, group=elements // 256 if group > 1 else 1)


def _along_actions(steps: int, rows: int, processors: int) -> Tiling:
    """Time is contiguous behind the actions: a warp takes 128 elements."""
    if steps >= 1024 and rows >= 8 * processors:
        return Tiling(256, 1, 2, pipeline=1)
    bt = min(_power(steps), 128)
    return Tiling(bt, max(1, min(128 // bt, _power(rows))), 1, pipeline=2 if steps > 2048 else 1)


def _along_time(steps: int, rows: int, heavy: bool, processors: int) -> Tiling:
    """Time is contiguous: a tile is a whole row where registers allow, or several short ones."""
    bt = _power(steps)
    if bt <= 512:
        bn = max(1, min(1024 // bt, _power(rows)))
        while bn > 1 and -(-rows // bn) < 3 * processors:
            bn //= 2
        return Tiling(bt, bn, max(1, bt * bn // 128))
    if bt <= (1024 if heavy else 2048):
        return Tiling(bt, 1, 8)
    if rows == 1 and not heavy and steps >= 1024 * _MOST_PARTS:
        return Tiling(1024, 1, 8, pipeline=1)  # measured: 12.6 instead of 14.6 µs at 1x1048576
    if rows < 2 * processors or heavy:
        return Tiling(512, 1, 4 if rows < 2 * processors and heavy else 2)
    return Tiling(2048, 1, 8)


def _along_rows(steps: int, rows: int, heavy: bool, actions: bool, processors: int) -> Tiling:
    """Neighbouring rows are neighbours in memory: a thread walks along its row, several warps share a tile's steps."""
    longest = _power(steps)
    columns = min(16 if rows <= 64 and steps > 2048 else 32, _power(rows))
    few = -(-rows // 32) <= 2 * processors  # programs, so that each needs many warps
    if longest <= 8 and (actions or not heavy):
        group, groups, columns = longest, 1, min(128, _power(rows))
    elif longest <= 16:
        group, groups = (2, 8) if heavy else (4, 4)
    elif longest <= 64:
        group, groups = (4, 8) if heavy else (8, 4)
        if heavy and not actions:
            columns = min(64, _power(rows))
    elif heavy and rows <= 16 and steps > 2048:
        group, groups = 2, 8 if actions else 16  # measured: 50 instead of 71 µs at 16x131072, over actions 163 of 243
    elif actions and longest > 128 and rows > 64:
        group, groups = 2, 8  # measured: 449 instead of 492 µs at 16384x1024, 768 instead of 1161 at 8192x2048
    elif heavy:
        group, groups = (8, 16 if longest <= 128 else 8) if few else (8, 4)
    elif few and longest <= 128:
        group, groups = 8, 16
    elif steps > 2048:
        group, groups = (16, 4) if 16 < rows <= 64 else (8, 8)  # measured: 23.6 instead of 29.5 µs at 16x131072
    else:
        group, groups = 16, 8
    group = min(group, longest)
    groups = min(groups, longest // group)
    warps = max(1, groups * columns // 32 // (2 if columns == 64 and groups > 1 else 1))
    return Tiling(group * groups, columns, warps, pipeline=1, group=group)


def _power(number: int) -> int:
    """Smallest power of two that is at least ``number``."""
    return 1 << max(0, number - 1).bit_length()
