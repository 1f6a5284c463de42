"""What a step costs as samples grow: time of updates, sweeps and allocations, and the memory that is kept."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from safetensors.numpy import load_file, save_file

from keygrasp.curriculum.difficulty import DifficultyConfig, GraphDifficulty
from keygrasp.curriculum.graph import SampleGraph
from keygrasp.curriculum.neighbours import nearest
from keygrasp.curriculum.scheduler import Scheduler
from keygrasp.curriculum.simulation import SyntheticConfig, SyntheticTask
from keygrasp.errors import ConfigurationError
from keygrasp.files import atomic_path

T = TypeVar("T")
#: How the graph is made: as always, or quickly, by a search within windows of each cluster of the generator.
Search = Literal["real", "windows"]
_BUDGET = 2048
#: Samples that get their first outcomes in one update.
_TRIED_AT_ONCE = 65_536
#: Samples of a window.
_WINDOW = 512


@dataclass(frozen=True)
class Cost:
    """Measured at one size; times are wall-clock seconds.

    Attributes:
        samples: N.
        edges: Edges of the graph.
        graph_s: Features to graph and clusters.
        update_s: Updates after 256 tried samples, each.
        update_cpu_s: Their processor time: what they take where no other process is in the way.
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
    update_cpu_s: tuple[float, ...]
    sweep_s: float
    estimate_s: float
    allocate_s: float
    kept_mib: float
    peak_mib: float

    @property
    def median_update_s(self) -> float:
        """Median of the updates."""
        return float(np.median(self.update_s))

    @property
    def median_update_cpu_s(self) -> float:
        """Median of their processor times."""
        return float(np.median(self.update_cpu_s))


def measure(
    samples: int, *, updates: int = 20, seed: int = 0, search: Search = "real", graphs: Path | None = None
) -> Cost:
    """Measure at one size, on features of the synthetic study.

    Every sample has outcomes before the clock runs, so that nothing is cheaper for being empty.

    Args:
        samples: N.
        updates: How many updates are timed.
        seed: Seed of the samples.
        search: How the graph is made.
        graphs: Folder that keeps each graph, with the time that it took.

    Raises:
        ConfigurationError: If a size is out of range.
        MissingExtraError: If the size needs the extra ``graph``.
    """
    if samples < 512 or updates < 1:
        raise ConfigurationError(f"scaling: {samples} samples, {updates} updates", "Give at least 512 and 1")
    task = SyntheticTask(SyntheticConfig(samples=samples, seed=seed))
    graph_s, estimator = _made(task, DifficultyConfig(seed=seed, sweep_every=0), search, graphs)
    scheduler = Scheduler(estimator, seed=seed)
    for part in np.array_split(np.arange(samples), -(-samples // _TRIED_AT_ONCE)):
        trials = np.full(len(part), task.config.rollouts)
        scheduler.update(part, task.attempt(part, trials, 0), trials)
    update_s, update_cpu_s = [], []
    for step in range(updates):
        ids = task.draw()
        trials = np.full(len(ids), task.config.rollouts)
        outcome = ids, task.attempt(ids, trials, step), trials
        before = time.process_time()
        update_s.append(_timed(lambda outcome=outcome: scheduler.update(*outcome))[0])  # type: ignore[misc]
        update_cpu_s.append(time.process_time() - before)
    return Cost(
        samples=samples,
        edges=estimator.graph.weights.nnz // 2,
        graph_s=graph_s,
        update_s=tuple(update_s),
        update_cpu_s=tuple(update_cpu_s),
        sweep_s=_timed(estimator.sweep)[0],
        estimate_s=_timed(scheduler.estimate)[0],
        allocate_s=_timed(lambda: scheduler.allocate(_BUDGET))[0],
        kept_mib=_kept_bytes(scheduler, estimator) / 2**20,
        peak_mib=_peak_bytes() / 2**20,
    )


def _made(
    task: SyntheticTask, config: DifficultyConfig, search: Search, graphs: Path | None
) -> tuple[float, GraphDifficulty]:
    """The estimator and the seconds that it took to make, now or when it was put into the folder."""
    kept = None if graphs is None else graphs / f"{search}-{task.config.samples}-{task.config.seed}.safetensors"
    if kept is not None and kept.is_file():
        state = load_file(kept)
        return float(state.pop("graph_s")[0]), GraphDifficulty.restored(state, config)
    make = _with_windows if search == "windows" else _with_search
    seconds, estimator = _timed(lambda: make(task, config))
    if kept is not None:
        with atomic_path(kept) as temporary:
            save_file({**estimator.state_dict(), "graph_s": np.array([seconds])}, str(temporary))
    return seconds, estimator


def _with_search(task: SyntheticTask, config: DifficultyConfig) -> GraphDifficulty:
    return GraphDifficulty(task.features, config)


def _with_windows(task: SyntheticTask, config: DifficultyConfig) -> GraphDifficulty:
    """A graph of the same kind without the search: neighbours are the nearest in windows along each cluster."""
    rows, count = task.features, config.neighbours
    index, cosine = np.full((len(rows), count), -1, np.int32), np.full((len(rows), count), -2, np.float32)
    for number in range(task.config.clusters):
        members = np.flatnonzero(task.cluster == number)
        members = members[np.argsort(rows[members, 0], kind="stable")]
        for window in np.array_split(members, max(1, len(members) // _WINDOW)):
            found, like = nearest(rows[window], count, method="exact")
            index[window, : found.shape[1]], cosine[window, : found.shape[1]] = window[found], like
    return GraphDifficulty.on_graph(SampleGraph.restored(rows, index, cosine, normalise=config.normalise), config)


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
