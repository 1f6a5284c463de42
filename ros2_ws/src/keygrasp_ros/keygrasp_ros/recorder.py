"""Recording of the graph's topics: one recording a pick, or one for everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from std_msgs.msg import Empty

from keygrasp.errors import KeygraspError
from keygrasp_ros.bag import BagWriter
from keygrasp_ros.bag_metadata import Channel
from keygrasp_ros.message_types import message_class
from keygrasp_ros.topics import (
    DIAGNOSTICS,
    JOINT_STATES,
    LATCHED,
    PICK,
    ROBOT_DESCRIPTION,
    TF,
    TF_STATIC,
    TOPICS,
)  # fmt: skip

#: Between two looks for new publishers, in seconds.
_DISCOVERY_SECONDS = 0.25
#: After a pick's end, for what was published before it but is still on its way.
_TAIL_SECONDS = 0.5
_DEPTH = 20
#: What a recording begins with although it was published before: without it, nothing else can be placed.
_STATE = (TF_STATIC, ROBOT_DESCRIPTION, TF, JOINT_STATES)
_RUNNING = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)
#: Status topic of the pick action: tells when a pick begins and ends, whoever asked for it.
PICK_STATUS = f"{PICK.name}/_action/status"
#: All but what tells nothing of a pick: states of nodes, and signs of life, on which nothing is sent.
RECORDED = tuple(topic.name for topic in TOPICS if topic is not DIAGNOSTICS and topic.type is not Empty)


@dataclass
class _Followed:
    """A topic that is listened to, with its last message."""

    channel: Channel
    subscription: Subscription
    last: bytes | None = field(default=None, repr=False)


class Recorder:
    """Writes what a graph publishes; messages are stored as they come, without being understood.

    Args:
        node: Node that subscribes; its namespace is that of the graph.
        folder: Folder of the recording; with ``each_pick``, folder of ``pick-0001``, ``pick-0002`` and so on.
        each_pick: One recording a pick, from its goal to its end, instead of one for everything.
        topics: Names of topics, relative to the node's namespace.
        on_recorded: Called with each finished recording's folder.
        on_fault: Called once, when recording can't go on.
    """

    def __init__(
        self,
        node: Node,
        folder: Path,
        *,
        each_pick: bool = True,
        topics: Sequence[str] = RECORDED,
        on_recorded: Callable[[Path], None] = lambda _: None,
        on_fault: Callable[[KeygraspError], None] = lambda _: None,
    ) -> None:
        self._node, self._folder, self._each_pick = node, folder, each_pick
        self._on_recorded, self._on_fault = on_recorded, on_fault
        self._names = tuple(dict.fromkeys(node.resolve_topic_name(name) for name in topics))
        self._state = tuple(node.resolve_topic_name(topic.name) for topic in _STATE)
        self._lock = threading.RLock()
        self._followed: dict[str, _Followed] = {}
        self._writer: BagWriter | None = None
        self._number = 0
        self._close_at: float | None = None
        self.fault: KeygraspError | None = None
        if not each_pick:
            self._writer = BagWriter(folder)
        self._group = MutuallyExclusiveCallbackGroup()
        self._timer = node.create_timer(_DISCOVERY_SECONDS, self._look_around, callback_group=self._group)
        self._status = None
        if each_pick:
            self._status = node.create_subscription(
                GoalStatusArray, PICK_STATUS, self._follow_picks, LATCHED, callback_group=self._group
            )
        self._look_around()

    @property
    def count(self) -> int:
        """Recordings that were finished or are being written."""
        return self._number if self._each_pick else 1

    def close(self) -> None:
        """Stop listening and finish what is being written."""
        with self._lock:
            self._node.destroy_timer(self._timer)
            for subscription in (self._status, *(entry.subscription for entry in self._followed.values())):
                if subscription is not None:
                    self._node.destroy_subscription(subscription)
            self._followed.clear()
            self._finish()

    def _look_around(self) -> None:
        """Listen to topics that somebody publishes by now; end a pick's recording when its time has come."""
        with self._lock:
            for name in self._names:
                if name not in self._followed and self.fault is None:
                    self._follow(name)
            if self._close_at is not None and time.monotonic() >= self._close_at:
                self._finish()

    def _follow(self, name: str) -> None:
        publishers = self._node.get_publishers_info_by_topic(name)
        if not publishers:
            return
        offered = tuple({_key(p.qos_profile): p.qos_profile for p in publishers}.values())
        channel = Channel(name, publishers[0].topic_type, offered)
        try:
            kind = message_class(channel.type)
        except KeygraspError as error:
            self._node.get_logger().warning(f"not recorded: {name}: {error}", throttle_duration_sec=60.0)
            return
        subscription = self._node.create_subscription(
            kind,
            name,
            lambda data, name=name: self._take(name, data),
            _suiting(offered),
            callback_group=self._group,
            raw=True,
        )
        self._followed[name] = _Followed(channel, subscription)

    def _take(self, name: str, data: bytes) -> None:
        with self._lock:
            entry = self._followed.get(name)
            if entry is None:
                return
            if name in self._state:
                entry.last = data
            self._write(entry.channel, data)

    def _write(self, channel: Channel, data: bytes) -> None:
        if self._writer is None or self.fault is not None:
            return
        try:
            self._writer.write(channel, data, time.time_ns())
        except KeygraspError as error:
            self._fail(error)

    def _follow_picks(self, message: GoalStatusArray) -> None:
        """The first goal that runs begins a recording; when none runs any more, it ends."""
        with self._lock:
            if any(entry.status in _RUNNING for entry in message.status_list):
                if self._close_at is not None:  # another pick, before the tail of the one before had passed
                    self._finish()
                self._begin()
            elif self._writer is not None and self._close_at is None:
                self._close_at = time.monotonic() + _TAIL_SECONDS

    def _begin(self) -> None:
        if self._writer is not None or self.fault is not None:
            return
        try:
            while (folder := self._folder / f"pick-{self._number + 1:04d}").exists():
                self._number += 1
            self._writer = BagWriter(folder)
        except KeygraspError as error:
            self._fail(error)
            return
        self._number += 1
        for name in self._state:
            entry = self._followed.get(name)
            if entry is not None and entry.last is not None:
                self._write(entry.channel, entry.last)

    def _finish(self) -> None:
        writer, self._writer, self._close_at = self._writer, None, None
        if writer is None or self.fault is not None:
            return
        try:
            writer.close()
        except KeygraspError as error:
            self._fail(error)
            return
        self._on_recorded(writer.folder)

    def _fail(self, error: KeygraspError) -> None:
        self.fault = error
        self._on_fault(error)


def _suiting(offered: Sequence[QoSProfile]) -> QoSProfile:
    """The strictest profile with which all of these publishers are heard."""
    reliable = all(profile.reliability == ReliabilityPolicy.RELIABLE for profile in offered)
    kept = all(profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for profile in offered)
    return QoSProfile(
        depth=_DEPTH,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if kept else DurabilityPolicy.VOLATILE,
    )


def _key(profile: Any) -> tuple[Any, ...]:
    return profile.history, profile.depth, profile.reliability, profile.durability
