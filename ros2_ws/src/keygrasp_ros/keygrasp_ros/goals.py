"""How goals end, the same way in every action server."""

from __future__ import annotations

from typing import Any

from builtin_interfaces.msg import Time
from keygrasp_interfaces.msg import TrialOutcome
from rclpy.action import CancelResponse
from rclpy.action.server import ServerGoalHandle
from std_msgs.msg import Header

from keygrasp_ros.diagnostics import Monitor


def accept_cancel(_: object) -> CancelResponse:
    """A cancel callback that takes every cancel: without one, rclpy refuses them all."""
    return CancelResponse.ACCEPT


def end_goal(handle: ServerGoalHandle, outcome: TrialOutcome) -> None:
    """Give a goal its final state: succeeded, canceled (only where that was asked for) or aborted."""
    if outcome.success:
        handle.succeed()
    elif outcome.outcome == TrialOutcome.CANCELLED and handle.is_cancel_requested:
        handle.canceled()
    else:
        handle.abort()


def refuse(handle: ServerGoalHandle, monitor: Monitor, kind: Any, reason: str, stamp: Time) -> Any:
    """End a goal that is not taken: aborted, with outcome ``refused`` and the reason in its result."""
    monitor.fault(f"refused: {reason}")
    outcome = ended_early(TrialOutcome.REFUSED, reason, stamp)
    end_goal(handle, outcome)
    return kind.Result(outcome=outcome)


def ended_early(outcome: str, reason: str, stamp: Time) -> TrialOutcome:
    """The outcome of a goal for which nothing was executed."""
    return TrialOutcome(header=Header(stamp=stamp), outcome=str(outcome), message=reason)
