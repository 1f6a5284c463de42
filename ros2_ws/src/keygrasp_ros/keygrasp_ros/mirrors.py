"""Results on topics that viewers show: built only for who looks, and kept for who comes late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node

from keygrasp_ros.topics import Topic


class Mirror:
    """A publisher whose message is built when somebody listens, at once or as soon as he comes.

    Building and sending markers costs several milliseconds of each plan, which nobody should pay for an empty room; nor
    should who waits for the plan itself, so that both are done on another thread of the node's executor.

    Args:
        node: Node that publishes.
        topic: A topic that keeps its last message.
        on_listeners: Called when somebody begins or ceases to listen.
    """

    def __init__(self, node: Node, topic: Topic, on_listeners: Callable[[], None] = lambda: None) -> None:
        self._node, self._lock = node, threading.Lock()
        self._waiting: Callable[[], Any] | None = None
        self._on_listeners = on_listeners
        events = PublisherEventCallbacks(matched=self._matched)
        self._publisher = node.create_publisher(topic.type, topic.name, topic.qos, event_callbacks=events)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody listens."""
        return self._publisher.get_subscription_count() > 0

    def show(self, build: Callable[[], Any]) -> None:
        """Publish what ``build`` returns, now or when somebody comes; an older one that waits is forgotten."""
        with self._lock:
            self._waiting = build
        if self.has_listeners:
            self._node.executor.create_task(self._send)

    def _matched(self, _: object) -> None:
        self._on_listeners()
        self._send()

    def _send(self) -> None:
        with self._lock:
            if self._waiting is None or not self.has_listeners:
                return
            build, self._waiting = self._waiting, None
            self._publisher.publish(build())
