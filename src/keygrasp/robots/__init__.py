"""What a robot must offer, and drivers for real ones."""

from keygrasp.robots.base import CancelCheck, Robot, StageCallback, Unreachable

__all__ = ["CancelCheck", "Robot", "StageCallback", "Unreachable"]
