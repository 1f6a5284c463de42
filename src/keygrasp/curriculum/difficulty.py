"""The difficulty of all samples from trials of some: states on the sample graph, kept up while a policy learns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from keygrasp.curriculum.clustering import Clustering, cluster, nearest_centre
from keygrasp.curriculum.estimates import Estimate
from keygrasp.curriculum.evidence import Array, Evidence, State, safe_logit, shifted
from keygrasp.curriculum.graph import Places, SampleGraph
from keygrasp.curriculum.neighbours import Method
from keygrasp.curriculum.potts import PottsField
from keygrasp.errors import ConfigurationError

_MAX_STATES = 4096
#: What an estimate is worth at least, in pseudo-trials.
_WEAKEST = 0.1
#: Newton steps for the shift (it has converged after four), and the largest shift in logits that one step may bring.
_NEWTON_STEPS = 8
_LARGEST_SHIFT = 3.0
#: Share of a step's shift that flows into the usual one.
_TREND_RATE = 0.1
#: Share of what is known about κ that fades in a step, the weight of its start, and bounds of 1/(κ + 1).
_SPREAD_RATE = 0.1
_SPREAD_PRIOR = 50.0
_CORRELATIONS = (0.01, 0.6)


@dataclass(frozen=True)
class DifficultyConfig:
    """Settings of :class:`GraphDifficulty`; the defaults are the paper's method with the fixes of docs/curriculum.md.

    Attributes:
        states: K, difficulty states; there are never more than samples.
        kept: States of each sample that are kept.
        neighbours: k of the mutual nearest-neighbour graph.
        normalise: Weigh neighbours so that a sample's together count about 1; else by their cosines.
        coupling: β of the Potts prior.
        doubt: ε: a priori a sample is in another state than its cluster's with this probability.
        start: How the clusters are found.
        search: How neighbours are searched.
        forgetting: λ: what was seen weighs so much less a step.
        remember: Let all earlier outcomes of a sample count, discounted; else those of the present step alone.
        shift: Standard deviation of the policy's common move in logits a step; 0 tracks none.
        strength: κ at the start: pseudo-trials that a sample's state is worth beside its own outcomes.
        learn_strength: Estimate κ from how far samples lie from their states when they are first tried.
        blend: A tried sample's estimate: by ``strength``, or ``half`` its own rate and half its state's.
        sweep_every: Steps between updates of all samples; between them only what was seen and its neighbours are. 0
            never does.
        seed: Seed of clusters and of the approximate search.
    """

    states: int = 64
    kept: int = 16
    neighbours: int = 20
    normalise: bool = True
    coupling: float = 5.0
    doubt: float = 0.1
    start: Clustering = "kmeans"
    search: Method = "auto"
    forgetting: float = 0.98
    remember: bool = True
    shift: float = 0.1
    strength: float = 6.0
    learn_strength: bool = True
    blend: Literal["strength", "half"] = "strength"
    sweep_every: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.states <= _MAX_STATES and self.kept >= 1 and self.neighbours >= 1 and self.sweep_every >= 0):
            raise ConfigurationError(
                f"curriculum: states={self.states}, kept={self.kept}, neighbours={self.neighbours}, "
                f"sweep_every={self.sweep_every}",
                f"Give 1 to {_MAX_STATES} states, at least 1 kept and 1 neighbour, 0 or more steps",
            )
        if not (0 < self.doubt < 1 and 0 < self.forgetting <= 1):
            raise ConfigurationError(
                f"curriculum: doubt={self.doubt}, forgetting={self.forgetting}",
                "Doubt lies in (0, 1), forgetting in (0, 1]",
            )
        if not (0 <= self.coupling < np.inf and 0 <= self.shift < np.inf and 0 < self.strength < np.inf):
            raise ConfigurationError(
                f"curriculum: coupling={self.coupling}, shift={self.shift}, strength={self.strength}",
                "They are finite, coupling and shift at least 0, strength positive",
            )

    @classmethod
    def paper(cls, **changes: object) -> DifficultyConfig:
        """The version of Liu et al. (arXiv 2608.17941): 320 states, 80 neighbours, and without the fixes."""
        version = cls(
            states=320, kept=320, neighbours=80, normalise=False, coupling=2.0, start="spectral", remember=False,
            shift=0.0, learn_strength=False, blend="half",
        )  # fmt: skip
        return dataclasses.replace(version, **changes)  # type: ignore[arg-type]


class GraphDifficulty:
    """An :class:`~keygrasp.curriculum.estimates.Estimator` on the sample graph.

    A step costs what the tried samples and their neighbours need, not what all samples would.

    Args:
        features: (N, D) of any kind: cosines between them should say which samples are alike.
        config: Settings.

    Attributes:
        graph: The sample graph.
        field: The states.
        evidence: What was seen.
        strength: κ at present.
    """

    def __init__(self, features: ArrayLike, config: DifficultyConfig | None = None) -> None:
        c = config or DifficultyConfig()
        graph = SampleGraph(features, neighbours=c.neighbours, normalise=c.normalise, method=c.search, seed=c.seed)
        self._start(graph, c)

    @classmethod
    def on_graph(cls, graph: SampleGraph, config: DifficultyConfig | None = None) -> GraphDifficulty:
        """An estimator on a graph that was made elsewhere, as by a nearest-neighbour search of one's own."""
        estimator = cls.__new__(cls)
        estimator._start(graph, config or DifficultyConfig())
        return estimator

    def _start(self, graph: SampleGraph, config: DifficultyConfig) -> None:
        self.config, self.graph = config, graph
        labels, self._centres = cluster(graph, min(config.states, len(graph)), config.start, config.seed)
        self._build(labels)

    @classmethod
    def restored(
        cls, state: Mapping[str, NDArray[np.generic]], config: DifficultyConfig | None = None
    ) -> GraphDifficulty:
        """An estimator from what :meth:`state_dict` gave; nothing is searched or clustered."""
        estimator = cls.__new__(cls)
        estimator.config = config or DifficultyConfig()
        estimator.load_state_dict(state)
        return estimator

    def _build(self, labels: NDArray[np.int16]) -> None:
        c = self.config
        self.field = PottsField(self.graph, labels, len(self._centres), kept=c.kept, coupling=c.coupling, doubt=c.doubt)
        self.evidence = Evidence(len(labels), c.forgetting)
        self.strength = c.strength
        self._usual = 0.0
        self._excess = np.zeros(2)

    def __len__(self) -> int:
        return len(self.graph)

    def estimate(self) -> Estimate:
        """The present estimate of all samples."""
        return self._estimate(slice(None))

    def update(self, places: Places, successes: Array, trials: Array) -> None:
        """Take one step's outcomes of ``places``, each once."""
        if not len(places):
            return
        shift = self._shift(places, successes, trials) if self.config.shift else 0.0
        if self.config.learn_strength:
            self._learn_strength(places, successes, trials, shift)
        self.evidence.advance(shift)
        self.field.age(self.config.forgetting, shift)
        rows = self.graph.around(places)
        won, lost = self._known(rows)
        own = np.searchsorted(rows, places)
        won[own] += successes
        lost[own] += trials - successes
        self.field.count(places, successes, trials - successes)
        self.field.update(rows, won, lost)
        self.evidence.record(places, won[own], lost[own])
        if self.config.sweep_every and self.evidence.step % self.config.sweep_every == 0:
            self.sweep()

    def sweep(self, *, sequential: bool = False) -> None:
        """Update all samples, and the states' success rates from all that is remembered; see :class:`PottsField`."""
        won, lost = self._known(np.arange(len(self)))
        if self.config.remember:
            self.field.refit(won, lost)
        self.field.sweep(won, lost, sequential=sequential)

    def bound(self) -> float:
        """The evidence lower bound of what is remembered, up to a constant of the model."""
        return self.field.bound(*self._known(np.arange(len(self))))

    def add(self, features: ArrayLike) -> None:
        """Add samples: they get their neighbours' estimate at once."""
        added = self.graph.add(features)
        self.evidence.grow(len(added))
        self.field.grow(nearest_centre(self.graph.rows[added], self._centres))

    def _known(self, rows: Places) -> tuple[Array, Array]:
        """Successes and failures of ``rows`` that count for their states."""
        if not self.config.remember:
            return np.zeros(len(rows)), np.zeros(len(rows))
        return self.evidence.read(rows, self.field.expected(rows))

    def _estimate(self, rows: Places | slice) -> Estimate:
        mean, variance = self.field.moments(rows)
        successes, failures = self.evidence.read(rows, mean)
        trials = successes + failures
        if self.config.remember:  # else the sample would count twice: by itself, and in its state
            own = np.flatnonzero(trials)
            mean[own], variance[own] = self.field.moments_of_others(
                np.arange(len(self))[rows][own], successes[own], failures[own]
            )
        # The strength of a Beta with the variance of state (which may be unknown) and sample within its state.
        spread = mean * (1 - mean)
        strength = np.maximum(spread / (variance + spread / (self.strength + 1)) - 1, _WEAKEST)
        if self.config.blend == "half":
            own = np.where(trials > 0, successes / np.maximum(trials, 1e-12), mean)
            return Estimate(np.clip((own + mean) / 2, 1e-6, 1 - 1e-6), strength + trials)
        return Estimate((strength * mean + successes) / (strength + trials), strength + trials)

    def _shift(self, places: Places, successes: Array, trials: Array) -> float:
        """How far all logits have moved since the last step: the mode given a normal prior around the usual move.

        A sample's n trials count as its Beta-Binomial's: (κ + 1)/(κ + n) each, κ being what its estimate is worth.
        """
        now = self._estimate(places)
        weight = (now.strength + 1) / (now.strength + trials)
        logits, precision = safe_logit(now.mean), self.config.shift**-2
        shift = self._usual
        for _ in range(_NEWTON_STEPS):
            rate = expit(logits + shift)
            slope = (weight * (successes - trials * rate)).sum() - precision * (shift - self._usual)
            shift += float(slope / ((weight * trials * rate * (1 - rate)).sum() + precision))
        shift = float(np.clip(shift, -_LARGEST_SHIFT, _LARGEST_SHIFT))
        self._usual += _TREND_RATE * (shift - self._usual)
        return shift

    def _learn_strength(self, places: Places, successes: Array, trials: Array, shift: float) -> None:
        """Estimate κ by moments: E(s − nm)² = nm(1 − m)(1 + (n − 1)ρ) with ρ = 1/(κ + 1), and the state's variance.

        Only samples that are tried for the first time tell, since a sample's state follows its own outcomes too.
        """
        fresh = ~self.evidence.seen()[places]
        self._excess *= 1 - _SPREAD_RATE
        if not fresh.any():
            return
        mean, variance = self.field.moments(places[fresh])
        mean, won, n = shifted(mean, shift), successes[fresh], trials[fresh]
        spread = mean * (1 - mean)
        self._excess += (
            float(((won - n * mean) ** 2 - n * spread - n * (n - 1) * variance).sum()),
            float((n * (n - 1) * spread).sum()),
        )
        correlation = (self._excess[0] + _SPREAD_PRIOR / (self.config.strength + 1)) / (self._excess[1] + _SPREAD_PRIOR)
        self.strength = float(1 / np.clip(correlation, *_CORRELATIONS) - 1)

    def state_dict(self) -> State:
        """Everything that was learned and the graph, as arrays."""
        return {
            "rows": self.graph.rows,
            "nearest": self.graph.nearest,
            "cosine": self.graph.cosine,
            "centres": self._centres,
            "policy": np.array([self.strength, self._usual, *self._excess]),
            **self.evidence.state_dict(),
            **self.field.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore what :meth:`state_dict` gave, samples and graph included."""
        rows, cosine = np.array(state["rows"], np.float32), np.array(state["cosine"], np.float32)
        self.graph = SampleGraph.restored(
            rows, np.array(state["nearest"], np.int32), cosine, normalise=self.config.normalise
        )
        self._centres = np.array(state["centres"], np.float32)
        self._build(np.array(state["labels"], np.int16))
        self.field.load_state_dict(state)
        self.evidence.load_state_dict(state)
        self.strength, self._usual = (float(v) for v in state["policy"][:2])
        self._excess = np.array(state["policy"][2:], np.float64)
