"""What a step costs as samples grow: time of updates, sweeps and allocations, and the memory that is kept."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from keygrasp.curriculum.difficulty import DifficultyConfig, GraphDifficulty
from keygrasp.curriculum.scheduler import Scheduler
from keygrasp.curriculum.simulation import SyntheticConfig, SyntheticTask
from keygrasp.errors import ConfigurationError

T = TypeVar("T")
_BUDGET = 2048


@dataclass(frozen=True)
class Cost:
    """Measured at one size; times are wall-clock seconds.

    Attributes:
        samples: N.
        edges: Edges of the graph.
        graph_s: Features to graph and clusters.
        update_s: Updates after 256 tried samples, each.
        sweep_s: A full sweep.
        estimate_s: All estimates.
        allocate_s: A budget of 2,048 trials, estimates included.
        kept_mib: Memory that the scheduler keeps, graph included.
        peak_mib: Most memory of the process since it began, the making of the graph included.
    """

    samples: int
    edges: int
    graph_s: float
    update_s: tuple[float, ...]
    sweep_s: float
    estimate_s: float
    allocate_s: float
    kept_mib: float
    peak_mib: float

    @property
    def median_update_s(self) -> float:
        """Median of the updates."""
        return float(np.median(self.update_s))


def measure(samples: int, *, updates: int = 20, seed: int = 0, config: DifficultyConfig | None = None) -> Cost:
    """Measure at one size, on features of the synthetic study.

    Every sample has outcomes before the clock runs, so that nothing is cheaper for being empty.

    Raises:
        ConfigurationError: If a size is out of range.
        MissingExtraError: If the size needs the extra ``graph``.
    """
    if samples < 512 or updates < 1:
        raise ConfigurationError(f"scaling: {samples} samples, {updates} updates", "Give at least 512 and 1")
    task = SyntheticTask(SyntheticConfig(samples=samples, seed=seed))
    config = config or DifficultyConfig(seed=seed, sweep_every=0)
    graph_s, estimator = _timed(lambda: GraphDifficulty(task.features, config))
    scheduler = Scheduler(estimator, seed=seed)
    every = np.arange(samples)
    scheduler.update(every, task.attempt(every, np.full(samples, 8), 0), np.full(samples, 8))
    update_s = []
    for step in range(updates):
        ids = task.draw()
        trials = np.full(len(ids), task.config.rollouts)
        outcome = ids, task.attempt(ids, trials, step), trials
        update_s.append(_timed(lambda outcome=outcome: scheduler.update(*outcome))[0])  # type: ignore[misc]
    return Cost(
        samples=samples,
        edges=estimator.graph.weights.nnz // 2,
        graph_s=graph_s,
        update_s=tuple(update_s),
        sweep_s=_timed(estimator.sweep)[0],
        estimate_s=_timed(scheduler.estimate)[0],
        allocate_s=_timed(lambda: scheduler.allocate(_BUDGET))[0],
        kept_mib=_kept_bytes(scheduler, estimator) / 2**20,
        peak_mib=_peak_bytes() / 2**20,
    )


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def _kept_bytes(scheduler: Scheduler, estimator: GraphDifficulty) -> int:
    """Bytes of all arrays between two calls: the state, and the sparse weights that are made from it."""
    weights = estimator.graph.weights
    arrays = [*scheduler.state_dict().values(), weights.data, weights.indices, weights.indptr]
    return int(sum(array.nbytes for array in arrays))


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
