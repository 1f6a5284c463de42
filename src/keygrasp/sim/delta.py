"""The twin of a Delta X: its closed loops over the table, with the parallel gripper on its platform."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from keygrasp.errors import RobotError
from keygrasp.geometry.poses import Array, invert_pose, make_pose, quaternion_from_rotation, rotation_from_quaternion
from keygrasp.robots import Unreachable
from keygrasp.robots.delta_x import DeltaModel, ToolConfig, check_path, forward, inverse, load_model
from keygrasp.robots.delta_x.description import ARM_JOINTS, FINGER_JOINTS, PALM, PLATFORM, TURN_JOINT
from keygrasp.robots.delta_x.reach import GraspReach, half_turns
from keygrasp.robots.delta_x.workspace import violations
from keygrasp.robots.motion import MotionProfile
from keygrasp.scene import GripperSpec
from keygrasp.sim.delta_description import PALM_MASS, TwinDescription, describe_twin, kg1_tool, tool_mass
from keygrasp.sim.delta_flaws import Flaws, Transmission
from keygrasp.sim.fingers import Fingers, joint_indices
from keygrasp.sim.loops import Loops
from keygrasp.sim.robot_files import robot_file
from keygrasp.sim.staged import StagedRobot
from keygrasp.sim.world import World

#: The model of KG-1's trials.
TRIAL_MODEL = Path(__file__).with_name("delta_twin.yaml")
#: Metres that the fingertips could go below the table before the platform is at its floor.
_FLOOR_ROOM = 0.004
#: Metres by which the base is raised out of a camera's view.
_PARKED = 3.0
#: Newton metres of the motor that turns the tool.
_TURN_TORQUE = 10.0
_GRAVITY = 9.81


def lowest_table(model: DeltaModel, tool: ToolConfig) -> float:
    """Height (z in metres in the robot's frame) of the lowest table that the fingertips reach with room to spare."""
    return model.floor - tool.length + _FLOOR_ROOM


class DeltaTwin(StagedRobot):
    """A simulated Delta in a world; implements :class:`keygrasp.robots.Robot`.

    Motors on the three upper arms and on the tool's turn follow the kinematics; the forearms and the platform are
    moved by them alone, through loops that are closed by points. A path that leaves the workspace, turns the tool too
    far, or is too fast is refused before anything moves.

    A Delta hangs over its workspace, in the view of a camera above it. KG-1's camera takes its image before the robot
    is there, as over a conveyor: parked means raised out of sight.

    Args:
        world: Where to put it; one a world.
        spec: The gripper.
        profile: How it moves.
        model: The robot; :data:`TRIAL_MODEL` where left out.
        tool: Length and turn of its tool; :func:`~keygrasp.sim.delta_description.kg1_tool` where left out.
        table: z of the table's surface in the robot's frame; a few millimetres above the fingertips' lowest where
            left out.
        palm_mass: Kilograms of the tool without its neck and fingers.
        detailed: All six rods, and the robot's look, instead of one rod a leg: takes half as long again.

    Raises:
        RobotError: If the tool is too heavy for the robot.
    """

    name = "delta"

    def __init__(
        self,
        world: World,
        spec: GripperSpec | None = None,
        profile: MotionProfile | None = None,
        *,
        model: DeltaModel | None = None,
        tool: ToolConfig | None = None,
        table: float | None = None,
        palm_mass: float = PALM_MASS,
        detailed: bool = False,
    ) -> None:
        self.world = world
        self.gripper = spec or GripperSpec()
        self.profile = profile or MotionProfile()
        self.model = model or _trial_model()
        self.tool_config = tool or kg1_tool(self.gripper)
        if self.model.payload <= tool_mass(palm_mass):
            raise RobotError(
                f"a tool of {tool_mass(palm_mass):g} kg is too heavy for {self.model.name}, which carries "
                f"{self.model.payload:g} kg",
                "Choose a larger model (KG-1's trials have one twice as large) or a lighter palm",
            )
        self.table = self._lowest_table(self.model) if table is None else table
        self.flaws = Flaws()
        self.reach = self._reach_of(self.model, self.table)
        self._description = _described(self.model, self.tool_config, self.gripper, palm_mass, detailed)
        base = (0.0, 0.0, -self.table)
        self.body = world.add_robot(robot_file("delta.urdf", self._description.urdf.encode()), self.park, base)
        self._index = joint_indices(world, self.body)
        self._joints = [self._index[name] for name in (*ARM_JOINTS, TURN_JOINT)]
        self._efforts = [_torque(self.model)] * 3 + [_TURN_TORQUE]
        inertial = world.bullet.getDynamicsInfo(self.body, -1, physicsClientId=world.client)[3:5]
        #: The engine takes a base to be where its centre of mass is.
        self._base_mass_centre = make_pose(inertial[0], rotation_from_quaternion(inertial[1]))
        self._half_turn = 0.0
        self._transmission = Transmission(self.flaws, np.zeros(4), world.time_step)
        self.fingers = Fingers(world, self.body, self.gripper)
        self._release_passive_joints()
        self._loops = Loops(world, self.body, self._description.closures)
        self.park()

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the driven joints, then of the fingers'."""
        return (*ARM_JOINTS, TURN_JOINT, *FINGER_JOINTS)

    def joint_positions(self) -> Array:
        """Positions (6,) of :attr:`joint_names`: radians, and metres of each finger from the middle."""
        states = self.world.bullet.getJointStates(self.body, self._joints, physicsClientId=self.world.client)
        return np.array([*(state[0] for state in states), *self.fingers.positions])

    def loop_errors(self) -> Array:
        """Metres (n,) between the two points that each loop should hold together."""
        return self._loops.errors()

    def platform_pose(self) -> Array:
        """Pose (4, 4) of the platform in the workspace."""
        return self._loops.pose(PLATFORM)

    def park(self) -> None:
        """Open and go out of the camera's view at once."""
        middle = np.array([0.0, 0.0, (self.model.home_z + self.model.floor) / 2])
        self._jump(make_pose((0.0, 0.0, _PARKED)), middle, 0.0, self.gripper.max_opening)

    def reach_with(self, model: DeltaModel) -> GraspReach:
        """What another model with the same tool could reach over a table that is as low as its fingertips go."""
        return self._reach_of(model, self._lowest_table(model))

    # What the stages need of a robot

    def plan(self, path: Array, *, from_here: bool = False) -> Array:
        """Commands (n, 4) of a tool path: the arms' angles and the tool's turn in radians."""
        points = path[:, :3] + np.array([0.0, 0.0, self.table + self.tool_config.length])
        bad = violations(self.model, points) > 0
        if np.any(bad):
            x, y, z, _ = path[np.argmax(bad)]
            fault = check_path(self.model, points[np.argmax(bad)][None])
            what = "" if fault is None else f": {fault.limit}{fault.detail and f' ({fault.detail})'}"
            raise Unreachable(f"the Delta can't bring its fingertips to ({x:.3f}, {y:.3f}, {z:.3f}) m{what}")
        self._check_speed(points)
        yaw = np.unwrap(path[:, 3])
        if not from_here:
            self._half_turn = self._chosen_half_turn(yaw)
        return np.column_stack([inverse(self.model.geometry, points), yaw + self._half_turn])

    def approach(self, command: Array, opening: float, step: Callable[[], None]) -> None:
        """Appear where the path begins."""
        self._jump(self.flaws.mount, forward(self.model.geometry, command[:3]), float(command[3]), opening)
        self._transmission = Transmission(self.flaws, command, self.world.time_step)

    def follow(self, command: Array) -> None:
        """Drive the joints to a command within the next step, with the motors' torques at most."""
        self._drive(self._transmission.send(command))

    def stop(self) -> None:
        """Brake, and hold the joints where they come to rest."""
        self.world.halt(self.body, self._joints, self._efforts)

    def tool(self) -> Array:
        """Where the robot believes the tips' middle to be: x, y, z in metres, yaw in radians.

        It knows nothing of an error of its calibration or of play behind its motors, and counts commands that are
        under way as done.
        """
        pose = invert_pose(self.flaws.mount) @ self._loops.pose(PALM)
        yaw = math.atan2(pose[1, 0], pose[0, 0]) - self._half_turn
        sent, driven = self._transmission.command, self._transmission.output
        ends = forward(self.model.geometry, np.array([sent[:3], driven[:3]]))
        return np.array([*(pose[:3, 3] + ends[0] - ends[1]), yaw + sent[3] - driven[3]])

    # Internals

    def _lowest_table(self, model: DeltaModel) -> float:
        return lowest_table(model, self.tool_config)

    def _reach_of(self, model: DeltaModel, table: float) -> GraspReach:
        profile = self.profile
        aside, turn = (profile.shake_translation, profile.shake_rotation) if profile.shake else (0.0, 0.0)
        return GraspReach(model, self.tool_config, make_pose((0.0, 0.0, table)), profile.lift_height, aside, turn)

    def _check_speed(self, points: Array) -> None:
        """Refuse points (n, 3) that follow each other faster than the platform may move."""
        fastest = float(np.linalg.norm(np.diff(points, axis=0), axis=1).max(initial=0.0)) / self.world.time_step
        if fastest > self.model.max_speed:
            raise Unreachable(
                f"the platform would have to move at {fastest:.2f} m/s, above its limit of {self.model.max_speed:.2f}"
            )

    def _chosen_half_turn(self, yaw: Array) -> float:
        chosen = float(half_turns(self.tool_config, yaw.min(), yaw.max()))
        if math.isnan(chosen):
            raise Unreachable(
                f"the tool can't turn from {math.degrees(yaw.min()):.0f}° to {math.degrees(yaw.max()):.0f}°"
            )
        return chosen

    def _drive(self, output: Array) -> None:
        self.world.bullet.setJointMotorControlArray(
            self.body,
            self._joints,
            self.world.bullet.POSITION_CONTROL,
            targetPositions=output.tolist(),
            positionGains=[1.0] * 4,
            velocityGains=[1.0] * 4,
            forces=self._efforts,
            physicsClientId=self.world.client,
        )

    def _jump(self, mount: Array, platform: Array, turn: float, opening: float) -> None:
        """Be somewhere at once, with all joints where the kinematics put them."""
        bullet, client = self.world.bullet, self.world.client
        base = mount @ make_pose((0.0, 0.0, -self.table)) @ self._base_mass_centre
        bullet.resetBasePositionAndOrientation(
            self.body, base[:3, 3].tolist(), quaternion_from_rotation(base[:3, :3]).tolist(), physicsClientId=client
        )
        positions = self._description.joint_positions(platform, turn, opening)
        for name, position in positions.items():
            if name in self._index:
                bullet.resetJointState(self.body, self._index[name], position, 0.0, physicsClientId=client)
        self._drive(np.array([positions[name] for name in (*ARM_JOINTS, TURN_JOINT)]))
        self.fingers.jump(opening)

    def _release_passive_joints(self) -> None:
        """The engine brakes every joint that it is not told to leave alone."""
        driven = {*ARM_JOINTS, TURN_JOINT, *FINGER_JOINTS}
        for name, joint in self._index.items():
            if name not in driven:
                self.world.bullet.setJointMotorControl2(
                    self.body, joint, self.world.bullet.VELOCITY_CONTROL, force=0, physicsClientId=self.world.client
                )


@lru_cache(maxsize=1)
def _trial_model() -> DeltaModel:
    return load_model(str(TRIAL_MODEL))


@lru_cache(maxsize=4)
def _described(
    model: DeltaModel, tool: ToolConfig, spec: GripperSpec, palm_mass: float, detailed: bool
) -> TwinDescription:
    """Trials make many twins of one description."""
    return describe_twin(model, tool, spec, palm_mass=palm_mass, detailed=detailed)


def _torque(model: DeltaModel) -> float:
    """Newton metres of an arm's motor, of which no figure is published: one arm could hold twice the payload alone."""
    return 2 * model.payload * _GRAVITY * model.geometry.upper_arm
