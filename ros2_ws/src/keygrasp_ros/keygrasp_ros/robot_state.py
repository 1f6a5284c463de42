"""Joint states, transforms and description of a simulated robot, read from the physics engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, TransformStamped, Vector3
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.poses import Array, make_pose, rotation_from_quaternion
from keygrasp.robots import Robot
from keygrasp.sim import World
from keygrasp.sim.free_gripper import free_gripper_urdf
from keygrasp.sim.ur5 import BASE_POSITION
from keygrasp.sim.ur5_description import ur5_urdf
from keygrasp_ros.conversions import pose_message


def transform(child: str, parent: str, pose: Array, stamp: Time) -> TransformStamped:
    """The pose (4, 4) of ``child`` in ``parent`` as a transform."""
    p, q = (message := pose_message(pose)).position, message.orientation
    return _stamped(child, parent, (p.x, p.y, p.z), (q.x, q.y, q.z, q.w), stamp)


def _stamped(
    child: str, parent: str, place: Sequence[float], quaternion: Sequence[float], stamp: Time
) -> TransformStamped:
    stamped = TransformStamped(header=Header(stamp=stamp, frame_id=parent), child_frame_id=child)
    stamped.transform.translation = Vector3(x=place[0], y=place[1], z=place[2])
    x, y, z, w = quaternion
    stamped.transform.rotation = Quaternion(x=x, y=y, z=z, w=w)
    return stamped


def robot_description(robot: Robot) -> str:
    """URDF of a simulated robot; its link names are those on ``/tf``. Meshes are given as file URLs, as RViz needs."""
    if robot.name == "ur5":
        path = ur5_urdf(robot.gripper, pedestal=BASE_POSITION[2], detailed=False)
        return path.read_text(encoding="utf-8").replace('filename="/', 'filename="file:///')
    return free_gripper_urdf(robot.gripper)


class RobotState:
    """Reads one robot in a world; call it only from the thread that steps the world, or with its lock held.

    Args:
        world: Where the robot is.
        body: The engine's id of its body.
        workspace_frame: Frame of the world's coordinates.
    """

    def __init__(self, world: World, body: int, workspace_frame: str) -> None:
        self._world, self._body, self._frame = world, body, workspace_frame
        bullet = world.bullet
        infos = [
            bullet.getJointInfo(body, joint, physicsClientId=world.client)
            for joint in range(bullet.getNumJoints(body, physicsClientId=world.client))
        ]
        self._links = {info[0]: info[12].decode() for info in infos}
        self._joints = {
            info[0]: info[1].decode() for info in infos if info[2] in (bullet.JOINT_REVOLUTE, bullet.JOINT_PRISMATIC)
        }
        self._base = bullet.getBodyInfo(body, physicsClientId=world.client)[0].decode()

    def joint_state(self, stamp: Time) -> JointState:
        """Positions, velocities and efforts of the movable joints (rad or m, and per second; N m or N)."""
        states = self._call("getJointStates", list(self._joints))
        message = JointState(header=Header(stamp=stamp), name=list(self._joints.values()))
        message.position = [state[0] for state in states]
        message.velocity = [state[1] for state in states]
        message.effort = [state[3] for state in states]
        return message

    def base(self, stamp: Time) -> TransformStamped:
        """The base link in the workspace frame."""
        position, quaternion = self._call("getBasePositionAndOrientation")
        inertial = self._call("getDynamicsInfo", -1)
        inverse = self._world.bullet.invertTransform(inertial[3], inertial[4])
        place, turn = self._world.bullet.multiplyTransforms(position, quaternion, *inverse)
        return transform(self._base, self._frame, make_pose(place, rotation_from_quaternion(turn)), stamp)

    def links(self, stamp: Time) -> TFMessage:
        """Every moving link in the workspace frame."""
        states = self._call("getLinkStates", list(self._links), computeForwardKinematics=1)
        transforms = [
            _stamped(name, self._frame, state[4], state[5], stamp)
            for name, state in zip(self._links.values(), states, strict=True)
            if all(math.isfinite(value) for value in (*state[4], *state[5]))
        ]
        return TFMessage(transforms=transforms)

    def _call(self, function: str, *arguments: Any, **options: Any) -> Any:
        return getattr(self._world.bullet, function)(
            self._body, *arguments, physicsClientId=self._world.client, **options
        )
