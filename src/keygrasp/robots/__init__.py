"""What a robot must offer, and drivers for real ones."""

from keygrasp.robots.base import CancelCheck, Ended, Robot, StageCallback, Unreachable, refuse_impossible

__all__ = ["CancelCheck", "Ended", "Robot", "StageCallback", "Unreachable", "refuse_impossible"]
