"""How an execution ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Why a trial ended as it did. Every member but ``SUCCESS`` is a failure."""

    SUCCESS = "success"
    NO_GRASP = "no_grasp"  # the planner proposed nothing
    CONTACT_TOO_EARLY = "contact_too_early"  # the gripper met the object or the table while descending
    EMPTY = "empty"  # the fingers closed on nothing
    SLIPPED = "slipped"  # lost while lifting
    SHAKEN = "shaken"  # lost while shaking or holding
    UNREACHABLE = "unreachable"  # the robot can't follow (limits, reach): counted apart
    CANCELLED = "cancelled"
    ROBOT_FAULT = "robot_fault"


class Stage(StrEnum):
    """Stages of an execution, in order."""

    APPROACH = "approach"
    DESCEND = "descend"
    CLOSE = "close"
    LIFT = "lift"
    SHAKE = "shake"
    HOLD = "hold"
    PLACE = "place"


@dataclass(frozen=True)
class TrialOutcome:
    """What an execution did.

    Attributes:
        outcome: The verdict with its cause.
        rise: Metres by which the object's centre of mass rose (0 where nothing was executed).
        opening: Metres between the pads at the end.
        contact_force: Largest contact force in newtons while descending.
        seconds: Simulated (or real) seconds from approach to end.
        message: One sentence for people.
    """

    outcome: Outcome
    rise: float = 0.0
    opening: float = 0.0
    contact_force: float = 0.0
    seconds: float = 0.0
    message: str = ""

    @property
    def success(self) -> bool:
        """Whether the object was lifted and held."""
        return self.outcome is Outcome.SUCCESS
