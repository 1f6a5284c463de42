"""A gripper that floats: the fast way to run trials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots import Unreachable
from keygrasp.robots.motion import MotionProfile
from keygrasp.scene import GripperSpec
from keygrasp.sim.fingers import Fingers, gripper_links, joint_indices
from keygrasp.sim.robot_files import robot_file
from keygrasp.sim.staged import StagedRobot
from keygrasp.sim.world import TABLE_HALF, World

_AXES = ("x", "y", "z", "yaw")
#: Newtons (newton metres for yaw) of the base's motors: it follows its path whatever it meets.
_BASE_FORCE = 40_000.0
#: Kilograms of each carriage. Heavy ones let the contact solver converge better, for contact then hardly moves them
#: within an iteration: a 0.5 kg cylinder slips 0.5 mm in KG-1's shake instead of 1.2 mm (0.1 mm with 1,000 iterations).
_CARRIAGE_MASS = 20.0
_PALM_MASS = 5.0
#: Metres above the table where it waits, behind an overhead camera.
_PARKED = np.array([0.0, 0.0, 2.0, 0.0])


def free_gripper_urdf(spec: GripperSpec) -> str:
    """URDF of the gripper on a chain of three sliding joints and one turning joint."""
    joints = []
    parents = ("world", "carriage_x", "carriage_y", "carriage_z")
    children = ("carriage_x", "carriage_y", "carriage_z", "palm")
    kinds = (("prismatic", "1 0 0"), ("prismatic", "0 1 0"), ("prismatic", "0 0 1"), ("continuous", "0 0 1"))
    for axis, parent, child, (kind, direction) in zip(_AXES, parents, children, kinds, strict=True):
        # A lower limit above the upper one means no limit to the engine, which saves it two constraints a joint.
        joints.append(
            f'<joint name="{axis}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
            f'<axis xyz="{direction}"/><limit lower="1" upper="-1" effort="{_BASE_FORCE}" velocity="100"/></joint>'
        )
    carriages = "".join(
        f'<link name="{name}"><inertial><mass value="{_CARRIAGE_MASS:g}"/>'
        f'<inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for name in children[:3]
    )
    return (
        f'<?xml version="1.0"?>\n<robot name="free_gripper"><link name="world"/>\n{carriages}\n'
        f"{gripper_links(spec, palm_mass=_PALM_MASS)}\n{''.join(joints)}\n</robot>\n"
    )


class FreeGripper(StagedRobot):
    """A floating parallel gripper in a world; implements :class:`keygrasp.robots.Robot`.

    Args:
        world: Where to put it; one a world.
        spec: The gripper.
        profile: How it moves.
    """

    name = "gripper"

    def __init__(self, world: World, spec: GripperSpec | None = None, profile: MotionProfile | None = None) -> None:
        self.world = world
        self.gripper = spec or GripperSpec()
        self.profile = profile or MotionProfile()
        self.body = world.add_robot(
            robot_file("free-gripper.urdf", free_gripper_urdf(self.gripper).encode()), self.park
        )
        index = joint_indices(world, self.body)
        self._joints = [index[axis] for axis in _AXES]
        self.fingers = Fingers(world, self.body, self.gripper)
        self.park()

    def park(self) -> None:
        """Open and go out of the camera's view at once."""
        self._jump(_PARKED)
        self.fingers.jump(self.gripper.max_opening)

    # What the stages need of a robot

    def plan(self, path: Array, *, from_here: bool = False) -> Array:
        """Commands of a tool path: the path itself, if it stays above the table."""
        if np.any(np.abs(path[:, :2]) > TABLE_HALF):
            raise Unreachable(f"the grasp at ({path[0, 0]:.3f}, {path[0, 1]:.3f}) m lies outside the table")
        return path

    def approach(self, command: Array, opening: float, step: Callable[[], None]) -> None:
        """Appear where the path begins."""
        self._jump(command)
        self.fingers.jump(opening)

    def follow(self, command: Array) -> None:
        """Drive to a tool pose within the next step."""
        self.world.bullet.setJointMotorControlArray(
            self.body,
            self._joints,
            self.world.bullet.POSITION_CONTROL,
            targetPositions=command.tolist(),
            positionGains=[1.0] * 4,
            velocityGains=[1.0] * 4,
            forces=[_BASE_FORCE] * 4,
            physicsClientId=self.world.client,
        )

    def stop(self) -> None:
        """Brake, and hold where it comes to rest."""
        self.world.halt(self.body, self._joints, [_BASE_FORCE] * 4)

    def tool(self) -> Array:
        """Where the tips' middle is: x, y, z in metres, yaw in radians."""
        states = self.world.bullet.getJointStates(self.body, self._joints, physicsClientId=self.world.client)
        return np.array([state[0] for state in states])

    def _jump(self, pose: Array) -> None:
        for joint, value in zip(self._joints, pose.tolist(), strict=True):
            self.world.bullet.resetJointState(self.body, joint, value, 0.0, physicsClientId=self.world.client)
        self.follow(pose)
