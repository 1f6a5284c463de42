"""Statistics of trials: rates with intervals, paired comparisons, and the worth of stated probabilities."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError

#: Resamples of a bootstrap: the ends of a 95% interval then vary by about 0.1 of its length.
RESAMPLES = 2000
_Z95 = 1.959963984540054


def wilson_interval(successes: int, trials: int, z: float = _Z95) -> tuple[float, float]:
    """Score interval of a binomial rate (Wilson, J. Am. Stat. Assoc. 22, 1927); (0, 1) without trials.

    Raises:
        InputError: If the counts contradict each other.
    """
    if not 0 <= successes <= trials:
        raise InputError(f"{successes} successes of {trials} trials make no sense")
    if trials == 0:
        return 0.0, 1.0
    rate, square = successes / trials, z * z
    centre = (rate + square / (2 * trials)) / (1 + square / trials)
    half = z / (1 + square / trials) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


def bootstrap_interval(
    values: ArrayLike, groups: Sequence[Hashable], *, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of the mean of ``values``, resampling whole groups (objects), not single trials.

    Trials on one object are alike; resampling trials would make the interval too short.

    Args:
        values: (n,) outcomes, 0 or 1 (or any number, such as a paired difference).
        groups: n labels, the object of each trial.
        seed: Seed of the resampling.
        resamples: How many resamples.
        level: Coverage of the interval.

    Returns:
        Lower and upper end; (0, 1) without values.

    Raises:
        InputError: If the lengths differ.
    """
    data = np.asarray(values, dtype=float)
    if data.ndim != 1 or len(groups) != data.size:
        raise InputError(f"{data.size} values need as many groups, not {len(groups)}")
    if data.size == 0:
        return 0.0, 1.0
    index = {label: i for i, label in enumerate(dict.fromkeys(groups))}
    membership = np.array([index[label] for label in groups])
    sums = np.bincount(membership, weights=data, minlength=len(index))
    counts = np.bincount(membership, minlength=len(index))
    drawn = np.random.default_rng(seed).integers(0, len(index), size=(resamples, len(index)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def paired_difference(
    first: ArrayLike, second: ArrayLike, groups: Sequence[Hashable], *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, tuple[float, float]]:
    """Mean of ``second − first`` on the same scenes, with its 95% bootstrap interval over objects.

    Raises:
        InputError: If the lengths differ or nothing is given.
    """
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.shape != b.shape or a.size == 0:
        raise InputError(f"paired results need equal, positive lengths, not {a.size} and {b.size}")
    difference = b - a
    return float(difference.mean()), bootstrap_interval(difference, groups, seed=seed, resamples=resamples)


def brier_score(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Mean squared error of stated probabilities (Brier, Monthly Weather Review 78, 1950); 0 is perfect."""
    p, y = _pairs(probabilities, outcomes)
    return float(np.mean((p - y) ** 2))


def brier_skill(probabilities: ArrayLike, outcomes: ArrayLike) -> float | None:
    """``1 − Brier / Brier of always stating the base rate``; ``None`` where all outcomes are alike.

    1 is perfect, 0 is no better than the base rate, negative is worse than that.
    """
    p, y = _pairs(probabilities, outcomes)
    base = float(np.mean((y.mean() - y) ** 2))
    return None if base == 0 else 1 - float(np.mean((p - y) ** 2)) / base


def auroc(scores: ArrayLike, outcomes: ArrayLike) -> float | None:
    """Probability that a random success scores above a random failure (ties count half).

    Equal to the area under the curve of telling failures by ``1 − score``. ``None`` where all outcomes are alike.
    """
    s, y = _pairs(scores, outcomes)
    positives = int(y.sum())
    negatives = y.size - positives
    if positives == 0 or negatives == 0:
        return None
    _, inverse, counts = np.unique(s, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    rank_sum = float(mean_rank[inverse][y == 1].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def success_at_coverage(probabilities: ArrayLike, outcomes: ArrayLike, coverage: float = 0.9) -> float:
    """Success rate on the share ``coverage`` of trials of which the planner is surest.

    Where equal probabilities straddle the cut, they count with their mean success, so that order doesn't matter.
    """
    p, y = _pairs(probabilities, outcomes)
    keep = max(1, math.ceil(coverage * p.size - 1e-9))
    cut = np.sort(p)[::-1][keep - 1]
    above, at = p > cut, p == cut
    return float((y[above].sum() + (keep - above.sum()) * y[at].mean()) / keep)


def _pairs(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    p, y = np.asarray(probabilities, dtype=float), np.asarray(outcomes, dtype=float)
    if p.ndim != 1 or p.shape != y.shape or p.size == 0:
        raise InputError(f"{p.size} probabilities need as many outcomes (at least one), not {y.size}")
    if not np.isin(y, (0.0, 1.0)).all():
        raise InputError("outcomes must be 0 or 1")
    return p, y
