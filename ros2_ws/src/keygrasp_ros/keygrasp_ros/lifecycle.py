"""Lifecycle nodes that start by themselves."""

from __future__ import annotations

from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn

from keygrasp.errors import KeygraspError


def start(node: LifecycleNode, what: str) -> None:
    """Configure and activate a node.

    Raises:
        KeygraspError: If one of the two fails; the node's log says why.
    """
    for trigger in (node.trigger_configure, node.trigger_activate):
        if trigger() != TransitionCallbackReturn.SUCCESS:
            raise KeygraspError(f"{what} did not start", "The line above says why")
