"""How the work of a call is cut up: a pure function of its shape, so that it can be read, tested and measured.

The numbers are the best of some twenty tilings a shape for GAE and V-trace on an H200; the other kinds follow them
unmeasured. ``benchmarks/credit_tune.py`` measures the alternatives for any kind, shape and GPU.
"""

from __future__ import annotations

from typing import NamedTuple

from keygrasp.credit.problem import Kind


class Tiling(NamedTuple):
    """The shape of one launch.

    Attributes:
        steps: Steps of a tile, a power of two.
        rows: Rows of a program, a power of two.
        warps: Warps of a program, a power of two.
        parts: Parts that the sequence is split into; 1 for a single pass.
        pipeline: Tiles in flight where a program has several.
        group: Neighbouring steps that a thread reads at once, 1 or 4; 4 needs T to be a multiple of it.
    """

    steps: int
    rows: int
    warps: int
    parts: int = 1
    pipeline: int = 2
    group: int = 1


#: A sequence is split if a multiprocessor had fewer programs than this (half of it where rows are neighbours).
_PROGRAMS = 2
#: Programs that a multiprocessor gets when a sequence is split.
_SPLIT_PROGRAMS = 16
#: Most parts of a split: each program folds all parts before its own.
_MOST_PARTS = 512


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
        tiling = _along_time(steps, rows, heavy, processors)
        group = 4 if groupable and steps % 4 == 0 and tiling.steps >= 8 else 1
        tiling = tiling._replace(group=group)
    else:
        tiling = _along_rows(steps, rows, heavy, processors)
    if actions > 1:  # each element brings as many values again
        shorter = max(8, tiling.steps // _power(actions))
        tiling = tiling._replace(steps=min(tiling.steps, shorter))
    programs = -(-rows // tiling.rows)
    tiles = -(-steps // tiling.steps)
    if splittable and tiles > 4 and programs < (_PROGRAMS if time_contiguous else 1) * processors and steps > 2048:
        parts = min(tiles, _MOST_PARTS, -(-_SPLIT_PROGRAMS * processors // programs))
        tiling = tiling._replace(parts=max(1, parts))
    return tiling


def _along_time(steps: int, rows: int, heavy: bool, processors: int) -> Tiling:
    """Time is contiguous: a warp takes a few short rows or part of a long one, several warps only if rows are few."""
    bt = min(_power(steps), 256 if heavy else 512)
    if bt > 128:
        if rows >= 8 * processors:
            return Tiling(bt, 1, 1)
        bt = min(_power(steps), 512 if heavy else 1024)
        return Tiling(bt, 1, max(1, bt // 256))
    bn = max(1, min((512 if heavy else 1024) // bt, _power(rows)))
    while bn > 1 and -(-rows // bn) < 4 * processors:
        bn //= 2
    return Tiling(bt, bn, max(1, bt * bn // 256))


def _along_rows(steps: int, rows: int, heavy: bool, processors: int) -> Tiling:
    """Neighbouring rows are neighbours in memory: a tile is at least 32 bytes wide and as long as registers allow."""
    if heavy:
        bn = 8 if rows >= 8 else _power(rows)
        bt = min(_power(steps), 32)
        return Tiling(bt, bn, max(1, bt * bn // 256), pipeline=1)
    bn = min(32, _power(rows))
    while bn > 8 and -(-rows // bn) < processors:
        bn //= 2
    bt = min(_power(steps), max(1, 1024 // bn))
    return Tiling(bt, bn, max(1, min(8, bt * bn // 256)))


def _power(number: int) -> int:
    """Smallest power of two that is at least ``number``."""
    return 1 << max(0, number - 1).bit_length()
