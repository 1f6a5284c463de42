"""Whether the node behind a service or an action still lives, known within seconds even where it was killed.

ROS itself only notices when DDS gives a silent participant up, after 20 s. Here a server offers a topic on which
nothing is ever sent, with a liveliness lease that the middleware keeps up by itself: it ends when the process does, and
not while the process is merely busy. Servers of others, which offer no such topic, are believed to live; so are
those of the same process, which the middleware does not count once it counts another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher

from keygrasp_ros.own_process import OwnProcess
from keygrasp_ros.topics import Endpoint, lifeline

#: Seconds within which a node that was killed is missed: the lease, and what a busy machine adds.
NOTICED_SECONDS = 4.0
#: Seconds for which a lifeline stays lost before it counts as cut. The middleware renews a lease of 2 s every 1.3 s, so
#: that on a busy machine a living server may seem lost for a moment.
_GRACE_SECONDS = 0.7
_OFFERED = OwnProcess[Publisher]()


def offer(node: Node, endpoint: Endpoint) -> Publisher:
    """Let others know that ``node``, which serves ``endpoint``, lives."""
    topic = lifeline(endpoint)
    publisher = node.create_publisher(topic.type, topic.name, topic.qos)
    _OFFERED.add(node.context, publisher.topic_name, publisher)
    return publisher


class Lifeline:
    """Watches the server of an endpoint.

    Args:
        node: Node that watches.
        endpoint: What the server offers.
        on_change: Called when a server came or went.
    """

    def __init__(self, node: Node, endpoint: Endpoint, on_change: Callable[[], object] = lambda: None) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._alive, self._known, self._lost_since = 0, False, 0.0
        self._context = node.context
        topic = lifeline(endpoint)
        events = SubscriptionEventCallbacks(liveliness=self._changed)
        self._subscription = node.create_subscription(
            topic.type, topic.name, lambda _: None, topic.qos, event_callbacks=events
        )

    @property
    def is_cut(self) -> bool:
        """Whether there was a server that showed that it lived, and none does so any more."""
        with self._lock:
            lost = self._known and self._alive == 0
            cut = lost and time.monotonic() - self._lost_since >= _GRACE_SECONDS
        return cut and _OFFERED.find(self._context, self._subscription.topic_name) is None

    def _changed(self, event: Any) -> None:
        with self._lock:
            self._alive, self._lost_since = event.alive_count, time.monotonic()
            self._known |= event.alive_count > 0
        self._on_change()
