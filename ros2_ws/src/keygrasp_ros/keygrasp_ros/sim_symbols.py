"""The true symbols of the simulated scene, published while the arm moves and while it stands."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from rclpy.node import Node
from std_msgs.msg import Header

from keygrasp.sim.symbols import SymbolObserver
from keygrasp_ros.sim_scene import SimScene
from keygrasp_ros.symbol_conversions import symbols_message
from keygrasp_ros.topics import SYMBOLS


class SymbolPublisher:
    """Publishes the symbols of a scene, if anybody listens; use it from whoever may touch the world.

    A new episode begins with another object, and where the object was put back or imaged anew.

    Args:
        node: Node that publishes.
        scene: The scene.
        frame: The workspace frame.
    """

    def __init__(self, node: Node, scene: SimScene, frame: str) -> None:
        self._node, self._scene, self._frame = node, scene, frame
        self._publisher = node.create_publisher(SYMBOLS.type, SYMBOLS.name, SYMBOLS.qos)
        self._observer: SymbolObserver | None = None
        self._begun: tuple[object, int] = (None, 0)
        self._time = 0.0
        self._episode = 0

    def close(self) -> None:
        """Take the publisher down."""
        self._node.destroy_publisher(self._publisher)

    def publish(self, stamp: Time) -> None:
        """Publish the symbols now."""
        if not self._publisher.get_subscription_count():
            self._observer = None  # steps that nobody saw don't count: the next listener begins an episode
            return
        scene = self._scene.scene
        begun = (scene, self._scene.attempts)
        if self._observer is None or begun != self._begun or scene.world.time < self._time:
            self._observer = SymbolObserver(scene.robot, scene.handle)
            self._episode += 1
        self._begun, self._time = begun, scene.world.time
        header = Header(stamp=stamp, frame_id=self._frame)
        self._publisher.publish(symbols_message(self._observer.observe(), header, self._episode))
