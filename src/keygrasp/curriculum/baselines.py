"""Simpler estimators of each sample's success rate, behind the same three calls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.curriculum.estimates import Estimate, beta_estimate
from keygrasp.curriculum.evidence import Array, Evidence, State
from keygrasp.curriculum.graph import Places, SampleGraph
from keygrasp.curriculum.neighbours import Method, unit_rows
from keygrasp.errors import ConfigurationError

#: Pseudo-successes and pseudo-failures of every sample before it was tried.
_PRIOR = 1.0


class HistoryBeta:
    """Each sample by itself: α ← λα + (1 − λ)α₀ + s, the same for β (MoPPS, Qu et al., arXiv 2507.04632).

    Args:
        features: (N, D); only their number counts.
        forgetting: λ.
    """

    def __init__(self, features: ArrayLike, *, forgetting: float = 0.98) -> None:
        if not 0 < forgetting <= 1:
            raise ConfigurationError(f"curriculum: forgetting is {forgetting}", "It lies in (0, 1]")
        self._width = unit_rows(features).shape[1]
        self.evidence = Evidence(len(np.asarray(features)), forgetting)

    def __len__(self) -> int:
        return len(self.evidence.successes)

    def estimate(self) -> Estimate:
        """The present estimate of all samples."""
        successes, failures = self._present(slice(None))
        return beta_estimate(_PRIOR + successes, _PRIOR + failures)

    def update(self, places: Places, successes: Array, trials: Array) -> None:
        """Take one step's outcomes of ``places``, each once."""
        if len(places):
            self.evidence.advance()
            won, lost = self._present(places)
            self.evidence.record(places, won + successes, lost + trials - successes)

    def add(self, features: ArrayLike) -> None:
        """Add samples, of which nothing is known."""
        self.evidence.grow(len(unit_rows(features, width=self._width)))

    def _present(self, places: Places | slice) -> tuple[Array, Array]:
        expected = np.zeros(len(self.evidence.successes[places]))  # nothing moves: no expectation is needed
        return self.evidence.read(places, expected)

    def state_dict(self) -> State:
        """Everything that was learned, as arrays."""
        return self.evidence.state_dict()

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore what :meth:`state_dict` gave."""
        self.evidence.load_state_dict(state)


class GlobalRate(HistoryBeta):
    """One success rate for all samples: what a scheduler knows that tells none from another."""

    def estimate(self) -> Estimate:
        """The same estimate for all samples."""
        successes, failures = self._present(slice(None))
        ones = np.ones(len(self))
        return beta_estimate(ones * (_PRIOR + successes.sum()), ones * (_PRIOR + failures.sum()))


class LatestRate(HistoryBeta):
    """A sample's newest outcomes alone (Rutherford et al., NeurIPS 2024; prioritised level replay)."""

    def update(self, places: Places, successes: Array, trials: Array) -> None:
        """Take one step's outcomes of ``places``, each once."""
        if len(places):
            self.evidence.advance()
            self.evidence.record(places, successes, trials - successes)


class NeighbourBeta(HistoryBeta):
    """A sample's outcomes and those of its k nearest neighbours, added up (kNN-Beta).

    Args:
        features: (N, D) of any kind.
        neighbours: k.
        forgetting: λ.
        search: How neighbours are searched.
        seed: Seed of the approximate search.
    """

    def __init__(
        self,
        features: ArrayLike,
        *,
        neighbours: int = 20,
        forgetting: float = 0.98,
        search: Method = "auto",
        seed: int = 0,
    ) -> None:
        super().__init__(features, forgetting=forgetting)
        self.graph = SampleGraph(features, neighbours=neighbours, method=search, seed=seed)

    def estimate(self) -> Estimate:
        """The present estimate of all samples."""
        successes, failures = self._present(slice(None))
        near = np.where(self.graph.nearest >= 0, self.graph.nearest, len(self))
        totals = [_PRIOR + own + np.append(own, 0.0)[near].sum(axis=1) for own in (successes, failures)]
        return beta_estimate(*totals)

    def add(self, features: ArrayLike) -> None:
        """Add samples: they get their neighbours' outcomes at once."""
        self.evidence.grow(len(self.graph.add(features)))

    def state_dict(self) -> State:
        """Everything that was learned and the graph, as arrays."""
        graph = {"rows": self.graph.rows, "nearest": self.graph.nearest, "cosine": self.graph.cosine}
        return {**super().state_dict(), **graph}

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore what :meth:`state_dict` gave."""
        super().load_state_dict(state)
        rows, cosine = np.array(state["rows"], np.float32), np.array(state["cosine"], np.float32)
        self.graph = SampleGraph.restored(rows, np.array(state["nearest"], np.int32), cosine, normalise=True)
