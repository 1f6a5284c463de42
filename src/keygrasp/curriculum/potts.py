"""Difficulty states on the sample graph: a Potts prior, Beta-Binomial states, mean-field updates.

The model is that of Liu et al. (arXiv 2608.17941): sample i is in one of K states z_i with prior
p(z) ∝ Π_i A_i(z_i) · exp(β/2 Σ_ij W_ij 1[z_i = z_j]), state k succeeds with probability θ_k ~ Beta. Mean field:

    q_ik ∝ exp( log A_ik + β Σ_j W_ij q_jk + S_i E[log θ_k] + F_i E[log(1 − θ_k)] )
    a_k = 1 + Σ_i q_ik S_i,    b_k = 1 + Σ_i q_ik F_i

Of each q_i only the m most probable states are kept. The m-sparse q_i that raises the evidence lower bound most is
the m largest of these terms, normalised, so the bound still can't fall when samples are updated one after another.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import betaln, digamma

from keygrasp.curriculum.clustering import Labels
from keygrasp.curriculum.evidence import Array, State, shifted
from keygrasp.curriculum.graph import Places, SampleGraph, marked
from keygrasp.curriculum.neighbours import Floats

#: Samples that are updated at a time, which bounds the memory of a sweep.
_BLOCK = 16_384


class PottsField:
    """The variational distribution: q of every sample and the Beta of every state.

    Args:
        graph: The sample graph.
        labels: (N,) the state in which each sample starts.
        states: K.
        kept: m, how many states of each sample are kept.
        coupling: β.
        doubt: ε: a priori a sample is in another state than its label's with this probability.

    Attributes:
        values: (N, m) float32 probabilities; each row sums to 1.
        places: (N, m) int16 the states that they are of.
        successes: (K,) Σ_i q_ik S_i; the Beta's a is this + 1.
        failures: (K,) the same of failures.
    """

    def __init__(
        self, graph: SampleGraph, labels: Labels, states: int, *, kept: int, coupling: float, doubt: float
    ) -> None:
        self.graph = graph
        self.states = states
        self.kept = min(kept, states)
        self.coupling = coupling
        # log A up to what all states share: only the label's entry differs.
        self._gain = float(np.log(1 - doubt) - np.log(doubt / max(states - 1, 1))) if states > 1 else 0.0
        self.labels = labels
        self.successes = np.zeros(states)
        self.failures = np.zeros(states)
        self.values, self.places = self._start(labels)

    def _start(self, labels: Labels) -> tuple[Floats, Labels]:
        """Rows at the prior A: the label's state and the m - 1 that follow it."""
        places = (labels[:, None].astype(np.int32) + np.arange(self.kept)) % self.states
        values = np.ones((len(labels), self.kept), np.float32)
        values[:, 0] = np.exp(self._gain)
        values /= values.sum(axis=1, keepdims=True)
        return values, places.astype(np.int16)

    def grow(self, labels: Labels) -> None:
        """Add samples with these labels; the graph has them already. They take their neighbours' states at once."""
        old = len(self.labels)
        values, places = self._start(labels)
        self.labels = np.concatenate([self.labels, labels])
        self.values = np.concatenate([self.values, values])
        self.places = np.concatenate([self.places, places])
        none = np.zeros(len(labels))
        self.update(np.arange(old, len(self.labels)), none, none)

    def expected(self, rows: Places | slice = slice(None)) -> Array:
        """Mean (n,) of the state's success rate under q."""
        a, b = 1 + self.successes, 1 + self.failures
        mean = (a / (a + b)).astype(np.float32)[self.places[rows]]
        found: Array = np.einsum("nm,nm->n", self.values[rows], mean).astype(np.float64)
        return found

    def moments(self, rows: Places | slice = slice(None)) -> tuple[Array, Array]:
        """Mean and variance of the state's success rate under q, each (n,)."""
        a, b = (1 + total.astype(np.float32) for total in (self.successes, self.failures))
        return self._mixture(self.values[rows], a[self.places[rows]], b[self.places[rows]])

    def moments_of_others(self, rows: Places, successes: Array, failures: Array) -> tuple[Array, Array]:
        """The same from the outcomes of the other samples: without what ``rows``' own evidence gave their states."""
        mean, variance = np.empty(len(rows)), np.empty(len(rows))
        for begin in range(0, len(rows), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            values, places = self.values[rows[block]], self.places[rows[block]]
            a, b = (
                np.maximum(1 + total.astype(np.float32)[places] - values * own[block, None].astype(np.float32), 1)
                for total, own in ((self.successes, successes), (self.failures, failures))
            )
            mean[block], variance[block] = self._mixture(values, a, b)
        return mean, variance

    def _mixture(self, values: Floats, a: Floats, b: Floats) -> tuple[Array, Array]:
        """Mean and variance (n,) of a mixture of Betas, all (n, m)."""
        means = a / (a + b)
        first = np.einsum("nm,nm->n", values, means).astype(np.float64)
        square = np.einsum("nm,nm->n", values, means * (a + 1) / (a + b + 1)).astype(np.float64)
        return np.clip(first, 1e-6, 1 - 1e-6), np.maximum(square - first**2, 0)

    def age(self, forgetting: float, shift: float) -> None:
        """Let the states' evidence fade by a factor, and move their success rates by a shift in logits."""
        self.successes *= forgetting
        self.failures *= forgetting
        if shift:
            strength = 2 + self.successes + self.failures
            mean = shifted((1 + self.successes) / strength, shift)
            self.successes = np.maximum(strength * mean - 1, 0)
            self.failures = np.maximum(strength * (1 - mean) - 1, 0)

    def count(self, rows: Places, successes: Array, failures: Array, *, sign: float = 1.0) -> None:
        """Add (or with ``sign`` -1 take away) evidence of ``rows`` to their states, each by its q."""
        some = np.flatnonzero(successes + failures)
        place, values = self.places[rows[some]].ravel().astype(np.intp), self.values[rows[some]]
        for total, part in ((self.successes, successes), (self.failures, failures)):
            added = np.bincount(place, (values * part[some, None]).ravel(), minlength=self.states)
            np.maximum(total + sign * added, 0, out=total)

    def update(self, rows: Places, successes: Array, failures: Array) -> None:
        """Set q of ``rows`` from their neighbours, their prior and their evidence, all at once (in parallel).

        Their evidence, which the states have by the old q, moves along.
        """
        log_rates = np.stack(self._log_rates()).astype(np.float32)
        for begin in range(0, len(rows), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            part, s, f = rows[block], successes[block], failures[block]
            terms = self._terms(part)
            terms += np.stack([s, f], axis=1).astype(np.float32) @ log_rates
            self.count(part, s, f, sign=-1.0)
            self.values[part], self.places[part] = _likeliest(terms, self.kept)
            self.count(part, s, f)

    def refit(self, successes: Array, failures: Array) -> None:
        """Set the Betas from the evidence (N,) of all samples."""
        self.successes[:] = self.failures[:] = 0
        self.count(np.arange(len(self.labels)), successes, failures)

    def sweep(self, successes: Array, failures: Array, *, sequential: bool = False) -> None:
        """Update all samples once from their evidence (N,), which the states have.

        ``sequential`` takes groups without an edge inside one after another: the same as one sample after another, so
        that :meth:`bound` can't fall. Else all samples look at the same neighbours, which is faster.
        """
        groups = self.graph.colours() if sequential else [np.arange(len(self.labels))]
        for rows in groups:
            self.update(rows, successes[rows], failures[rows])

    def bound(self, successes: Array, failures: Array) -> float:
        """Evidence lower bound of evidence (N,), up to constants of the model (the Potts prior's normaliser)."""
        log_success, log_failure = self._log_rates()
        total = 0.0
        for begin in range(0, len(self.labels), _BLOCK):
            rows = np.arange(begin, min(begin + _BLOCK, len(self.labels)))
            q, places = self.values[rows].astype(np.float64), self.places[rows]
            own = self._gain * (places == self.labels[rows, None])
            field = self.coupling / 2 * np.take_along_axis(self._neighbours(rows), places.astype(np.int64), axis=1)
            likely = successes[rows, None] * log_success[places] + failures[rows, None] * log_failure[places]
            entropy = -np.log(np.where(q > 0, q, 1))
            total += float((q * (own + field + likely + entropy)).sum())
        a, b = 1 + self.successes, 1 + self.failures
        divergence = (a - 1) * log_success + (b - 1) * log_failure - betaln(a, b)
        return total - float(divergence.sum())

    def _log_rates(self) -> tuple[Array, Array]:
        """E[log θ_k] and E[log(1 − θ_k)]."""
        a, b = 1 + self.successes, 1 + self.failures
        both = digamma(a + b)
        return np.asarray(digamma(a) - both), np.asarray(digamma(b) - both)

    def _terms(self, rows: Places) -> Floats:
        """The terms log A + β Σ_j W_ij q_j of ``rows``, dense (n, K)."""
        terms = np.float32(self.coupling) * self._neighbours(rows)
        terms[np.arange(len(rows)), self.labels[rows]] += np.float32(self._gain)
        return terms

    def _neighbours(self, rows: Places) -> Floats:
        """Σ_j W_ij q_j of ``rows``, dense (n, K): the q_j that are needed are spread out once, then multiplied."""
        part = self.graph.weights[rows]
        columns = np.flatnonzero(marked(len(self.labels), part.indices))
        place = np.zeros(len(self.labels), np.int32)
        place[columns] = np.arange(len(columns), dtype=np.int32)
        spread = np.zeros(len(columns) * self.states, np.float32)
        first = np.arange(0, len(spread), self.states, dtype=np.int64)
        spread[(self.places[columns] + first[:, None]).ravel()] = self.values[columns].ravel()
        local = sparse.csr_array((part.data, place[part.indices], part.indptr), shape=(len(rows), len(columns)))
        return np.asarray(local @ spread.reshape(len(columns), self.states), dtype=np.float32)

    def state_dict(self) -> State:
        """Arrays that :meth:`load_state_dict` takes."""
        return {
            "values": self.values,
            "places": self.places,
            "labels": self.labels,
            "state_successes": self.successes,
            "state_failures": self.failures,
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore what :meth:`state_dict` gave."""
        self.values = np.array(state["values"], np.float32)
        self.places = np.array(state["places"], np.int16)
        self.labels = np.array(state["labels"], np.int16)
        self.successes = np.array(state["state_successes"], np.float64)
        self.failures = np.array(state["state_failures"], np.float64)


def _likeliest(terms: Floats, count: int) -> tuple[Floats, Labels]:
    """The ``count`` largest of each row of logarithms (n, K) as probabilities that sum to 1, and their places."""
    if count < terms.shape[1]:
        places = np.argpartition(terms, -count, axis=1)[:, -count:]
        terms = np.take_along_axis(terms, places, axis=1)
    else:
        places = np.broadcast_to(np.arange(count), terms.shape)
    values = np.exp(terms - terms.max(axis=1, keepdims=True))
    values /= values.sum(axis=1, keepdims=True)
    return values, places.astype(np.int16)
