"""Where frames are: a small listener on ``/tf`` and ``/tf_static`` (the tf2 library is not needed).

Moving frames are looked up at their latest time: a camera over the table stands still while it looks.
"""

from __future__ import annotations

import threading
import time

import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from tf2_msgs.msg import TFMessage

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array, invert_pose
from keygrasp_ros.conversions import pose_matrix
from keygrasp_ros.topics import TF, TF_STATIC

#: Longest chain of frames that is followed; a longer one is a circle.
_MAX_DEPTH = 64
_POLL_SECONDS = 0.02


class FrameTree:
    """The latest pose of each frame in its parent; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parents: dict[str, tuple[str, Array]] = {}
        self._messages: dict[str, TransformStamped] = {}

    def update(self, message: TFMessage) -> list[str]:
        """Take the transforms of a message; returns what was wrong with those that were dropped."""
        faults = []
        for transform in message.transforms:
            child, parent = transform.child_frame_id.lstrip("/"), transform.header.frame_id.lstrip("/")
            if not child or not parent or child == parent:
                faults.append(f"a transform from '{parent}' to '{child}': both frames need a name of their own")
                continue
            t, last = transform.transform, self._messages.get(child)
            if last is not None and last.transform == t and last.header.frame_id == transform.header.frame_id:
                continue  # most frames stand still most of the time
            try:
                pose = pose_matrix(t.translation, t.rotation, f"transform to '{child}'")
            except InputError as error:
                faults.append(str(error))
                continue
            with self._lock:
                self._parents[child] = (parent, pose)
                self._messages[child] = transform
        return faults

    def pose(self, frame: str, reference: str) -> Array:
        """Pose (4, 4) of ``frame`` in ``reference``.

        Raises:
            InputError: If nothing connects the two (yet).
        """
        with self._lock:
            up, down = self._chain(frame), self._chain(reference)
        common = next((name for name in up if name in down), None)
        if common is None:
            raise InputError(
                f"nothing on /tf connects frame '{frame}' with '{reference}'",
                "Publish the camera's pose in the workspace frame",
            )
        return np.asarray(invert_pose(down[common]) @ up[common])

    def wait_for_pose(self, frame: str, reference: str, seconds: float) -> Array:
        """As :meth:`pose`, but a frame may still be on its way: a node that just started hears of it a moment later.

        Raises:
            InputError: If nothing connects the two within ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.pose(frame, reference)
            except InputError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_POLL_SECONDS)

    def _chain(self, frame: str) -> dict[str, Array]:
        """Pose of ``frame`` in itself and in each of its ancestors, nearest first."""
        chain, pose = {frame: np.eye(4)}, np.eye(4)
        while frame in self._parents and len(chain) < _MAX_DEPTH:
            frame, step = self._parents[frame]
            if frame in chain:
                break
            pose = step @ pose
            chain[frame] = pose
        return chain


def listen(node: Node) -> FrameTree:
    """A tree that follows ``/tf`` and ``/tf_static`` as long as ``node`` spins."""
    tree = FrameTree()

    def take(message: TFMessage) -> None:
        for fault in tree.update(message):
            node.get_logger().warning(f"dropped: {fault}", throttle_duration_sec=5.0)

    group = ReentrantCallbackGroup()
    for topic in (TF, TF_STATIC):
        node.create_subscription(TFMessage, topic.name, take, topic.qos, callback_group=group)
    return tree
