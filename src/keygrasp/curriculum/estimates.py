"""What every estimator answers, and what it must offer to a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.curriculum.evidence import Array, State
from keygrasp.curriculum.graph import Places
from keygrasp.errors import InputError

#: Trials of one sample in one update, at most.
MAX_TRIALS = 1_000_000


@dataclass(frozen=True, eq=False)
class Estimate:
    """A Beta distribution of each sample's success rate under the present policy.

    Attributes:
        mean: (n,) in (0, 1).
        strength: (n,) pseudo-trials that the estimate is worth, positive.
    """

    mean: Array
    strength: Array

    @property
    def a(self) -> Array:
        """(n,) the Beta's a."""
        return self.mean * self.strength

    @property
    def b(self) -> Array:
        """(n,) the Beta's b."""
        return (1 - self.mean) * self.strength

    @property
    def deviation(self) -> Array:
        """(n,) standard deviation of the success rate."""
        return np.asarray(np.sqrt(self.mean * (1 - self.mean) / (self.strength + 1)))

    @property
    def learnability(self) -> Array:
        """(n,) E[p(1 − p)], half the probability that two trials differ."""
        return self.mean * (1 - self.mean) * self.strength / (self.strength + 1)


def beta_estimate(successes: Array, failures: Array) -> Estimate:
    """The estimate of a Beta with these parameters, both positive."""
    return Estimate(successes / (successes + failures), successes + failures)


class Estimator(Protocol):
    """Keeps an estimate of each sample's success rate while the policy changes."""

    def __len__(self) -> int:
        """Number of samples."""
        ...

    def estimate(self) -> Estimate:
        """The present estimate of all samples."""
        ...

    def update(self, places: Places, successes: Array, trials: Array) -> None:
        """Take one step's outcomes: each sample once, with at least one trial; checked by the caller."""
        ...

    def add(self, features: ArrayLike) -> None:
        """Add samples."""
        ...

    def state_dict(self) -> State:
        """Everything that was learned, as arrays."""
        ...

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore what :meth:`state_dict` gave; the samples may be more or fewer than before."""
        ...


def checked_outcomes(size: int, ids: ArrayLike, successes: ArrayLike, trials: ArrayLike) -> tuple[Places, Array, Array]:
    """Outcomes of one step with each sample once (repeats are summed), without samples that weren't tried.

    Raises:
        InputError: If shapes differ, numbers aren't whole, an id is unknown, or successes aren't within the trials.
    """
    places, won, tried = (_whole(v, name) for v, name in ((ids, "ids"), (successes, "successes"), (trials, "trials")))
    if not places.shape == won.shape == tried.shape:
        raise InputError(
            f"ids, successes and trials have {len(places)}, {len(won)} and {len(tried)} entries", "Give one each"
        )
    _check_range(size, places)
    bad = np.flatnonzero((won < 0) | (won > tried) | (tried > MAX_TRIALS))
    if len(bad):
        i = bad[0]
        raise InputError(
            f"sample {places[i]} has {won[i]} successes of {tried[i]} trials",
            f"Successes lie between 0 and the trials, trials are at most {MAX_TRIALS}",
        )
    unique, where = np.unique(places, return_inverse=True)
    total_won, total_tried = (np.bincount(where, counts).astype(np.float64) for counts in (won, tried))
    some = total_tried > 0
    return unique[some], total_won[some], total_tried[some]


def checked_places(size: int, ids: ArrayLike) -> Places:
    """Ids of samples, ascending, each once.

    Raises:
        InputError: If one is no whole number or unknown.
    """
    places = np.unique(_whole(ids, "ids"))
    _check_range(size, places)
    return places


def _check_range(size: int, places: Places) -> None:
    wrong = places[(places < 0) | (places >= size)]
    if len(wrong):
        raise InputError(f"there is no sample {wrong[0]}", f"Ids go from 0 to {size - 1}; add() adds samples")


def _whole(values: ArrayLike, name: str) -> Places:
    try:
        numbers = np.asarray(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} are no numbers: {error}", "Give whole numbers") from error
    whole = np.isfinite(numbers) & (numbers == np.rint(numbers)) & (np.abs(numbers) < 2**53)
    if not whole.all():
        raise InputError(f"{name} has {numbers[~whole][0]}", "Give whole numbers: successes out of trials, not rates")
    return numbers.astype(np.int64)
