"""Compiles the kernels that a measurement needs in parallel, into Triton's cache on disk, before anything is timed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from credit_workloads import Workload, make_inputs
from torch import Tensor

from keygrasp.credit import launch
from keygrasp.credit.heuristics import Tiling

#: What makes the call, on which workload, with which tiling (``None``: the heuristics' own).
Job = tuple[Callable[[Workload, dict[str, Tensor]], Any], Workload, Tiling | None]


@contextlib.contextmanager
def forced(tiling: Tiling | None) -> Iterator[None]:
    """Use one tiling for every call."""
    original: Callable[..., Tiling] = launch.choose_tiling
    launch._plans.clear()
    if tiling is not None:
        launch.choose_tiling = lambda *_, **__: tiling  # type: ignore[assignment]
    try:
        yield
    finally:
        launch.choose_tiling = original  # type: ignore[assignment]
        launch._plans.clear()


def compile_ahead(jobs: Sequence[Job]) -> None:
    """Make each call once, on anything; what fails here fails again, with its message, when it is timed."""
    begin = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        done = sum(pool.map(_call_once, jobs, chunksize=2))
    print(f"{done} of {len(jobs)} calls compiled in {time.monotonic() - begin:.0f} s", flush=True)


def _call_once(job: Job) -> bool:
    build, work, tiling = job
    with forced(tiling), contextlib.suppress(Exception):
        call = build(work, make_inputs(work, "cuda", filled=False))
        if call is not None:
            call()
            torch.cuda.synchronize()
        return True
    return False
