"""Which way to cut the work up is fastest at each shape: the measurements behind ``keygrasp.credit.heuristics``.

python benchmarks/credit_tune.py --ops gae vtrace --shapes 4096x128 16384x1024

Compiles in parallel first, then prints the best three tilings and the heuristics' own choice for each workload. Every
tiling's result is checked against that of the heuristics.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from credit_compile import compile_ahead, forced
from credit_timing import H200_COPY, device_us, rotated
from credit_workloads import ACTIONS, LAYOUTS, OPS, SHAPES, Workload, our_call

from keygrasp.credit import heuristics
from keygrasp.credit.heuristics import Tiling, choose_tiling, choose_window
from keygrasp.credit.problem import Kind
from keygrasp.files import write_json
from keygrasp.provenance import provenance

KINDS = dict(
    zip(
        OPS,
        (Kind.GAE, Kind.VTRACE, Kind.RETRACE, Kind.TD_LAMBDA, Kind.DISCOUNTED, Kind.TRACES, Kind.TRACES),
        strict=True,
    )
)


def candidates(work: Workload, chosen: Tiling) -> Iterator[Tiling]:
    """Tilings that make sense for a workload: of each size whole, split as the heuristics do and less, and chained."""
    found = _along_time(work) if _time_is_contiguous(work) else _along_rows(work)
    for tiling in found:
        yield from _chains(work, tiling)
        tiles, programs = -(-work.steps // tiling.steps), -(-work.rows // tiling.rows)
        wanted = {chosen.parts, chosen.parts // 2, chosen.parts // 4} if chosen.parts > 1 else {1, 264 // programs}
        for parts in {min(number, tiles) for number in wanted if number > 0}:
            if parts * programs < 32 and tiles > 32:
                continue  # hopelessly serial
            for pipeline in (1, 2, 3) if tiles > parts else (1,):
                yield tiling._replace(parts=parts, pipeline=pipeline)


def _chains(work: Workload, tiling: Tiling) -> Iterator[Tiling]:
    """A tile's chains, in groups as the heuristics have them and of twice that size."""
    parts = -(-work.steps // tiling.steps)
    if 4 <= parts <= 1 << 14:
        window = choose_window(parts, tiling)
        for choice in sorted({window, min(2 * window, 1 << (parts - 1).bit_length())}):
            yield tiling._replace(parts=parts, pipeline=1, window=choice)


def _along_rows(work: Workload) -> Iterator[Tiling]:
    longest = 1 << (work.steps - 1).bit_length()
    for bn, bt, per_thread in itertools.product((8, 16, 32, 64), (8, 16, 32, 64, 128, 256), (4, 8, 16)):
        warps = bt * bn // (32 * per_thread)
        if bt <= longest and 1 <= warps <= 16 and bn < 2 * work.rows:
            for group in sorted({1, min(4, per_thread), per_thread}):
                yield Tiling(bt, bn, warps, group=group)


def _along_time(work: Workload) -> Iterator[Tiling]:
    longest = 1 << (work.steps - 1).bit_length()
    for bn, elements, per_thread in itertools.product((1, 2, 4, 8, 16, 32), (256, 512, 1024, 2048, 4096), (4, 8, 16)):
        bt, warps = elements // bn, elements // (32 * per_thread)
        if 1 <= bt <= longest and 1 <= warps <= 16 and bn <= 2 * work.rows:
            for group in (1, 4) if work.steps % 4 == 0 and bt >= 4 else (1,):
                yield Tiling(bt, bn, warps, group=group)


def heuristic_choice(work: Workload) -> Tiling:
    steps, rows = work.steps, work.rows
    actions = ACTIONS if work.op == "retrace" else 0
    return choose_tiling(KINDS[work.op], steps, rows, time_contiguous=_time_is_contiguous(work), actions=actions)


def _time_is_contiguous(work: Workload) -> bool:
    return work.layout == "batch-major" or work.rows == 1


def other_choice(work: Workload) -> Tiling:
    """What the heuristics would choose if they chained parts, or didn't."""
    heuristics.CHAINED = not heuristics.CHAINED
    try:
        return heuristic_choice(work)
    finally:
        heuristics.CHAINED = not heuristics.CHAINED


def tune(work: Workload, tilings: list[Tiling]) -> list[tuple[float, Tiling]]:
    """Times in µs with their tilings, the best first."""
    calls = rotated(our_call, work)
    expected = first_of(calls[0]())
    found: list[tuple[float, Tiling]] = []
    for tiling in tilings:
        with forced(tiling):
            try:
                torch.testing.assert_close(first_of(calls[0]()), expected, rtol=1e-3, atol=1e-3)
                found.append((device_us(calls, seconds=0.002, repeats=3), tiling))
            except Exception as error:  # out of shared memory, or a wrong result: say so and go on
                print(f"  {tuple(tiling)}: {type(error).__name__} {str(error)[:80]}")
    own = [microseconds for microseconds, tiling in found if tiling == tilings[0]]
    floor = 1e6 * work.bytes / H200_COPY
    print(f"{work.name}: heuristics {own[0] if own else math.nan:.2f} µs with {tuple(tilings[0])}, floor {floor:.2f}")
    for best, tiling in sorted(found)[:3]:
        print(f"    {best:8.2f} µs  {tuple(tiling)}", flush=True)
    return sorted(found)


def first_of(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", nargs="*", default=["gae", "vtrace"], choices=OPS)
    parser.add_argument("--shapes", nargs="*", default=[], help="rows and steps, such as 4096x128")
    parser.add_argument("--layouts", nargs="*", default=list(LAYOUTS), choices=LAYOUTS)
    parser.add_argument("--truncation", action="store_true")
    parser.add_argument("--chained", action="store_true", help="only chained tilings, and both heuristics")
    parser.add_argument("--limit", type=int, default=20, help="tilings a workload, drawn at random")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    shapes = [tuple(map(int, text.split("x"))) for text in arguments.shapes] or SHAPES
    works = [
        Workload(op, rows, steps, arguments.truncation, layout)
        for rows, steps in shapes for op in arguments.ops for layout in arguments.layouts
    ]  # fmt: skip
    random.seed(0)
    plans = {}
    for work in works:
        chosen = heuristic_choice(work)
        both = list(dict.fromkeys((chosen, other_choice(work))))
        others = sorted(set(candidates(work, chosen)) - set(both))
        if arguments.chained:
            others = [tiling for tiling in others if tiling.window]
        plans[work] = [*both, *random.sample(others, min(arguments.limit, len(others)))]
    compile_ahead([(our_call, work, tiling) for work, tilings in plans.items() for tiling in tilings])
    results = []
    for work, tilings in plans.items():
        for microseconds, tiling in tune(work, tilings):
            results.append({"workload": work.name, "us": microseconds, "tiling": tiling._asdict()})
        if arguments.json:
            write_json(arguments.json, {"rows": results, "provenance": provenance(0)})


if __name__ == "__main__":
    main()
