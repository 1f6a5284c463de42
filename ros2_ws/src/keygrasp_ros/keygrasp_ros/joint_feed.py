"""Joint states of an arm that somebody else drives: by name in any order, and never older than allowed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState

from keygrasp.errors import RobotError
from keygrasp.geometry.poses import Array
from keygrasp_ros.topics import JOINT_STATES

_POLL_SECONDS = 0.02


class JointFeed:
    """Follows ``joint_states``; a message may hold only some of the joints.

    Args:
        node: Node that subscribes.
        names: Joints that are needed, in the order in which they are given out.
        max_age: Seconds after which what was heard counts as stale, by this machine's clock.
    """

    def __init__(self, node: Node, names: Sequence[str], max_age: float) -> None:
        self._node, self._names, self._max_age = node, tuple(names), max_age
        self._lock = threading.Lock()
        self._heard: dict[str, tuple[float, float]] = {}
        self._strangers: set[str] = set()
        self._subscription = node.create_subscription(
            JointState, JOINT_STATES.name, self._take, qos_profile_sensor_data, callback_group=ReentrantCallbackGroup()
        )

    def close(self) -> None:
        """Stop listening."""
        self._node.destroy_subscription(self._subscription)

    def angles(self) -> Array:
        """Present angles (n,) in radians of the joints.

        Raises:
            RobotError: If a joint is unknown, silent for too long, or its angle is not finite.
        """
        now = time.monotonic()
        with self._lock:
            heard, strangers = dict(self._heard), sorted(self._strangers)
        if not heard and strangers:
            raise RobotError(
                f"'{JOINT_STATES.name}' names other joints: {', '.join(strangers[:8])}",
                f"{', '.join(self._names)} are needed: set joint_prefix",
            )
        for name in self._names:
            if name not in heard:
                raise RobotError(f"nothing on '{JOINT_STATES.name}' about {name}", "Is the arm's driver running?")
            if now - heard[name][1] > self._max_age:
                raise RobotError(
                    f"the last joint state of {name} is {now - heard[name][1]:.1f} s old, "
                    f"more than {self._max_age:g} s",
                    "Is the arm's driver still running?",
                )
        angles = np.array([heard[name][0] for name in self._names])
        if not np.all(np.isfinite(angles)):
            raise RobotError(f"'{JOINT_STATES.name}' gives {angles.tolist()} for the arm", "Check the arm's driver")
        return angles

    def wait(self, seconds: float) -> None:
        """Wait until :meth:`angles` can be used: a node that just started hears of them a moment later.

        Raises:
            RobotError: As there, if that is so after ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(RobotError):
                self.angles()
                return
            time.sleep(_POLL_SECONDS)
        self.angles()

    def _take(self, message: JointState) -> None:
        now = time.monotonic()
        with self._lock:
            for name, angle in zip(message.name, message.position, strict=False):
                if name in self._names:
                    self._heard[name] = (angle, now)
                elif len(self._strangers) < 64:
                    self._strangers.add(name)
