"""What the Delta's node publishes: its description, joint states by its kinematics, transforms, its health."""

from __future__ import annotations

import math
import time

from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.poses import Array, invert_pose
from keygrasp.geometry.solids import binary_stl
from keygrasp.robots.delta_x import DeltaX, State
from keygrasp.robots.delta_x.description import BASE, FINGER_JOINTS, TURN_JOINT, DeltaDescription
from keygrasp.robots.delta_x.tracking import Whereabouts
from keygrasp.sim.robot_files import robot_file
from keygrasp_ros.robot_state import transform
from keygrasp_ros.topics import JOINT_STATES, RESET_STOP, ROBOT_DESCRIPTION, TF, TF_STATIC

#: Seconds between joint states while it stands.
_STANDING_SECONDS = 1.0
_PUBLISHED = (JOINT_STATES, ROBOT_DESCRIPTION, TF, TF_STATIC)


class DeltaPublisher:
    """Publishes one robot.

    Args:
        node: Node that publishes.
        description: The robot.
    """

    def __init__(self, node: Node, description: DeltaDescription) -> None:
        self._node, self._description = node, description
        self._publishers = {
            topic.name: node.create_publisher(topic.type, topic.name, topic.qos) for topic in _PUBLISHED
        }
        self._sent, self._since = 0, time.monotonic()
        self._last_state = -math.inf

    def publish_fixed(self, table_frame: str, table_in_robot: Array, camera: tuple[str, Array] | None) -> None:
        """What stays as it is; ``/tf_static`` in one message, as a late listener gets the last.

        Args:
            table_frame: The workspace's frame.
            table_in_robot: Its pose (4, 4) in the robot's frame.
            camera: Frame of a camera and its pose (4, 4) in the robot's frame.
        """
        robot, stamp = self._description.robot, self._node.get_clock().now().to_msg()
        fixed = [transform(BASE, table_frame, invert_pose(table_in_robot), stamp)]
        fixed += [transform(j.child, j.parent, j.origin, stamp) for j in robot.joints if j.kind == "fixed"]
        if camera is not None:
            fixed.append(transform(camera[0], BASE, camera[1], stamp))
        self._publishers[TF_STATIC.name].publish(TFMessage(transforms=fixed))
        meshes = {name: robot_file(f"{name}.stl", binary_stl(mesh)).as_uri() for name, mesh in robot.shapes.items()}
        self._publishers[ROBOT_DESCRIPTION.name].publish(String(data=robot.urdf(meshes)))

    def publish_state(self, where: Whereabouts, *, busy: bool) -> None:
        """Joint states, the passive joints' too, and transforms; not each time while it stands and isn't ``busy``.

        Of the tool nothing is known before its first command: its joints are then not among the states, and it is drawn
        open and unturned.
        """
        now = time.monotonic()
        if not (where.moving or busy or now - self._last_state >= _STANDING_SECONDS):
            return
        self._last_state = now
        description, tool = self._description, self._description.tool
        unknown = set() if where.turn is not None else {TURN_JOINT}
        unknown |= set() if where.opening is not None else set(FINGER_JOINTS)
        positions = description.joint_positions(
            where.position,
            yaw=0.0 if where.turn is None else tool.yaw(where.turn),
            opening=tool.table[-1][0] if where.opening is None else where.opening,
        )
        stamp = self._node.get_clock().now().to_msg()
        known = {name: position for name, position in positions.items() if name not in unknown}
        state = JointState(header=Header(stamp=stamp), name=list(known), position=list(known.values()))
        moving = [transform(j.child, j.parent, j.pose(positions[j.name]), stamp) for j in description.robot.moving]
        self._publishers[JOINT_STATES.name].publish(state)
        self._publishers[TF.name].publish(TFMessage(transforms=moving))
        self._sent += 1

    def rate(self) -> float:
        """States a second since this was last asked."""
        now = time.monotonic()
        rate = self._sent / max(now - self._since, 1e-3)
        self._sent, self._since = 0, now
        return rate

    def close(self) -> None:
        """Take the publishers down."""
        for publisher in self._publishers.values():
            self._node.destroy_publisher(publisher)


def broken(driver: DeltaX | None, *, stopped: bool) -> str:
    """What makes a Delta useless until somebody acts, in words; empty where nothing does."""
    if stopped:
        return f"emergency stop; '{RESET_STOP.name}' lets it move again"
    lost = driver is not None and driver.state is State.LOST
    return "the robot is lost; the next goal connects again, which homes it" if lost else ""


def details(driver: DeltaX | None, publisher: DeltaPublisher | None) -> dict[str, object]:
    """The state of the link, how well the position is known, counts, rates and latencies, for ``/diagnostics``."""
    if driver is None or publisher is None:
        return {"link": State.DISCONNECTED}
    where = driver.whereabouts
    return {
        "link": driver.state,
        "moving": where.moving,
        "position_age_s": round(where.age, 2),
        "position_lag_mm": round(1e3 * where.lag, 3),
        "tool": "not known yet" if where.turn is None or where.opening is None else "as last told",
        "state_rate_hz": round(publisher.rate(), 1),
        **driver.figures.snapshot(),
    }
