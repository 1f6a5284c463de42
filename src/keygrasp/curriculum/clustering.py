"""Where each sample's state starts: k-means over features, spectral clusters of the graph, or at random."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from keygrasp.curriculum.graph import SampleGraph
from keygrasp.curriculum.neighbours import Floats

Labels = NDArray[np.int16]
Clustering = Literal["kmeans", "spectral", "random"]

#: Samples that k-means learns its centres from; the others are assigned afterwards.
_LEARNED_FROM = 65_536
_ROUNDS = 25
_BLOCK = 16_384
#: Eigenvectors of the graph that spectral clustering uses, at most.
_EIGENVECTORS = 64


def cluster(graph: SampleGraph, states: int, kind: Clustering, seed: int) -> tuple[Labels, Floats]:
    """Label (N,) of each sample and centres (states, D) in feature space, which label samples that come later."""
    rng = np.random.default_rng([seed, 1])
    if kind == "random":
        labels = rng.integers(states, size=len(graph)).astype(np.int16)
    elif kind == "spectral" and len(graph) > 2:
        labels = k_means(_embedding(graph, states, seed), states, rng)[0]
    else:
        return k_means(graph.rows, states, rng)
    return labels, _means(graph.rows, labels, states)


def k_means(rows: Floats, states: int, rng: np.random.Generator) -> tuple[Labels, Floats]:
    """Lloyd's algorithm from k-means++ seeds; labels (N,) and centres (states, D). Empty clusters keep their centre."""
    sample = rows if len(rows) <= _LEARNED_FROM else rows[np.sort(rng.choice(len(rows), _LEARNED_FROM, replace=False))]
    centres = _plus_plus(sample, states, rng)
    labels = nearest_centre(sample, centres)
    for _ in range(_ROUNDS):
        centres = _means(sample, labels, states, otherwise=centres)
        before, labels = labels, nearest_centre(sample, centres)
        if np.array_equal(before, labels):
            break
    return nearest_centre(rows, centres), centres


def nearest_centre(rows: Floats, centres: Floats) -> Labels:
    """Number of the nearest centre (Euclidean) of each row."""
    half = (centres**2).sum(axis=1) / 2
    parts = [(rows[begin : begin + _BLOCK] @ centres.T - half).argmax(axis=1) for begin in range(0, len(rows), _BLOCK)]
    return np.concatenate(parts).astype(np.int16)


def _plus_plus(rows: Floats, states: int, rng: np.random.Generator) -> Floats:
    """Greedy k-means++ seeds (Arthur & Vassilvitskii, SODA 2007): of a few draws the one that helps most.

    Fewer different rows than states repeat one.
    """
    draws = 2 + int(np.log(states))
    square = (rows**2).sum(axis=1)
    chosen = [int(rng.integers(len(rows)))]
    distance = ((rows - rows[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < states:
        heap = np.cumsum(distance, dtype=np.float64)
        if heap[-1] <= 0:
            chosen.append(chosen[0])
            continue
        tried = np.searchsorted(heap, rng.random(draws) * heap[-1]).clip(max=len(rows) - 1)
        left = np.maximum(square[:, None] + square[tried] - 2 * rows @ rows[tried].T, 0)
        np.minimum(left, distance[:, None], out=left)
        best = left.sum(axis=0).argmin()
        chosen.append(int(tried[best]))
        distance = left[:, best].copy()
    return rows[chosen].copy()


def _means(rows: Floats, labels: Labels, states: int, otherwise: Floats | None = None) -> Floats:
    count = np.bincount(labels, minlength=states)
    columns = [np.bincount(labels, weights=rows[:, d], minlength=states) for d in range(rows.shape[1])]
    means = np.stack(columns, axis=1) / np.maximum(count, 1)[:, None]
    if otherwise is not None:
        means[count == 0] = otherwise[count == 0]
    return means.astype(np.float32)


def _embedding(graph: SampleGraph, states: int, seed: int) -> Floats:
    """Rows of the leading eigenvectors of the normalised graph, of length 1 (Ng, Jordan & Weiss, NIPS 2001)."""
    size = len(graph)
    count = min(states, _EIGENVECTORS, size - 1)
    start = np.random.default_rng([seed, 2]).normal(size=size)
    _, vectors = eigsh(graph.weights.astype(np.float64), k=count, which="LA", v0=start, tol=1e-4)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0, length, 1), dtype=np.float32)
