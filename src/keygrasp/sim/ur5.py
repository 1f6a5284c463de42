"""A UR5 beside the table with the parallel gripper on its flange."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from keygrasp.geometry.poses import Array, make_pose, rotation_from_quaternion
from keygrasp.robots import CancelCheck
from keygrasp.robots.motion import MotionProfile
from keygrasp.robots.ur5_paths import ARM_JOINTS, HOME, UR5Paths
from keygrasp.scene import GripperSpec, Stage
from keygrasp.sim.fingers import FINGER_JOINTS, Fingers, joint_indices
from keygrasp.sim.staged import StagedRobot
from keygrasp.sim.ur5_description import tool_length, ur5_urdf
from keygrasp.sim.world import World

#: Base of the arm in the workspace: behind the table's centre on a pedestal, so that the drop zone (±5 cm, any yaw,
#: objects up to 22 cm tall, lifted and shaken) lies at 0.35–0.53 m from the shoulder's axis, well inside its 0.82 m.
BASE_POSITION = (-0.45, 0.0, 0.15)
#: Inertia in kg·m² that the motors' rotors add at each joint through gears of ratio 101 (order of magnitude; the URDF
#: leaves it out). Without it the wrist is so light that the contact solver lets heavy objects slip in the pads.
_ROTOR_INERTIA = (1.4, 1.4, 1.4, 0.3, 0.3, 0.3)


class UR5(StagedRobot):
    """A simulated UR5 in a world; implements :class:`keygrasp.robots.Robot`.

    The arm follows the same tool path as the free gripper, in joint space, by position motors limited to the real
    joints' torques; a path that would need more than a joint's speed or range is refused before anything moves.

    Args:
        world: Where to put it; one a world.
        spec: The gripper.
        profile: How it moves.
        full_motion: Move from where the arm is to where the descent begins. Trials start there at once, as the free
            gripper does, since the approach above all objects doesn't change the verdict.
        detailed: Show the manufacturer's meshes (slower to load and render).
    """

    name = "ur5"

    def __init__(
        self,
        world: World,
        spec: GripperSpec | None = None,
        profile: MotionProfile | None = None,
        *,
        full_motion: bool = False,
        detailed: bool = False,
    ) -> None:
        self.world = world
        self.gripper = spec or GripperSpec()
        self.profile = profile or MotionProfile()
        self.full_motion = full_motion
        urdf = ur5_urdf(self.gripper, pedestal=BASE_POSITION[2], detailed=detailed)
        self.body = world.add_robot(urdf, self.park, BASE_POSITION)
        index = joint_indices(world, self.body)
        self._joints = [index[name] for name in ARM_JOINTS]
        self._palm = index["palm_joint"]
        info = [world.bullet.getJointInfo(self.body, joint, physicsClientId=world.client) for joint in self._joints]
        lower, upper, self._efforts, speeds = np.array([row[8:12] for row in info]).T
        length = tool_length(self.gripper)
        base = make_pose(BASE_POSITION)
        self.paths = UR5Paths(base, length, world.time_step, lower=lower, upper=upper, speeds=speeds)
        self._add_rotor_inertia()
        self.fingers = Fingers(world, self.body, self.gripper)
        self.park()

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the arm's joints, then of the fingers'."""
        return ARM_JOINTS + FINGER_JOINTS

    def joint_positions(self) -> Array:
        """Positions (8,) of :attr:`joint_names`: radians, and metres of each finger from the middle."""
        return np.concatenate([self._angles(), self.fingers.positions])

    def home(self, *, cancelled: CancelCheck | None = None) -> bool:
        """Move home, outside the camera's view, at half speed.

        Returns:
            Whether it arrived; ``False`` if it was cancelled and has stopped on the way.
        """
        for command in self.paths.free(self._angles(), HOME):
            self.follow(command)
            self.world.step()
            if self.on_step is not None:
                self.on_step(Stage.APPROACH)
            if cancelled is not None and cancelled():
                self.stop()
                return False
        return True

    def park(self) -> None:
        """Open and be at home at once."""
        self._jump(HOME)
        self.fingers.jump(self.gripper.max_opening)

    # What the stages need of a robot

    def plan(self, path: Array, *, from_here: bool = False) -> Array:
        """Joint angles (n, 6) of a tool path, all on one branch of the inverse kinematics."""
        return self.paths.along(path, self._angles() if from_here else np.zeros(6))

    def approach(self, command: Array, opening: float, step: Callable[[], None]) -> None:
        """Go to where the descent begins: at once, or with :attr:`full_motion` from above it."""
        if not self.full_motion:
            self._jump(command)
            self.fingers.jump(opening)
            return
        self.fingers.hold(opening)
        above = self.paths.above(command, self.profile)
        for row in np.concatenate([self.paths.free(self._angles(), above[0]), above]):
            self.follow(row)
            step()

    def follow(self, command: Array) -> None:
        """Drive the joints to angles within the next step, with the real joints' torques at most."""
        self.world.bullet.setJointMotorControlArray(
            self.body,
            self._joints,
            self.world.bullet.POSITION_CONTROL,
            targetPositions=command.tolist(),
            positionGains=[1.0] * 6,
            velocityGains=[1.0] * 6,
            forces=self._efforts.tolist(),
            physicsClientId=self.world.client,
        )

    def stop(self) -> None:
        """Brake, and hold the joints where they come to rest."""
        self.world.halt(self.body, self._joints, self._efforts.tolist())

    def tool(self) -> Array:
        """Where the tips' middle is: x, y, z in metres, yaw in radians."""
        state = self.world.bullet.getLinkState(
            self.body, self._palm, computeForwardKinematics=True, physicsClientId=self.world.client
        )
        rotation = rotation_from_quaternion(state[5])
        return np.array([*state[4], math.atan2(rotation[1, 0], rotation[0, 0])])

    # Internals

    def _add_rotor_inertia(self) -> None:
        """The engine knows no inertia about a joint's axis alone: the link behind it carries it about all axes."""
        bullet, client = self.world.bullet, self.world.client
        for joint, rotor in zip(self._joints, _ROTOR_INERTIA, strict=True):
            inertia = bullet.getDynamicsInfo(self.body, joint, physicsClientId=client)[2]
            bullet.changeDynamics(
                self.body, joint, localInertiaDiagonal=[value + rotor for value in inertia], physicsClientId=client
            )

    def _angles(self) -> Array:
        states = self.world.bullet.getJointStates(self.body, self._joints, physicsClientId=self.world.client)
        return np.array([state[0] for state in states])

    def _jump(self, angles: Array) -> None:
        for joint, angle in zip(self._joints, angles.tolist(), strict=True):
            self.world.bullet.resetJointState(self.body, joint, angle, 0.0, physicsClientId=self.world.client)
        self.follow(angles)
