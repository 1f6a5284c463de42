"""How a budget of trials is spread over samples, given an estimate of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from keygrasp.curriculum.estimates import Estimate
from keygrasp.curriculum.evidence import Array
from keygrasp.curriculum.graph import Places
from keygrasp.errors import ConfigurationError, InputError

Rule = Literal["mixed", "learnability", "band", "uniform", "thompson", "replay"]

#: Trials of one sample in one call, at most.
_MOST = 4096
#: Trials in one call, at most.
MAX_BUDGET = 100_000_000


@dataclass(frozen=True)
class AllocationConfig:
    """How trials are given out.

    Attributes:
        rule: ``mixed``: greedy by the gain in probability that a sample's trials don't all end alike. ``learnability``:
            the highest E[p(1 − p)]. ``band``: those that lie in the band as likely as not. ``uniform``: any.
            ``thompson``: drawn success rates nearest to the band's middle. ``replay``: prioritised level replay, by
            the rank of learnability mixed with staleness.
        least: Trials that a chosen sample gets at least; ``mixed`` gives two or more, for one alone never ends mixed.
        most: Trials that a sample gets at most in one call.
        explore: Share of the budget that goes to the samples that were tried least lately, whatever the estimate.
        band: Success rates that are wanted.
        temperature: T of ``replay``: priority is rank^(−1/T).
        staleness: Share of ``replay``'s priority that goes by the time since the last trial.
    """

    rule: Rule = "mixed"
    least: int = 2
    most: int = 16
    explore: float = 0.1
    band: tuple[float, float] = (0.2, 0.8)
    temperature: float = 0.3
    staleness: float = 0.3

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise ConfigurationError(f"allocation: rule is {self.rule!r}", f"Known: {', '.join(get_args(Rule))}")
        if not 1 <= self.least <= self.most <= _MOST:
            raise ConfigurationError(
                f"allocation: least={self.least}, most={self.most}", f"Give 1 <= least <= most <= {_MOST}"
            )
        if not (0 <= self.explore <= 1 and 0 <= self.staleness <= 1 and self.temperature > 0):
            raise ConfigurationError(
                f"allocation: explore={self.explore}, staleness={self.staleness}, temperature={self.temperature}",
                "Shares lie in [0, 1], the temperature is positive",
            )
        low, high = self.band
        if not 0 <= low < high <= 1:
            raise ConfigurationError(f"allocation: band is {self.band}", "Give 0 <= low < high <= 1")


@dataclass(frozen=True, eq=False)
class Allocation:
    """Which samples to try how often.

    Attributes:
        ids: (m,) samples, ascending, each once.
        trials: (m,) trials of each, at least 1.
        unspent: Trials of the budget that found no place: every sample had ``most`` already.
    """

    ids: Places
    trials: Places
    unspent: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def total(self) -> int:
        """Trials in all; ``total + unspent`` is the budget."""
        return int(self.trials.sum())


def mixed_probability(a: Array, b: Array, trials: int) -> Array:
    """Probability that ``trials`` trials of samples with success rates ~ Beta(a, b) don't all end alike.

    U(n) = 1 − B(a + n, b)/B(a, b) − B(a, b + n)/B(a, b); U(1) = 0.
    """
    alike = np.zeros_like(a)
    for parameter in (a, b):
        chance = np.ones_like(a)
        for j in range(trials):
            chance *= (parameter + j) / (a + b + j)
        alike += chance
    return np.clip(1 - alike, 0, 1)


def allocate(
    estimate: Estimate, budget: int, config: AllocationConfig, *, idle: Places, rng: np.random.Generator
) -> Allocation:
    """Give out ``budget`` trials, never more, and fewer only where every sample has ``most``.

    Args:
        estimate: Of all N samples.
        budget: Trials, at least 0.
        config: How.
        idle: (N,) steps since each sample was last tried; the largest for those never tried.
        rng: All draws; samples that are equally good are chosen among at random.

    Raises:
        InputError: If the budget is no whole number within bounds.
    """
    budget = checked_budget(budget)
    least = config.least if config.rule != "mixed" else min(max(config.least, 2), config.most)
    size = len(estimate.mean)
    order = rng.permutation(size)  # ties go by place, which is thus drawn
    estimate = Estimate(estimate.mean[order], estimate.strength[order])
    given = np.zeros(size, np.int64)
    floor = 0 if config.rule == "uniform" else int(np.ceil(config.explore * budget / least))
    given[_largest(idle[order], min(floor, budget // least))] = least
    left = budget - int(given.sum())
    if config.rule == "mixed":
        score = mixed_probability(estimate.a, estimate.b, least) / least
        left = _greedy(given, score, estimate, left, least, config.most)
    else:
        score = _SCORES[config.rule](estimate, config, idle[order], rng)
        begun = _largest(np.where(given > 0, -np.inf, score), min(left // least, int((given == 0).sum())))
        given[begun] = least
        left -= least * len(begun)
    left = _fill(given, score, left, config.most)
    trials = np.zeros(size, np.int64)
    trials[order] = given
    ids = np.flatnonzero(trials)
    return Allocation(ids, trials[ids], left)


def checked_budget(budget: int) -> int:
    """The budget as an integer; see :func:`allocate`."""
    whole = not isinstance(budget, bool) and budget == int(budget) if np.isfinite(budget) else False
    if not whole or not 0 <= budget <= MAX_BUDGET:
        raise InputError(f"the budget is {budget}", f"Give a whole number of trials from 0 to {MAX_BUDGET}")
    return int(budget)


def _greedy(given: Places, entry: Array, estimate: Estimate, left: int, least: int, most: int) -> int:
    """Raise ``given`` by marginal gain of a mixed outcome while the budget lasts; returns what is left.

    U is concave from one trial on and U(1) = 0, so for ``least`` of 2 or more U(least)/least (``entry``) is at least
    every gain after it: with the first ``least`` trials as one step at that price greedy is optimal, up to a rest too
    small to begin a sample.
    """
    begun = given > 0
    # No more samples than the budget begins can get trials, and these are the ones with the best beginning.
    count = min(len(given), left // least + int(begun.sum()))
    chosen = _largest(np.where(begun, np.inf, entry), count)
    a, b = estimate.a[chosen], estimate.b[chosen]
    chances = np.stack([mixed_probability(a, b, n) for n in range(least, most + 1)], axis=1)
    gains = np.column_stack([entry[chosen], np.diff(chances, axis=1)])
    gains = np.minimum.accumulate(gains, axis=1)  # rounding must not put a later step first
    order = np.argsort(-gains, axis=None, kind="stable")
    row, step = np.divmod(order, gains.shape[1])
    open_step = ~((step == 0) & begun[chosen[row]])
    row, step = row[open_step], step[open_step]
    price = np.where(step == 0, least, 1)
    whole = int(np.searchsorted(np.cumsum(price), left, side="right"))
    np.add.at(given, chosen[row[:whole]], price[:whole])
    return left - int(price[:whole].sum())


def _fill(given: Places, score: Array, left: int, most: int) -> int:
    """Place a rest: one more for each sample that has begun, best first, in rounds; else on a new one.

    Returns:
        What found no place.
    """
    while left > 0:
        room = np.flatnonzero((given > 0) & (given < most))
        if not len(room):
            break
        lucky = room[_largest(score[room], left)]
        given[lucky] += 1
        left -= len(lucky)
    empty = np.flatnonzero(given == 0)
    if left > 0 and len(empty):  # less than a sample's beginning
        given[empty[_largest(score[empty], 1)]] = left
        left = 0
    return left


def _largest(values: NDArray[np.generic], count: int) -> Places:
    """Places of the ``count`` largest values; of equal ones those that stand first."""
    if count >= len(values):
        return np.arange(len(values))
    if count <= 0:
        return np.zeros(0, np.int64)
    limit = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > limit)
    return np.concatenate([above, np.flatnonzero(values == limit)[: count - len(above)]])


def _by_learnability(estimate: Estimate, *_: object) -> Array:
    return estimate.learnability


def _by_band(estimate: Estimate, config: AllocationConfig, idle: Places, rng: np.random.Generator) -> Array:
    """Any sample that lies in the band as likely as not, then the likeliest.

    It is the Beta that must lie in the band, not its mean: a sample that is either always or never solved has its mean
    in the middle, and teaches nothing.
    """
    low, high = config.band
    inside = np.asarray(betainc(estimate.a, estimate.b, high) - betainc(estimate.a, estimate.b, low))
    return np.where(inside >= 0.5, 1 + rng.random(len(inside)), inside)


def _by_chance(estimate: Estimate, config: AllocationConfig, idle: Places, rng: np.random.Generator) -> Array:
    return rng.random(len(idle))


def _by_draw(estimate: Estimate, config: AllocationConfig, idle: Places, rng: np.random.Generator) -> Array:
    """Thompson sampling towards the middle of the band (as MoPPS, Qu et al., arXiv 2507.04632)."""
    return -np.abs(rng.beta(estimate.a, estimate.b) - sum(config.band) / 2)


def _by_replay(estimate: Estimate, config: AllocationConfig, idle: Places, rng: np.random.Generator) -> Array:
    """Prioritised level replay (Jiang et al., ICML 2021): draws without replacement, by Gumbel noise on log P."""
    rank = np.empty(len(idle))
    rank[np.argsort(-estimate.learnability, kind="stable")] = np.arange(1, len(idle) + 1)
    by_rank = rank ** (-1 / config.temperature)
    stale = idle / max(idle.sum(), 1)
    priority = (1 - config.staleness) * by_rank / by_rank.sum() + config.staleness * stale
    return np.asarray(np.log(np.maximum(priority, 1e-300)) + rng.gumbel(size=len(idle)))


_SCORES: dict[str, Callable[[Estimate, AllocationConfig, Places, np.random.Generator], Array]] = {
    "learnability": _by_learnability,
    "band": _by_band,
    "uniform": _by_chance,
    "thompson": _by_draw,
    "replay": _by_replay,
}
