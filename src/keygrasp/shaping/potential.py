"""What a potential is: a bounded function of symbolic state and goal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from enum import StrEnum

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.shaping.conditions import UnboundedPotentialError


class Stationarity(StrEnum):
    """Whether a potential may change with time."""

    STATIC = "static"  # one value for a (state, goal), for ever
    DYNAMIC = "dynamic"  # may be learned: the value stored at time t is reused (Devlin and Kudenko, AAMAS 2012)


class Potential(ABC):
    """A bounded function Φ of state and goal.

    Attributes:
        name: Name under which its term is logged.
        stationarity: ``static`` or ``dynamic``.
        low: Least value.
        high: Largest value.
    """

    name: str
    stationarity: Stationarity
    low: float = 0.0
    high: float = 1.0

    @abstractmethod
    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Φ (N,) of states (N, D) under one goal. Called through :meth:`values`, which checks what it returns."""

    def values(self, states: Array, goal: Hashable) -> Array:
        """Φ (N,) of states (N, D) under one goal, checked.

        Raises:
            UnboundedPotentialError: If a value is not finite or outside [low, high].
            InputError: If the potential returned another number of values.
        """
        values = np.asarray(self.evaluate(states, goal), dtype=float)
        if values.shape != (len(states),):
            raise InputError(f"potential '{self.name}' returned shape {values.shape} for {len(states)} states")
        if not np.all((values >= self.low) & (values <= self.high)):  # NaN compares false
            wrong = values[~((values >= self.low) & (values <= self.high))][0]
            raise UnboundedPotentialError(
                f"potential '{self.name}' is {wrong}, outside [{self.low:g}, {self.high:g}]",
                "Clip it, or declare wider bounds",
            )
        return values

    def explain(self, state: Array, goal: Hashable) -> str:
        """Why Φ of one state (D,) is what it is, in words for people."""
        return f"{self.name} {self.values(state[None], goal)[0]:.3f}"


class ZeroPotential(Potential):
    """Φ = 0: no shaping."""

    name = "none"
    stationarity = Stationarity.STATIC

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Zeros (N,)."""
        return np.zeros(len(states))


class TablePotential(Potential):
    """Φ from a table, for states that are row numbers (N, 1); goals are ignored.

    Args:
        table: (S,) values.
        name: Name of the term.
    """

    stationarity = Stationarity.STATIC

    def __init__(self, table: Sequence[float] | Array, name: str = "table") -> None:
        self.table = np.asarray(table, dtype=float)
        self.name = name
        if self.table.ndim != 1 or not np.all(np.isfinite(self.table)):
            raise UnboundedPotentialError(f"the table of '{name}' must be finite numbers (S,)", "Check its values")
        self.low, self.high = float(self.table.min()), float(self.table.max())

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Entries (N,) of the table."""
        return np.asarray(self.table[states[:, 0].astype(np.intp)])
