"""Which of several learners acts: the one that has done best lately, and now and then another one.

Shaping keeps the optimal policies, but not what a learner has seen after finite time: one that follows its values can
be led away from the object by a bad potential for as long as it runs. Where a second learner takes the same
transitions without shaping, and acts whenever it does better, the worst potential costs a share of the episodes.
"""

from __future__ import annotations

import numpy as np

from keygrasp.errors import ConfigurationError

#: How far an episode moves the mean of its learner.
_RATE = 0.05
#: Share of the episodes that are dealt out by lot.
_BY_LOT = 0.05

_SUFFIX = "+guard"


def split_guard(name: str) -> tuple[str, bool]:
    """A potential's name without ``+guard``, and whether that stood behind it."""
    return name.removesuffix(_SUFFIX), name.endswith(_SUFFIX)


class Guard:
    """Deals episodes out to learners, the unshaped one last.

    Args:
        count: Number of learners.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ConfigurationError(f"a guard of {count} learners", "Give at least 1")
        self._means = np.zeros(count)

    @property
    def best(self) -> int:
        """The learner with the largest mean return lately; of equal ones the first."""
        return int(self._means.argmax())

    def choose(self, rng: np.random.Generator) -> int:
        """The learner that acts in the next episode; equal ones by lot."""
        if len(self._means) == 1:
            return 0
        if rng.random() < _BY_LOT:
            return int(rng.integers(len(self._means)))
        return int(rng.choice(np.flatnonzero(self._means == self._means.max())))

    def note(self, learner: int, gained: float) -> None:
        """Take the task's discounted return of an episode into the learner's mean; shaping doesn't count."""
        self._means[learner] += _RATE * (gained - self._means[learner])
