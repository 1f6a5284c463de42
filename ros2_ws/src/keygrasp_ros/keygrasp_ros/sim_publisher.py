"""What the simulator publishes: depth with its camera model, joint states, transforms, pictures of the arm."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from builtin_interfaces.msg import Time
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
from std_msgs.msg import Header, String
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.cameras import overhead_pose
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.sim import look_at
from keygrasp_ros.conversions import camera_info_message, depth_message, rgb_message
from keygrasp_ros.robot_state import RobotState, robot_description, transform
from keygrasp_ros.sim_clock import SimClock
from keygrasp_ros.sim_scene import SimScene
from keygrasp_ros.sim_symbols import SymbolPublisher
from keygrasp_ros.topics import DEPTH, DEPTH_INFO, JOINT_STATES, OBSERVER, ROBOT_DESCRIPTION, TF, TF_STATIC, Topic

#: Size of the observer's pictures in pixels.
_OBSERVER_SIZE = (480, 360)


#: Where the observer stands: before the table's corner, close enough to see the grasp.
_OBSERVER = look_at((0.48, -0.52, 0.42), (-0.06, 0.0, 0.16))
_IMAGES = (DEPTH, DEPTH_INFO)
_PUBLISHED = (DEPTH, DEPTH_INFO, OBSERVER, JOINT_STATES, ROBOT_DESCRIPTION, TF, TF_STATIC)


class SimPublisher:
    """Publishes a scene's state; its methods must be called by whoever may touch the world.

    Args:
        node: Node that publishes.
        read: Reads the node's parameters.
        scene: What is shown.
        on_viewers: Called when somebody begins or ceases to take images; see :attr:`has_viewers`.
        clock: Simulated time, for stamps; the node's own clock where it is ``None``.
    """

    def __init__(
        self,
        node: Node,
        read: Callable[[str], Any],
        scene: SimScene,
        on_viewers: Callable[[], None],
        clock: SimClock | None,
    ) -> None:
        self._node, self._scene, self._clock = node, scene, clock
        self._workspace: str = read("workspace_frame")
        self._camera: str = read("camera.frame")
        self._period = 1.0 / read("state_rate")
        self._last_state = 0.0
        self._pace: tuple[float, float] | None = None
        events = PublisherEventCallbacks(matched=lambda _: on_viewers())
        self._publishers = {
            t.name: node.create_publisher(t.type, t.name, t.qos, event_callbacks=events if t in _IMAGES else None)
            for t in _PUBLISHED
        }
        self._state: RobotState | None = None
        self._symbols = SymbolPublisher(node, scene, self._workspace)

    def now(self) -> Time:
        """The time of what is published."""
        stamp: Time = self._node.get_clock().now().to_msg() if self._clock is None else self._clock.now()
        return stamp

    @property
    def has_viewers(self) -> bool:
        """Whether anybody takes images."""
        return any(self._publishers[topic.name].get_subscription_count() for topic in _IMAGES)

    def publish_fixed(self) -> None:
        """What stays as it is until the next load; ``/tf_static`` in one message, as a late listener gets the last."""
        scene = self._scene.scene
        self._state = RobotState(scene.world, scene.robot.body, self._workspace)
        stamp = self.now()
        camera = transform(self._camera, self._workspace, overhead_pose(PROTOCOL.camera_height), stamp)
        self._publish(ROBOT_DESCRIPTION, String(data=robot_description(scene.robot)))
        self._publish(TF_STATIC, TFMessage(transforms=[camera, self._state.base(stamp)]))

    def publish_image(self) -> None:
        """The depth image and its camera model, with one stamp."""
        view = self._scene.view
        header = Header(stamp=self.now(), frame_id=self._camera)
        self._publish(DEPTH, depth_message(view.depth, header))
        self._publish(DEPTH_INFO, camera_info_message(view.intrinsics, header))

    def publish_state(self) -> None:
        """Joint states, link transforms and symbols."""
        if self._state is None:
            return
        stamp = self.now()
        self._last_state = time.monotonic()
        self._publish(JOINT_STATES, self._state.joint_state(stamp))
        self._publish(TF, self._state.links(stamp))
        self._symbols.publish(stamp)

    def publish_observer(self) -> None:
        """A picture of the arm as it is now."""
        header = Header(stamp=self.now(), frame_id=self._workspace)
        self._publish(OBSERVER, rgb_message(self._scene.scene.world.render_rgb(*_OBSERVER_SIZE, _OBSERVER), header))

    def step(self, real_time_factor: float) -> None:
        """After a simulated step: publish the state when it is due, and hold time back where it runs too fast."""
        if self._clock is not None:
            self._clock.step(self._scene.scene.world.time)
        if time.monotonic() - self._last_state >= self._period:
            self.publish_state()
        if real_time_factor <= 0:
            return
        now, simulated = time.monotonic(), self._scene.scene.world.time
        if self._pace is None or simulated < self._pace[1] or now - self._pace[0] > 60.0:
            self._pace = (now, simulated)
        ahead = (simulated - self._pace[1]) / real_time_factor - (now - self._pace[0])
        if ahead < -0.1:  # it stood still since: what was missed is not made up for
            self._pace = (now, simulated)
        if ahead > 0:
            time.sleep(ahead)

    def close(self) -> None:
        """Take the publishers down."""
        for publisher in self._publishers.values():
            self._node.destroy_publisher(publisher)
        self._symbols.close()

    def _publish(self, topic: Topic, message: Any) -> None:
        self._publishers[topic.name].publish(message)
