"""Nearest neighbours by cosine: exact in blocks, or pynndescent's approximate search where there are many samples."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError
from keygrasp.extras import require

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]
Method = Literal["auto", "exact", "approximate"]

#: Up to so many samples ``auto`` searches exactly: N² products, about a minute on one core at the limit.
EXACT_SAMPLES = 60_000
#: Bounds on what comes from outside.
MAX_SAMPLES = 20_000_000
MAX_FEATURES = 65_536
#: Products of one block, which bounds the memory of an exact search.
_BLOCK = 1 << 23


def unit_rows(features: ArrayLike, *, width: int | None = None) -> Floats:
    """Features (N, D) as rows of length 1; a row of zeros stays 0 and is like nothing else.

    Args:
        features: Any array of numbers.
        width: D, where it is known already.

    Raises:
        InputError: If they are no finite (N, D) array within bounds.
    """
    try:
        rows = np.array(features, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"the features are no array of numbers: {error}", "Give (samples, features)") from error
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"the features have shape {rows.shape}", "Give (samples, features), at least one of each")
    if len(rows) > MAX_SAMPLES or rows.shape[1] > MAX_FEATURES:
        raise InputError(f"features of shape {rows.shape} are too large", f"At most {MAX_SAMPLES} x {MAX_FEATURES}")
    if width is not None and rows.shape[1] != width:
        raise InputError(
            f"the features have {rows.shape[1]} columns, those before had {width}", "Give the same columns"
        )
    wrong = ~np.isfinite(rows).all(axis=1)
    if wrong.any():
        raise InputError(
            f"features of {int(wrong.sum())} sample(s) are not finite, first {int(wrong.argmax())}", "Mend them"
        )
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows /= np.where(largest > 0, largest, 1)  # so that squares neither overflow nor vanish
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1), dtype=np.float32)


def nearest(rows: Floats, count: int, *, method: Method = "auto", seed: int = 0) -> tuple[Indices, Floats]:
    """The ``count`` nearest other samples of each sample.

    Args:
        rows: (N, D) of length 1.
        count: How many; fewer where there are no more.
        method: ``auto`` is exact up to :data:`EXACT_SAMPLES`.
        seed: Seed of the approximate search.

    Returns:
        Indices (N, count) and cosines (N, count), in no particular order.

    Raises:
        MissingExtraError: If the approximate search is needed and pynndescent is not installed.
    """
    count = min(count, len(rows) - 1)
    if count < 1:
        return np.zeros((len(rows), 0), np.int32), np.zeros((len(rows), 0), np.float32)
    if method == "approximate" or (method == "auto" and len(rows) > EXACT_SAMPLES):
        return _approximate(rows, count, seed)
    return nearest_to(rows, rows, count, first=0)


def nearest_to(queries: Floats, rows: Floats, count: int, *, first: int) -> tuple[Indices, Floats]:
    """The ``count`` nearest of ``rows`` (N, D) to each query (Q, D), which is itself row ``first + q``; exact.

    Returns:
        Indices (Q, count) and cosines (Q, count), in no particular order.
    """
    index = np.empty((len(queries), count), np.int32)
    cosine = np.empty((len(queries), count), np.float32)
    step = max(1, _BLOCK // len(rows))
    for begin in range(0, len(queries), step):
        block = slice(begin, min(begin + step, len(queries)))
        similar = queries[block] @ rows.T
        own = np.arange(len(similar))
        similar[own, own + first + begin] = -2.0
        found = np.argpartition(similar, -count, axis=1)[:, -count:]
        index[block], cosine[block] = found, np.take_along_axis(similar, found, axis=1)
    return index, cosine


def _approximate(rows: Floats, count: int, seed: int) -> tuple[Indices, Floats]:
    pynndescent = require("pynndescent", "graph")
    found = pynndescent.NNDescent(rows, metric="cosine", n_neighbors=count + 1, random_state=seed, low_memory=True)
    index, distance = found.neighbor_graph
    index, cosine = np.asarray(index, np.int32), np.asarray(1 - distance, np.float32)
    # A sample is usually, not always, its own nearest: where it is not listed the farthest is dropped instead.
    own = index == np.arange(len(rows))[:, None]
    own[~own.any(axis=1), -1] = True
    return index[~own].reshape(len(rows), count), cosine[~own].reshape(len(rows), count)
