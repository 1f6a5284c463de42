"""The five conditions under which shaping leaves the set of optimal policies as it is, and an error for each.

The shaping term is F = γΦ(s′, g′) − Φ(s, g) (Ng, Harada, Russell, ICML 1999). Each class below says which condition
was broken; ``error.condition`` is its number's name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from keygrasp.errors import InputError


class Condition(StrEnum):
    """What must hold, in the order of the documentation."""

    DISCOUNT = "1: the shaping term has the learner's own discount γ"
    BOUNDED = "2: Φ is bounded, and fixed for a state and goal or declared dynamic with its stored value reused"
    TERMINAL = "3: Φ is 0 at terminal states"
    TRUNCATION = "4: Φ of the last observation stays where an episode is cut off, and nothing crosses its end"
    GOAL = "5: after a change of goal Φ(s′) is that of the new goal"


class ShapingError(InputError):
    """A condition of policy-invariant shaping is broken."""

    condition: ClassVar[Condition]

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"condition {self.condition} is broken: {problem}", remedy)


class DiscountError(ShapingError):
    """The learner's γ is not the shaping term's."""

    condition = Condition.DISCOUNT


class UnboundedPotentialError(ShapingError):
    """A potential returned a value that is not finite or outside its declared bounds."""

    condition = Condition.BOUNDED


class StaticPotentialError(ShapingError):
    """A potential that is declared static gave two values for one state and goal."""

    condition = Condition.BOUNDED


class StoredPotentialError(ShapingError):
    """Φ(s) of a step is not the Φ(s′) that was stored by the step before."""

    condition = Condition.BOUNDED


class TerminalPotentialError(ShapingError):
    """A terminal state carries a potential other than 0."""

    condition = Condition.TERMINAL


class EpisodeEndError(ShapingError):
    """The last observation of an episode was lost, or a step reaches across the episode's end."""

    condition = Condition.TRUNCATION


class GoalError(ShapingError):
    """Φ(s′) was taken for the old goal."""

    condition = Condition.GOAL
