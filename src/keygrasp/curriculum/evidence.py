"""Discounted successes and failures of every sample, brought to the present policy only when they are read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from keygrasp.curriculum.graph import Places

Array = NDArray[np.float64]
State = dict[str, NDArray[np.generic]]

#: Probabilities are kept this far from 0 and 1 where their logit is taken.
_EDGE = 1e-4


def safe_logit(probability: Array) -> Array:
    """Logit of probabilities clipped to [1e-4, 1 - 1e-4]."""
    return np.asarray(logit(np.clip(probability, _EDGE, 1 - _EDGE)))


def shifted(probability: Array, shift: float | Array) -> Array:
    """Probabilities after a shift in logits."""
    return np.asarray(expit(safe_logit(probability) + shift))


class Evidence:
    """What was seen of each sample, as pseudo-counts that age.

    Outcomes of k steps ago weigh λ^k. The policy has moved since, by a shift that all samples share: s successes of n
    that were seen d logits ago count as n·σ(logit p̂ + d) now, where p̂ is the share that was seen, drawn by one
    pseudo-trial towards what is expected of the sample (else 0 of 8 would stay 0 of 8 for ever). Both happen on
    reading, so that a step costs nothing for samples that it doesn't touch.

    Attributes:
        successes: (N,) float32 as of the step of the sample's newest trials.
        failures: (N,) float32.
    """

    def __init__(self, size: int, forgetting: float) -> None:
        self.forgetting = forgetting
        self.step = 0
        self.shift = 0.0
        self.successes = np.zeros(size, np.float32)
        self.failures = np.zeros(size, np.float32)
        self._when = np.zeros(size, np.int32)
        self._shift = np.zeros(size, np.float32)

    def advance(self, shift: float = 0.0) -> None:
        """Begin the next step, to which the policy came with a shift of all logits."""
        self.step += 1
        self.shift += shift

    def read(self, places: Places | slice, expected: Array) -> tuple[Array, Array]:
        """Present successes and failures of ``places``, of which ``expected`` success rates are now expected."""
        successes = self.successes[places].astype(np.float64)
        failures = self.failures[places].astype(np.float64)
        trials = successes + failures
        moved = (self.shift - self._shift[places].astype(np.float64)) * (trials > 0)
        todo = np.flatnonzero(np.abs(moved) > 1e-6)
        if len(todo):
            d = moved[todo]
            share = (successes[todo] + shifted(expected[todo], -d)) / (trials[todo] + 1)
            successes[todo] = trials[todo] * shifted(share, d)
        weight = self.forgetting ** (self.step - self._when[places]).astype(np.float64)
        return successes * weight, (trials - successes) * weight

    def record(self, places: Places, successes: Array, failures: Array) -> None:
        """Set what is known of ``places`` now: what :meth:`read` gave plus what was seen."""
        self.successes[places] = successes
        self.failures[places] = failures
        self._when[places] = self.step
        self._shift[places] = self.shift

    def seen(self) -> NDArray[np.bool_]:
        """(N,) whether a sample was ever tried."""
        return np.asarray((self.successes > 0) | (self.failures > 0))

    def grow(self, count: int) -> None:
        """Add samples that were never tried."""
        for name in ("successes", "failures", "_when", "_shift"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros(count, old.dtype)]))

    def state_dict(self) -> State:
        """Arrays that :meth:`load_state_dict` takes."""
        return {
            "successes": self.successes,
            "failures": self.failures,
            "when": self._when,
            "moved": self._shift,
            "clock": np.array([self.step, self.shift], np.float64),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore what :meth:`state_dict` gave."""
        self.successes = np.array(state["successes"], np.float32)
        self.failures = np.array(state["failures"], np.float32)
        self._when = np.array(state["when"], np.int32)
        self._shift = np.array(state["moved"], np.float32)
        self.step, self.shift = int(state["clock"][0]), float(state["clock"][1])
