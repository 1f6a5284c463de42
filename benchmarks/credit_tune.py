"""Which way to cut the work up is fastest at each shape: the measurements behind ``keygrasp.credit.heuristics``.

python benchmarks/credit_tune.py --ops gae vtrace --shapes 4096x128 16384x1024

Compiles in parallel first, then prints the best three tilings and the heuristics' own choice for each workload. Every
tiling's result is checked against that of the heuristics.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from credit_timing import device_us
from credit_workloads import ACTIONS, LAYOUTS, OPS, SHAPES, Workload, make_inputs, our_call

from keygrasp.credit import launch
from keygrasp.credit.heuristics import Tiling, choose_tiling
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
    """Tilings that make sense for a workload."""
    longest = 1 << (work.steps - 1).bit_length()
    for bn in (1, 2, 4, 8, 16, 32) if work.layout == "batch-major" else (4, 8, 16, 32, 64, 128):
        for elements in (256, 512, 1024, 2048, 4096):
            bt = elements // bn
            if not 1 <= bt <= longest or bn > 2 * work.rows:
                continue
            tiles, programs = -(-work.steps // bt), -(-work.rows // bn)
            splits = {1} | {
                p for p in (chosen.parts, 264 // programs, 528 // programs, 1056 // programs) if 1 < p <= tiles
            }
            for per_thread in (4, 8, 16):
                warps = elements // (32 * per_thread)
                for parts in splits if 1 <= warps <= 16 else ():
                    if parts == 1 and programs < 32 and tiles > 64:
                        continue  # hopelessly serial
                    yield from (Tiling(bt, bn, warps, parts, p) for p in ((1, 2, 3) if tiles > parts else (1,)))


@contextlib.contextmanager
def forced(tiling: Tiling) -> Iterator[None]:
    """Use one tiling for every call."""
    original = launch.choose_tiling
    launch._plans.clear()
    launch.choose_tiling = lambda *_, **__: tiling
    try:
        yield
    finally:
        launch.choose_tiling = original
        launch._plans.clear()


def heuristic_choice(work: Workload) -> Tiling:
    steps, rows = work.steps, work.rows
    actions = ACTIONS if work.op == "retrace" else 0
    return choose_tiling(KINDS[work.op], steps, rows, time_contiguous=work.layout == "batch-major", actions=actions)


@functools.lru_cache(maxsize=1)
def cached_call(work: Workload) -> Callable[[], Any]:
    return our_call(work, make_inputs(work, "cuda"))


def compile_one(job: tuple[Workload, Tiling]) -> None:
    """Fill Triton's cache on disk, in a process of its own; failures show up again when it is timed."""
    work, tiling = job
    with forced(tiling), contextlib.suppress(Exception):
        cached_call(work)()


def tune(work: Workload, tilings: list[Tiling]) -> list[tuple[float, Tiling]]:
    """Times in µs with their tilings, the best first."""
    call = cached_call(work)
    expected = first_of(call())
    found: list[tuple[float, Tiling]] = []
    for tiling in tilings:
        with forced(tiling):
            try:
                torch.testing.assert_close(first_of(call()), expected, rtol=1e-3, atol=1e-3)
                found.append((device_us([call], seconds=0.002, repeats=3), tiling))
            except Exception as error:  # out of shared memory, or a wrong result: say so and go on
                print(f"  {tuple(tiling)}: {type(error).__name__} {str(error)[:80]}")
    own = [microseconds for microseconds, tiling in found if tiling == tilings[0]]
    print(f"{work.name}: heuristics {own[0] if own else math.nan:.2f} µs with {tuple(tilings[0])}")
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
        others = sorted(set(candidates(work, chosen)) - {chosen})
        plans[work] = [chosen, *random.sample(others, min(arguments.limit, len(others)))]
    jobs = [(work, tiling) for work, tilings in plans.items() for tiling in tilings]
    begin = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_one, jobs, chunksize=8))
    print(f"compiled {len(jobs)} kernels in {time.monotonic() - begin:.0f} s", flush=True)
    results = []
    for work, tilings in plans.items():
        for microseconds, tiling in tune(work, tilings):
            results.append({"workload": work.name, "us": microseconds, "tiling": tiling._asdict()})
        if arguments.json:
            write_json(arguments.json, {"rows": results, "provenance": provenance(0)})


if __name__ == "__main__":
    main()
