"""What a robot must offer, and drivers for real ones."""

from keygrasp.robots.base import (
    CancelCheck,
    Ended,
    PlacingRobot,
    Robot,
    StageCallback,
    Unreachable,
    pick_and_place,
    refuse_impossible,
)

__all__ = [
    "CancelCheck",
    "Ended",
    "PlacingRobot",
    "Robot",
    "StageCallback",
    "Unreachable",
    "pick_and_place",
    "refuse_impossible",
]
