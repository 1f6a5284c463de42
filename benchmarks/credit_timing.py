"""Timing on a GPU: device time by replaying a CUDA graph, full calls by the wall clock."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from credit_workloads import Workload, make_inputs
from torch import Tensor

#: Bytes a second that a copy kernel moves on an H200 (read and written). The driver's copy, which credit.json names,
#: reaches less than our own kernels do, so it is no floor.
H200_COPY = 4.28e12
#: Inputs are rotated until together they exceed this, so that they come from memory and not from the L2 cache.
BEYOND_CACHE = 160e6


def rotated(build: Callable[[Workload, dict[str, Tensor]], Any], work: Workload) -> list[Callable[[], Any]]:
    """The call on as many sets of inputs as it takes to exceed the cache; none where ``build`` has no such function."""
    sets = max(1, min(12, math.ceil(BEYOND_CACHE / work.bytes)))
    calls = (build(work, make_inputs(work, "cuda", seed)) for seed in range(sets))
    return [call for call in calls if call is not None]


def device_us(calls: Sequence[Callable[[], Any]], seconds: float = 0.02, repeats: int = 5) -> float:
    """Median device time of one call in µs, from a CUDA graph that runs ``calls`` in turn."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    count = max(len(calls), 8)
    with torch.cuda.stream(stream):  # torch.cuda.graph would collect garbage first, for longer than all the rest takes
        graph.capture_begin()
        try:
            for index in range(count):
                calls[index % len(calls)]()
        finally:
            graph.capture_end()
    graph.replay()
    torch.cuda.synchronize()
    once = _replay(graph, 1)
    replays = max(1, min(200, int(seconds / max(once, 1e-6))))
    return 1e6 * statistics.median(_replay(graph, replays) for _ in range(repeats)) / count


def _replay(graph: torch.cuda.CUDAGraph, replays: int) -> float:
    """Seconds a replay."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / replays


def call_us(calls: Sequence[Callable[[], Any]], seconds: float = 0.02, repeats: int = 5) -> float:
    """Median wall time of one call in µs, calls issued back to back and awaited together."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    calls[0]()
    torch.cuda.synchronize()
    count = max(10, min(1000, int(seconds / max(time.perf_counter() - begin, 1e-6))))
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for index in range(count):
            calls[index % len(calls)]()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - begin) / count)
    return 1e6 * statistics.median(found)


def cpu_ms(calls: Mapping[str, Callable[[], Any]], repeats: int = 11) -> dict[str, float]:
    """Median process time of each call in ms; in turn, so that a slow moment of the machine meets them all."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            found[name].append(time.process_time() - begin)
    return {name: 1e3 * statistics.median(times[1:]) for name, times in found.items()}  # the first one warms up


def copy_bandwidth() -> float:
    """Bytes a second that a large copy on the device moves, read and written; by a kernel or by the driver's copy."""
    count = 1 << 28
    source = torch.empty(count, device="cuda").normal_()
    target = torch.empty_like(source)
    ways = (lambda: target.copy_(source), lambda: torch.neg(source, out=target))
    return 8 * count / (min(device_us([way]) for way in ways) / 1e6)


def empty_kernel_us() -> tuple[float, float]:
    """A kernel that does nothing: device time in the same kind of graph, and full call of Triton's own launcher."""
    import triton

    @triton.jit
    def nothing() -> None:
        pass

    return device_us([nothing[(1,)]] * 20), call_us([nothing[(1,)]])
