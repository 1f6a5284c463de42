"""The synthetic study: 10,000 samples in 64 clusters, a policy that improves, estimators that see the same trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from keygrasp.curriculum.baselines import GlobalRate, HistoryBeta, LatestRate, NeighbourBeta
from keygrasp.curriculum.difficulty import DifficultyConfig, GraphDifficulty
from keygrasp.curriculum.estimates import Estimator
from keygrasp.curriculum.evidence import Array
from keygrasp.curriculum.graph import Places
from keygrasp.curriculum.neighbours import Floats
from keygrasp.errors import ConfigurationError

#: What is measured after a step.
FIGURES = ("mae", "spearman", "mae_never_seen")


@dataclass(frozen=True)
class SyntheticConfig:
    """The generator's settings.

    Attributes:
        samples: N.
        clusters: Cluster centres ~ N(0, I); a sample's features are a random centre plus ``spread`` · N(0, I).
        features: D.
        spread: Spread of features within a cluster.
        difference: Standard deviation of the clusters' logits.
        noise: Standard deviation of a sample's logit around its cluster's.
        offset: Logit of the middle at the start.
        drift: By how many logits the policy improves over all steps.
        steps: Steps.
        batch: Random samples that are tried in a step.
        rollouts: Trials of each.
        scored: Steps at the end over which figures are averaged.
        seed: Seed of everything.
    """

    samples: int = 10_000
    clusters: int = 64
    features: int = 16
    spread: float = 0.35
    difference: float = 2.0
    noise: float = 0.5
    offset: float = -1.5
    drift: float = 3.0
    steps: int = 60
    batch: int = 256
    rollouts: int = 8
    scored: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.samples, self.clusters, self.features, self.steps, self.batch, self.rollouts, self.scored) < 1:
            raise ConfigurationError("simulation: sizes must be at least 1", "Give positive numbers")
        if self.samples < 2 or self.batch > self.samples or self.scored > self.steps:
            raise ConfigurationError(
                f"simulation: samples={self.samples}, batch={self.batch}, steps={self.steps}, scored={self.scored}",
                "Give at least 2 samples, no more a batch than samples, and no more scored steps than steps",
            )


class SyntheticTask:
    """Samples with a success rate that rises while the policy learns.

    Attributes:
        config: Settings.
        features: (N, D) float32.
        cluster: (N,) each sample's cluster.
        logits: (N,) at the start.
    """

    def __init__(self, config: SyntheticConfig) -> None:
        self.config = config
        self._rng = np.random.default_rng(config.seed)
        centres = self._rng.normal(size=(config.clusters, config.features))
        self.cluster: Places = self._rng.integers(config.clusters, size=config.samples)
        around = self._rng.normal(size=(config.samples, config.features))
        rows = centres[self.cluster] + config.spread * around
        self.features: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        values = config.difference * self._rng.normal(size=config.clusters)
        own = config.noise * self._rng.normal(size=config.samples)
        self.logits: Array = values[self.cluster] + own + config.offset

    def rates(self, step: int) -> Array:
        """Success rate (N,) of each sample after ``step`` steps."""
        return np.asarray(expit(self.logits + self.config.drift * step / self.config.steps))

    def draw(self) -> Places:
        """A batch of different samples."""
        return np.sort(self._rng.choice(self.config.samples, self.config.batch, replace=False))

    def attempt(self, ids: Places, trials: Places, step: int) -> Places:
        """Successes of ``trials`` (n,) trials of each of ``ids`` (n,)."""
        return self._rng.binomial(trials, self.rates(step)[ids])


def _graph(**changes: object) -> Callable[[Floats, int], Estimator]:
    return lambda features, seed: GraphDifficulty(features, DifficultyConfig(seed=seed, **changes))  # type: ignore[arg-type]


def _paper(features: Floats, seed: int) -> Estimator:
    same = {"states": 64, "kept": 64, "neighbours": 20, "start": "kmeans"}
    return GraphDifficulty(features, DifficultyConfig.paper(seed=seed, **same))


#: Estimators by name: ours, what it is compared with, and ours with one part left out. The paper's updates run with
#: ours' K, graph and start. kNN-Beta is there twice: with ours' forgetting, and with the one that suits it best here.
METHODS: dict[str, Callable[[Floats, int], Estimator]] = {
    "graph": _graph(),
    "paper": _paper,
    "knn": lambda features, seed: NeighbourBeta(features, seed=seed),
    "knn-tuned": lambda features, seed: NeighbourBeta(features, seed=seed, forgetting=0.85),
    "history": lambda features, seed: HistoryBeta(features),
    "latest": lambda features, seed: LatestRate(features),
    "uniform": lambda features, seed: GlobalRate(features, forgetting=0.85),
    "beta=0": _graph(coupling=0.0),
    "no shift": _graph(shift=0.0),
    "no forgetting": _graph(forgetting=1.0),
    "random start": _graph(start="random"),
    "spectral start": _graph(start="spectral"),
    "fixed strength": _graph(learn_strength=False),
}
#: Those that are compared with; the others are ours with one part changed.
BASELINES = ("paper", "knn", "knn-tuned", "history", "latest", "uniform")


@dataclass(frozen=True, eq=False)
class Curves:
    """One method's figures after each step.

    Attributes:
        figures: By name of :data:`FIGURES`, (steps,); NaN where there was nothing to measure.
        seconds: Processor seconds that a step's update took on average.
    """

    figures: dict[str, Array]
    seconds: float

    def final(self, config: SyntheticConfig) -> dict[str, float]:
        """Means over the scored steps."""
        return {name: float(np.nanmean(values[-config.scored :])) for name, values in self.figures.items()}


def simulate(
    config: SyntheticConfig,
    methods: Iterable[str] = tuple(METHODS),
    on_step: Callable[[int], None] | None = None,
) -> dict[str, Curves]:
    """Let all methods see the same trials; score them after each step against the true rates of all samples.

    Raises:
        ConfigurationError: If a method is unknown.
    """
    names = tuple(methods)
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise ConfigurationError(f"unknown method '{unknown[0]}'", f"Known: {', '.join(METHODS)}")
    task = SyntheticTask(config)
    estimators = {name: METHODS[name](task.features, config.seed) for name in names}
    seconds = dict.fromkeys(names, 0.0)
    figures = {name: {figure: np.full(config.steps, np.nan) for figure in FIGURES} for name in names}
    seen = np.zeros(config.samples, dtype=bool)
    trials = np.full(config.batch, config.rollouts)
    for step in range(1, config.steps + 1):
        ids = task.draw()
        successes = task.attempt(ids, trials, step)
        seen[ids] = True
        truth = task.rates(step)
        for name, estimator in estimators.items():
            begin = time.process_time()
            estimator.update(ids, successes.astype(float), trials.astype(float))
            seconds[name] += time.process_time() - begin
            for figure, value in zip(FIGURES, score(estimator.estimate().mean, truth, seen), strict=True):
                figures[name][figure][step - 1] = value
        if on_step is not None:
            on_step(step)
    return {name: Curves(figures[name], seconds[name] / config.steps) for name in names}


def score(mean: Array, truth: Array, seen: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Mean absolute error, Spearman's rank correlation, and the error on samples never seen (NaN without any)."""
    error = np.abs(mean - truth)
    return float(error.mean()), spearman(mean, truth), float(error[~seen].mean()) if (~seen).any() else float("nan")


def spearman(first: Array, second: Array) -> float:
    """Spearman's rank correlation; 0 where either is constant."""
    from scipy.stats import rankdata  # slow to import

    ranks = [rankdata(values) for values in (first, second)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
