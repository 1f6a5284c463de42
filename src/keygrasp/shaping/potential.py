"""What a potential is: a bounded function of symbolic state and goal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from enum import StrEnum

import numpy as np

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.geometry.poses import Array
from keygrasp.shaping.conditions import UnboundedPotentialError

#: Behind a potential's name: raised, see :class:`RaisedPotential`.
RAISED = "+raised"


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


class RaisedPotential(Potential):
    """A static potential raised by a constant, so that its least value is ``least``.

    A constant changes no optimal policy, but what a learner tries: values that start at 0 in the shaped problem stand
    for Q = Φ (Wiewiora, JAIR 2003). Where Φ lies below the true values, what it marks down isn't tried again, and a
    misleading Φ is never found out. Raised above the largest return it starts the learner optimistically (Even-Dar and
    Mansour, NIPS 2001): every action looks at least as good as it is until it has been tried. That holds for tables; a
    network doesn't stay optimistic about what it hasn't seen (there, :mod:`keygrasp.shaping.guard` bounds the loss).

    Args:
        potential: What is raised.
        least: Least value then; at least the largest return of an episode.

    Raises:
        ConfigurationError: If the potential is dynamic: the constant must stay one.
    """

    stationarity = Stationarity.STATIC

    def __init__(self, potential: Potential, least: float = 1.0) -> None:
        if potential.stationarity is not Stationarity.STATIC:
            raise ConfigurationError(f"potential '{potential.name}' is dynamic", "Only static ones can be raised")
        self.potential, self._added = potential, least - potential.low
        self.name = f"{potential.name}{RAISED}"
        self.low, self.high = least, potential.high + self._added

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Raised values (N,) of rows (N, D)."""
        return np.clip(self.potential.values(states, goal) + self._added, self.low, self.high)

    def explain(self, state: Array, goal: Hashable) -> str:
        """What the potential itself says, and by how much it is raised."""
        return f"{self.potential.explain(state, goal)}, raised by {self._added:g}"
