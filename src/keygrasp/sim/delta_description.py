"""The Delta's twin as the engine reads it: the robot's own description, with KG-1's gripper and estimated masses.

The engine's bodies are trees, and a Delta is not. There are two trees to choose from. With all six rods the platform
hangs on one of them, and five points hold the others at it: nothing but the parallelograms keeps it level. The light
tree has one rod in the middle of each parallelogram, and a platform on three sliding joints, which keep it level as
ideal parallelograms do; three points close the loops. It takes two thirds of the time.
"""

from __future__ import annotations

import dataclasses
import math
from xml.sax.saxutils import quoteattr

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array, rotation_z
from keygrasp.geometry.solids import binary_stl
from keygrasp.robots.delta_x import DeltaModel, ToolConfig
from keygrasp.robots.delta_x.description import (
    ARM_JOINTS,
    BASE,
    FINGER_JOINTS,
    PALM,
    PLATFORM,
    TURN_JOINT,
    Closure,
    DeltaDescription,
    describe,
)
from keygrasp.robots.urdf import RobotDescription
from keygrasp.scene import GripperSpec
from keygrasp.sim.fingers import FINGER_MASS, PALM_HEIGHT, box_link, gripper_links
from keygrasp.sim.robot_files import robot_file

#: Joints along which the light tree's platform slides.
SLIDES = ("slide_x", "slide_y", "slide_z")
_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
#: Kilograms of KG-1's palm, and of the neck that carries it.
PALM_MASS = 0.5
_NECK_MASS = 0.1
_NECK_SIDE = 0.03
#: Kilograms of what carries the light tree's platform along x and y: next to nothing.
_CARRIAGE_MASS = 0.01
#: A lower limit above the upper one means none to the engine; the twin checks limits before it moves.
_FREE = (1.0, -1.0)
_LIGHT, _ORANGE, _BLACK = "0.80 0.82 0.84 1", "0.93 0.45 0.13 1", "0.08 0.08 0.09 1"
#: Metres of a neck that is worth a part of its own.
_SHORTEST_NECK = 0.002


def kg1_tool(spec: GripperSpec, length: float = 0.17) -> ToolConfig:
    """A gripper on a neck, ``length`` metres below the platform's middle, that turns by 110° to both sides.

    KG-1 turns a grasp at up to ±90° by another 11.5° when it shakes.
    """
    return ToolConfig(
        table=((spec.min_opening, 100.0), (spec.max_opening, 0.0)),
        length=length,
        turn_zero=110.0,
        turn_limits=(0.0, 220.0),
        pad_width=spec.pad_width,
        pad_thickness=spec.pad_thickness,
        pad_height=spec.pad_height,
        force=spec.force,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class TwinDescription:
    """What is loaded, and how its joints and loops go together.

    Attributes:
        urdf: Text; the joints are named as in the robot's description.
        closures: Points that the engine holds together.
        robot: The robot's description, which knows all joints' positions.
        light: Whether it is the light tree.
    """

    urdf: str
    closures: tuple[Closure, ...]
    robot: DeltaDescription
    light: bool

    def joint_positions(self, platform: Array, yaw: float, opening: float) -> dict[str, float]:
        """Positions of all moving joints by name; see :meth:`DeltaDescription.joint_positions`."""
        found = self.robot.joint_positions(platform, yaw=yaw, opening=opening)
        return {**found, **dict(zip(SLIDES, platform.tolist(), strict=True))} if self.light else found


def tool_mass(palm_mass: float) -> float:
    """Kilograms of neck, palm and fingers."""
    return _NECK_MASS + palm_mass + 2 * FINGER_MASS


def describe_twin(
    model: DeltaModel, tool: ToolConfig, spec: GripperSpec, *, palm_mass: float, detailed: bool
) -> TwinDescription:
    """Describe a twin.

    Args:
        model: The robot.
        tool: Length and turn of what it carries.
        spec: The gripper.
        palm_mass: Kilograms of the palm.
        detailed: All six rods, and the robot's look.

    Raises:
        InputError: If the tool is too short for the gripper.
    """
    if tool.length < spec.pad_height + PALM_HEIGHT - 1e-9:
        raise InputError(
            f"a tool of {tool.length * 1e3:.0f} mm is too short for a gripper of "
            f"{(spec.pad_height + PALM_HEIGHT) * 1e3:.0f} mm",
            "Give the length from the platform down to the fingertips",
        )
    robot = describe(model, tool)
    hand = f"{_neck(tool, spec)}\n{gripper_links(spec, palm_mass=palm_mass)}\n{_turn(tool)}"
    if detailed:
        return TwinDescription(
            _detailed_tree(robot).replace("</robot>", f"{hand}</robot>"), robot.closures, robot, False
        )
    closures = tuple(
        Closure(_rod(leg), (0.0, 0.0, -model.geometry.forearm), PLATFORM, _platform_joint(model, turn))
        for leg, turn in _legs()
    )
    return TwinDescription(f'<robot name="delta">{_light_tree(robot)}\n{hand}</robot>', closures, robot, True)


def _legs() -> tuple[tuple[int, float], ...]:
    return tuple((leg, (leg - 1) * 2 * math.pi / 3) for leg in (1, 2, 3))


def _rod(leg: int) -> str:
    return f"rod_{leg}a"


def _platform_joint(model: DeltaModel, turn: float) -> tuple[float, float, float]:
    x, y, z = (rotation_z(turn) @ (0.0, -model.geometry.platform_radius, 0.0)).tolist()
    return x, y, z


def _detailed_tree(description: DeltaDescription) -> str:
    """The robot's own tree with free joints, without its hand."""
    robot = description.robot
    hand = {PALM, *(name.removesuffix("_joint") for name in FINGER_JOINTS)}
    links = tuple(link for link in robot.links if link.name not in hand)
    joints = tuple(dataclasses.replace(joint, limits=_FREE) for joint in robot.joints if joint.child not in hand)
    text = RobotDescription(robot.name, links, joints).urdf("")
    for link in links:
        file = robot_file(f"{link.shape}.stl", binary_stl(link.mesh))
        text = text.replace(quoteattr(f"/{link.shape}.stl"), quoteattr(str(file)))
    return text


def _light_tree(description: DeltaDescription) -> str:
    """Boxes with the masses of the robot's own parts, two rods in one."""
    geometry = description.model.geometry
    mass = {link.name: link.mass for link in description.robot.links}
    size = geometry.upper_arm / 10
    parts = [box_link(BASE, mass[BASE], (size, size, size), (0, 0, 0), _LIGHT)]
    for leg, turn in _legs():
        arm, rod, elbow = f"arm_{leg}", _rod(leg), f"elbow_{leg}a"
        x, y, _ = (rotation_z(turn) @ (0.0, -geometry.base_radius, 0.0)).tolist()
        parts += [
            box_link(arm, mass[arm], (size, geometry.upper_arm, size), (0, -geometry.upper_arm / 2, 0), _ORANGE),
            box_link(elbow, 2 * mass[elbow], (size / 2,) * 3, (0, 0, 0), _LIGHT),
            box_link(rod, 2 * mass[rod], (size / 2, size / 4, geometry.forearm), (0, 0, -geometry.forearm / 2), _BLACK),
            _joint(ARM_JOINTS[leg - 1], "revolute", BASE, arm, (x, y, 0), turn, (1, 0, 0)),
            _joint(f"{elbow}_tilt", "revolute", arm, elbow, (0, -geometry.upper_arm, 0), 0, (1, 0, 0)),
            _joint(f"{elbow}_swing", "revolute", elbow, rod, (0, 0, 0), 0, (0, 1, 0)),
        ]
    side = 2 * geometry.platform_radius
    parts.append(box_link(PLATFORM, mass[PLATFORM], (side, side, size / 2), (0, 0, 0), _LIGHT))
    chain = (BASE, "carriage_x", "carriage_y", PLATFORM)
    for name, parent, child, axis in zip(SLIDES, chain[:-1], chain[1:], _AXES, strict=True):
        if child != PLATFORM:
            parts.append(
                f'<link name="{child}"><inertial><mass value="{_CARRIAGE_MASS}"/>'
                '<inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/></inertial></link>'
            )
        parts.append(_joint(name, "prismatic", parent, child, (0, 0, 0), 0, axis))
    return "\n".join(parts)


def _neck(tool: ToolConfig, spec: GripperSpec) -> str:
    """What carries the palm; it is round in effect, so it stays with the platform while the palm turns."""
    length = tool.length - spec.pad_height - PALM_HEIGHT
    if length < _SHORTEST_NECK:
        return ""
    shape = box_link("neck", _NECK_MASS, (_NECK_SIDE, _NECK_SIDE, length), (0, 0, -length / 2), _LIGHT)
    return shape + _joint("neck_joint", "fixed", PLATFORM, "neck")


def _turn(tool: ToolConfig) -> str:
    return _joint(TURN_JOINT, "revolute", PLATFORM, PALM, (0, 0, -tool.length), 0, (0, 0, 1))


def _joint(
    name: str,
    kind: str,
    parent: str,
    child: str,
    place: tuple[float, float, float] = (0, 0, 0),
    turn: float = 0.0,
    axis: tuple[float, float, float] = (1, 0, 0),
) -> str:
    """A joint without limits, its origin turned about z."""
    x, y, z = place
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{x:.9g} {y:.9g} {z:.9g}" rpy="0 0 {turn:.9g}"/><axis xyz="{axis[0]} {axis[1]} {axis[2]}"/>'
        f'<limit lower="{_FREE[0]:g}" upper="{_FREE[1]:g}" effort="1000" velocity="100"/></joint>'
    )
