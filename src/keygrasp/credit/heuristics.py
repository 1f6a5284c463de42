"""How the work of a call is cut up: a pure function of its shape, so that it can be read, tested and measured.

The numbers were chosen on an H200; ``benchmarks/credit_tune.py`` measures the alternatives for any shape and GPU.
"""

from __future__ import annotations

from typing import NamedTuple

from keygrasp.credit.problem import Kind


class Tiling(NamedTuple):
    """Attributes: one launch's shape.

    Attributes:
        steps: Steps of a tile, a power of two.
        rows: Rows of a program, a power of two.
        warps: Warps of a program, a power of two.
        parts: Parts that the sequence is split into; 1 for a single pass.
        pipeline: Tiles in flight where a program has several.
    """

    steps: int
    rows: int
    warps: int
    parts: int = 1
    pipeline: int = 2


#: Elements of a tile that keep enough loads in flight without spilling registers.
_TILE = 2048
#: Most steps of one tile.
_LONGEST = 4096
#: Programs a multiprocessor should have before a sequence is worth splitting.
_PROGRAMS = 2


def choose_tiling(
    kind: Kind,
    steps: int,
    rows: int,
    *,
    time_contiguous: bool,
    actions: int = 0,
    splittable: bool = True,
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
        processors: Multiprocessors of the GPU.
    """
    budget = _TILE // 2 if kind in (Kind.VTRACE, Kind.RETRACE) else _TILE
    if actions:
        budget = max(128, budget // _power(actions))
    if time_contiguous:
        bt = min(_power(steps), _LONGEST if not actions else budget)
        bn = max(1, min(budget // 2 // bt, _power(rows)))
    else:
        bn = min(32, _power(rows))
        bt = min(_power(steps), max(1, budget // bn))
    while bn > 1 and -(-rows // bn) < processors and not (bn <= 8 and not time_contiguous):
        bn //= 2  # rather too many programs than idle multiprocessors
    elements = bt * bn
    warps = max(1, min(8, elements // 256))
    parts = 1
    programs = -(-rows // bn)
    tiles = -(-steps // bt)
    if splittable and programs < _PROGRAMS * processors and steps > 4096:
        bt = min(bt, max(1, 2048 // bn))
        warps = max(1, min(8, bt * bn // 256))
        tiles = -(-steps // bt)
        parts = max(1, min(tiles, 1024, -(-4 * processors // programs)))
    return Tiling(bt, bn, warps, parts)


def _power(number: int) -> int:
    """Smallest power of two that is at least ``number``."""
    return 1 << max(0, number - 1).bit_length()
