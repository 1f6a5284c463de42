"""A UR5 beside the table with the parallel gripper on its flange."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from keygrasp.geometry.poses import Array, invert_pose, make_pose, rotation_from_quaternion
from keygrasp.robots import CancelCheck
from keygrasp.scene import GripperSpec, Stage
from keygrasp.sim.fingers import FINGER_JOINTS, Fingers, joint_indices
from keygrasp.sim.motion import MotionProfile, trapezoid
from keygrasp.sim.staged import StagedRobot
from keygrasp.sim.stages import Unreachable
from keygrasp.sim.ur5_description import tool_length, ur5_urdf
from keygrasp.sim.ur5_kinematics import BASE_IN_BASE_LINK, forward, inverse
from keygrasp.sim.world import World

ARM_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
#: Base of the arm in the workspace: behind the table's centre on a pedestal, so that the drop zone (±5 cm, any yaw,
#: objects up to 22 cm tall, lifted and shaken) lies at 0.35–0.53 m from the shoulder's axis, well inside its 0.82 m.
BASE_POSITION = (-0.45, 0.0, 0.15)
#: Where the arm waits: folded to the side, outside the view of a camera over the table's centre.
HOME = np.array([-1.8, -1.7, 2.0, -0.3 - math.pi / 2, -math.pi / 2, 0.0])
#: Elbow above the straight line from shoulder to wrist, tool pointing down.
_BRANCH = {"shoulder": 1, "wrist": -1, "elbow": 1}
#: Inertia in kg·m² that the motors' rotors add at each joint through gears of ratio 101 (order of magnitude; the URDF
#: leaves it out). Without it the wrist is so light that the contact solver lets heavy objects slip in the pads.
_ROTOR_INERTIA = (1.4, 1.4, 1.4, 0.3, 0.3, 0.3)
#: Share of the joints' speed limits, and radians a second squared, of free motions between poses.
_FREE_SPEED_SHARE = 0.5
_FREE_ACCELERATION = 4.0
#: Metres above the beginning of the descent from which a full motion comes straight down.
_APPROACH_HEIGHT = 0.08


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
        self._lower, self._upper, self._efforts, self._speeds = np.array([row[8:12] for row in info]).T
        self._base_in_workspace = make_pose(BASE_POSITION) @ BASE_IN_BASE_LINK
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
        for command in self._free_motion(HOME):
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
        return self._plan(path, self._angles() if from_here else np.zeros(6))

    def approach(self, command: Array, opening: float, step: Callable[[], None]) -> None:
        """Go to where the descent begins: at once, or with :attr:`full_motion` from above it."""
        if not self.full_motion:
            self._jump(command)
            self.fingers.jump(opening)
            return
        self.fingers.hold(opening)
        above = self._above(command)
        for row in np.concatenate([self._free_motion(above[0]), above]):
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

    def _plan(self, path: Array, near: Array) -> Array:
        """Joint angles (n, 6) of a tool path; of the turns that are equivalent, those that begin nearest ``near``."""
        tool = np.zeros((len(path), 4, 4))
        cosine, sine = np.cos(path[:, 3]), np.sin(path[:, 3])
        # Pointing down: Rz(yaw) · diag(1, -1, -1).
        tool[:, 0, 0], tool[:, 0, 1] = cosine, sine
        tool[:, 1, 0], tool[:, 1, 1] = sine, -cosine
        tool[:, 2, 2], tool[:, 3, 3] = -1.0, 1.0
        tool[:, :3, 3] = path[:, :3] + [0.0, 0.0, tool_length(self.gripper)]
        angles, reached = inverse(invert_pose(self._base_in_workspace) @ tool, **_BRANCH)
        if not np.all(reached):
            x, y, z, _ = path[np.argmin(reached)]
            raise Unreachable(f"the UR5 can't reach ({x:.3f}, {y:.3f}, {z:.3f}) m with the gripper pointing down")
        angles = np.unwrap(angles, axis=0)
        angles -= 2 * np.pi * np.round((angles[0] - near) / (2 * np.pi))
        self._check_limits(angles)
        return angles

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

    def _check_limits(self, angles: Array) -> None:
        """Refuse angles (n, 6) out of a joint's range, or that follow each other faster than it turns."""
        beyond = np.any((angles < self._lower) | (angles > self._upper), axis=0)
        if np.any(beyond):
            raise Unreachable(f"{ARM_JOINTS[int(np.argmax(beyond))]} would leave its range")
        speeds = np.abs(np.diff(angles, axis=0)).max(axis=0, initial=0.0) / self.world.time_step
        if np.any(speeds > self._speeds):
            joint = int(np.argmax(speeds / self._speeds))
            raise Unreachable(
                f"{ARM_JOINTS[joint]} would have to turn at {speeds[joint]:.1f} rad/s, "
                f"above its limit of {self._speeds[joint]:.2f} rad/s"
            )

    def _free_motion(self, goal: Array) -> Array:
        """Joint angles (n, 6) of a rest-to-rest motion, straight in joint space; all joints arrive together."""
        start = self._angles()
        way = np.abs(goal - start)
        if way.max() < 1e-9:
            return goal[None]
        speed = float(np.min(_FREE_SPEED_SHARE * self._speeds / np.maximum(way, 1e-9)))
        acceleration = float(np.min(_FREE_ACCELERATION / np.maximum(way, 1e-9)))
        shares = trapezoid(1.0, speed, acceleration, self.world.time_step)
        return np.asarray(start + shares[:, None] * (goal - start))

    def _above(self, command: Array) -> Array:
        """Joint angles (n, 6) of the way straight down onto where ``command`` brings the tool."""
        pose = self._base_in_workspace @ forward(command)
        x, y, z = pose[:3, 3]
        yaw = math.atan2(pose[1, 0], pose[0, 0])
        left = _APPROACH_HEIGHT - trapezoid(
            _APPROACH_HEIGHT, self.profile.descend_speed, self.profile.descend_acceleration, self.world.time_step
        )
        heights = z - tool_length(self.gripper) + left
        path = np.column_stack(
            [np.full_like(heights, x), np.full_like(heights, y), heights, np.full_like(heights, yaw)]
        )
        return self._plan(path, command)
