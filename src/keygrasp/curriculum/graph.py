"""The sample graph: mutual nearest neighbours by cosine, sparse, symmetric, open for samples that come later."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from keygrasp.curriculum.neighbours import Floats, Indices, Method, nearest, nearest_to, unit_rows
from keygrasp.errors import ConfigurationError

Places = NDArray[np.int64]


class SampleGraph:
    """Mutual k-nearest-neighbour graph with weights W_ij > 0, W_ij = W_ji, W_ii = 0.

    Two samples are joined when each is among the other's k nearest and their cosine is positive. A sample that
    nobody answers keeps the edge to its nearest, so that no sample is alone unless it is like nothing else.

    Args:
        features: (N, D) features of any kind.
        neighbours: k.
        normalise: Divide weights by √(d_i d_j) with d the sums of rows, so that a sample's neighbours together weigh
            about 1; else weights are the cosines.
        method: How neighbours are searched, see :func:`keygrasp.curriculum.neighbours.nearest`.
        seed: Seed of the approximate search.

    Attributes:
        rows: (N, D) float32 features of length 1.
        nearest: (N, k) int32 neighbours, mutual or not; -1 where there are fewer.
        cosine: (N, k) float32 their cosines.
        weights: (N, N) CSR float32.

    Raises:
        InputError: If the features can't be used.
        MissingExtraError: If there are too many samples for the exact search and the extra ``graph`` is missing.
    """

    def __init__(
        self,
        features: ArrayLike,
        *,
        neighbours: int = 20,
        normalise: bool = True,
        method: Method = "auto",
        seed: int = 0,
    ) -> None:
        if neighbours < 1:
            raise ConfigurationError(f"curriculum: neighbours is {neighbours}", "Give at least 1")
        rows = unit_rows(features)
        index, cosine = nearest(rows, neighbours, method=method, seed=seed)
        self._set(rows, *_padded(index, cosine, neighbours), normalise)

    @classmethod
    def restored(cls, rows: Floats, index: Indices, cosine: Floats, *, normalise: bool) -> SampleGraph:
        """The graph with these :attr:`rows`, :attr:`nearest` and :attr:`cosine`; nothing is searched."""
        graph = cls.__new__(cls)
        graph._set(rows, index, cosine, normalise)
        return graph

    def _set(self, rows: Floats, index: Indices, cosine: Floats, normalise: bool) -> None:
        self.rows, self.nearest, self.cosine, self._normalise = rows, index, cosine, normalise
        self.weights = _mutual(index, cosine, normalise)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, features: ArrayLike) -> Places:
        """Add samples; returns their numbers. Exact whatever the size: each is compared with every sample."""
        fresh = unit_rows(features, width=self.rows.shape[1])
        rows = np.concatenate([self.rows, fresh])
        old, width = len(self.rows), self.nearest.shape[1]
        found = nearest_to(fresh, rows, min(width, len(rows) - 1), first=old)
        index, cosine = _padded(*found, width)
        near, like = self._renewed(index, cosine, old)
        self._set(rows, np.concatenate([near, index]), np.concatenate([like, cosine]), self._normalise)
        return np.arange(old, len(rows))

    def _renewed(self, index: Indices, cosine: Floats, old: int) -> tuple[Indices, Floats]:
        """The lists of the samples that were there, with newcomers that are nearer than their farthest.

        Only edges that the newcomers see count, since others could not be mutual.
        """
        near, like = self.nearest.copy(), self.cosine.copy()
        new, place = np.nonzero((index >= 0) & (index < old))
        order = np.argsort(-cosine[new, place], kind="stable")
        for j in order:
            i, value = index[new[j], place[j]], cosine[new[j], place[j]]
            last = like[i].argmin()
            if value > like[i, last]:
                near[i, last], like[i, last] = old + new[j], value
        return near, like

    def around(self, places: Places) -> Places:
        """Sorted numbers of ``places`` and of their neighbours."""
        found = marked(len(self), self.weights[places].indices)
        found[places] = True
        return np.flatnonzero(found)

    def colours(self) -> list[Places]:
        """The samples in groups without an edge inside: a group may be updated at once as if one after another."""
        graph, size = self.weights, len(self)
        rank = np.random.default_rng(0).permutation(size) + 1.0
        degree = np.diff(graph.indptr)
        rank += size * degree.astype(np.float64)  # high degrees first: fewer groups; no two ranks are equal
        start, open_rank, groups = graph.indptr[:-1], rank.copy(), []
        filled = degree > 0
        while open_rank.any():
            highest = np.zeros(size)
            if len(graph.indices):
                highest[filled] = np.maximum.reduceat(open_rank[graph.indices], start[filled])
            group = np.flatnonzero((open_rank > 0) & (open_rank > highest))
            open_rank[group] = 0
            groups.append(group)
        return groups


def marked(size: int, places: NDArray[np.integer]) -> NDArray[np.bool_]:
    """(size,) true at ``places``: for many places that repeat quicker than sorting them."""
    flags = np.zeros(size, dtype=bool)
    flags[places] = True
    return flags


def _padded(index: Indices, cosine: Floats, width: int) -> tuple[Indices, Floats]:
    """Lists of ``width`` entries: -1 and -2 where there are fewer neighbours."""
    lacking = ((0, 0), (0, width - index.shape[1]))
    return np.pad(index, lacking, constant_values=-1), np.pad(cosine, lacking, constant_values=-2)


def _mutual(index: Indices, cosine: Floats, normalise: bool) -> sparse.csr_array:
    """Symmetric weights of the pairs that are in each other's list, and of the lonely ones' nearest."""
    size = len(index)
    valid = (index >= 0) & (cosine > 0)
    # In place of triples, which need twice the memory where there are millions of samples.
    begins = np.append(0, np.cumsum(valid.sum(axis=1)))
    begins = begins.astype(np.int32) if begins[-1] < 2**31 else begins
    directed = sparse.csr_array((cosine[valid], index[valid], begins), shape=(size, size), dtype=np.float32)
    directed.sort_indices()
    weights = directed.minimum(directed.T.tocsr()).tocsr()
    del directed
    lonely = np.flatnonzero((np.diff(weights.indptr) == 0) & valid.any(axis=1))
    if len(lonely):
        best = np.where(valid[lonely], cosine[lonely], -2).argmax(axis=1)
        edge = sparse.csr_array(
            (cosine[lonely, best], (lonely.astype(np.int32), index[lonely, best])), shape=(size, size)
        )
        weights = weights.maximum(edge.maximum(edge.T)).tocsr()
    weights.eliminate_zeros()
    weights.sort_indices()
    if normalise:
        degree = np.asarray(weights.sum(axis=1), dtype=np.float32)
        scale = 1 / np.sqrt(np.where(degree > 0, degree, 1))
        rows = np.repeat(np.arange(size), np.diff(weights.indptr))
        weights.data *= scale[rows] * scale[weights.indices]
    return weights
