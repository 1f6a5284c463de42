"""Depth images paired with their camera models, from any camera, while somebody needs them.

Taking each image of a running camera costs several percent of a core, so a feed is opened only for as long as it is
used.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, Image

from keygrasp_ros.topics import DEPTH, DEPTH_INFO

Pair = tuple[Image, CameraInfo]
#: Unpaired messages that are kept while their partners are on the way.
_KEPT = 8


class CameraFeed:
    """Pairs images and camera_infos by stamp; keeps the newest pair. It is closed at first.

    Args:
        node: Node that subscribes.
        on_pair: Called with each pair, on an executor's thread.
    """

    def __init__(self, node: Node, on_pair: Callable[[Image, CameraInfo], None] | None = None) -> None:
        self._node, self._on_pair = node, on_pair
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._forget()

    def __enter__(self) -> CameraFeed:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Begin to listen, with no memory of what came before; nothing happens where the feed is open."""
        if self._subscriptions:
            return
        self._forget()
        group = ReentrantCallbackGroup()
        self._subscriptions = [
            self._node.create_subscription(
                topic.type,
                topic.name,
                lambda message, side=side: self._take(side, message),
                topic.qos,
                callback_group=group,
            )
            for side, topic in enumerate((DEPTH, DEPTH_INFO))
        ]

    def close(self) -> None:
        """Stop listening; the newest pair stays."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for subscription in subscriptions:
            self._node.destroy_subscription(subscription)

    @property
    def has_camera(self) -> bool:
        """Whether somebody offers both topics."""
        # Unlike the subscriptions, a count does not follow remappings by itself.
        names = [self._node.resolve_topic_name(topic.name) for topic in (DEPTH, DEPTH_INFO)]
        return all(self._node.count_publishers(name) > 0 for name in names)

    def _forget(self) -> None:
        with self._lock:
            self._waiting: tuple[OrderedDict[tuple[int, int], object], ...] = (OrderedDict(), OrderedDict())
            self._latest: Pair | None = None
            self._counts = [0, 0]

    @property
    def latest(self) -> Pair | None:
        """The newest pair, ``None`` before the first."""
        with self._lock:
            return self._latest

    def complaint(self) -> str:
        """What is missing, in words, for who waits in vain for a new pair."""
        with self._lock:
            images, infos = self._counts
        if images == 0:
            return f"no depth image on '{DEPTH.name}'"
        if infos == 0:
            return f"depth images, but no camera_info on '{DEPTH_INFO.name}'"
        return "no new depth image whose camera_info has the same stamp"

    def _take(self, side: int, message: Image | CameraInfo) -> None:
        stamp = (message.header.stamp.sec, message.header.stamp.nanosec)
        with self._lock:
            self._counts[side] += 1
            partner = self._waiting[1 - side].pop(stamp, None)
            if partner is None:
                self._waiting[side][stamp] = message
                while len(self._waiting[side]) > _KEPT:
                    self._waiting[side].popitem(last=False)
                return
            pair = (message, partner) if side == 0 else (partner, message)
            self._latest = pair
        if self._on_pair is not None:
            self._on_pair(*pair)
