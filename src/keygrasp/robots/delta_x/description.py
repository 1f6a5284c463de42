"""What a Delta looks like, for viewers and for physics: links, joints and meshes from its four lengths and its tool.

A URDF is a tree, and a Delta is not. Here the platform hangs on one rod of leg 1; the five other rods end at it without
being joined to it. :attr:`DeltaDescription.closures` says which points coincide, for an engine that closes the loops,
and :meth:`DeltaDescription.joint_positions` gives all joints, the passive ones too, so that they do coincide.

A rod is free at both ends, as in the real parallelograms; that is what keeps the platform level. Lengths and limits are
the model's. All else (thicknesses, masses) is an estimate for looks and plausible dynamics: nothing of it is published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array, make_pose, rotation_z
from keygrasp.geometry.solids import Mesh, ball, block, hull, joined, moved, rod
from keygrasp.robots.delta_x.calibration import ROBOT_FRAME
from keygrasp.robots.delta_x.config import ToolConfig
from keygrasp.robots.delta_x.kinematics import inverse
from keygrasp.robots.delta_x.model import DeltaGeometry, DeltaModel
from keygrasp.robots.urdf import Joint, Link, RobotDescription

BASE, PLATFORM, PALM = ROBOT_FRAME, "platform", "palm"
#: The three driven joints, in the order of the kinematics' angles.
ARM_JOINTS = ("arm_1_joint", "arm_2_joint", "arm_3_joint")
#: Turns the tool about the vertical: the yaw of its closing axis in the robot's frame.
TURN_JOINT = "tool_turn"
#: Distance of each pad's inner face from the middle.
FINGER_JOINTS = ("left_finger_joint", "right_finger_joint")
_TURNS = (0.0, 2 * math.pi / 3, -2 * math.pi / 3)
#: The two rods of a leg, to the left and right of its plane.
_RODS = (("a", -1.0), ("b", 1.0))

#: Upper arm in metres for which the sizes below are meant; others scale with theirs.
_X1_ARM = 0.13
_PLASTIC, _CARBON, _ALUMINIUM = 1200.0, 1600.0, 2700.0
_GRAPHITE, _ORANGE, _BLACK, _LIGHT = (0.22, 0.24, 0.27), (0.93, 0.45, 0.13), (0.08, 0.08, 0.09), (0.80, 0.82, 0.84)


@dataclass(frozen=True)
class Closure:
    """Two points that coincide in the real robot, each in its link's frame in metres: a rod's end, at the platform."""

    rod: str
    rod_point: tuple[float, float, float]
    platform: str
    platform_point: tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class DeltaDescription:
    """A Delta as links and joints.

    The root's frame is the kinematics'; the link ``platform`` is at the point that they give, and ``palm`` is between
    the fingertips (or at the cup's mouth) with x along the closing axis and z upwards.

    Attributes:
        model: The robot.
        tool: What it carries.
        robot: The tree; gives URDF text, mesh files and the links' poses.
        closures: What an engine must hold together.
    """

    model: DeltaModel
    tool: ToolConfig
    robot: RobotDescription
    closures: tuple[Closure, ...]

    def joint_positions(self, platform: Array, *, yaw: float = 0.0, opening: float = 0.0) -> dict[str, float]:
        """Positions of all joints that move, by name, in radians and metres.

        Args:
            platform: (3,) where the platform is, in the robot's frame.
            yaw: Of the tool's closing axis in the robot's frame.
            opening: Metres between the finger pads.

        Raises:
            InputError: If a leg can't reach there.
        """
        geometry = self.model.geometry
        angles = inverse(geometry, platform)
        if not np.isfinite(angles).all():
            raise InputError(f"the platform can't be at {np.asarray(platform).tolist()} m: out of the legs' reach")
        positions = dict(zip(ARM_JOINTS, angles.tolist(), strict=True))
        for leg, turn, angle in zip((1, 2, 3), _TURNS, angles.tolist(), strict=True):
            local = rotation_z(turn).T @ platform
            tilt, swing = _rod_angles(geometry, local, angle)
            for side, _ in _RODS:
                positions |= {f"elbow_{leg}{side}_tilt": tilt - angle, f"elbow_{leg}{side}_swing": swing}
            if leg == 1:
                positions |= {"wrist_swing": -swing, "wrist_tilt": -tilt}
        positions[TURN_JOINT] = yaw
        if self.tool.kind == "gripper":
            positions |= dict.fromkeys(FINGER_JOINTS, opening / 2)
        return positions


def describe(model: DeltaModel, tool: ToolConfig) -> DeltaDescription:
    """Describe a Delta with a tool.

    Raises:
        InputError: If the tool is shorter than its own fingers.
    """
    sizes = _Sizes(model.geometry)
    links = [Link(BASE, "base", _base(sizes), _ALUMINIUM, _GRAPHITE)]
    joints: list[Joint] = []
    closures: list[Closure] = []
    for leg, turn in zip((1, 2, 3), _TURNS, strict=True):
        _add_leg(model, sizes, leg, turn, links, joints)
        for side, sign in _RODS:
            end = rotation_z(turn) @ (sign * sizes.half, -model.geometry.platform_radius, 0.0)
            closures.append(Closure(f"rod_{leg}{side}", (0.0, 0.0, -model.geometry.forearm), PLATFORM, _tuple(end)))
    _add_platform(sizes, links, joints)
    _add_tool(tool, sizes, links, joints)
    robot = RobotDescription(f"delta_{model.name.lower()}", tuple(links), tuple(joints))
    return DeltaDescription(model, tool, robot, tuple(closures[1:]))  # the platform hangs on the first rod


class _Sizes:
    """Sizes that no one publishes, after the geometry."""

    def __init__(self, geometry: DeltaGeometry) -> None:
        self.geometry = geometry
        self.scale = geometry.upper_arm / _X1_ARM
        #: Half the distance of a leg's two rods: a third of the platform's side, whose inscribed circle is known.
        self.half = geometry.platform_radius / math.sqrt(3)
        self.ball = 0.006 * self.scale
        self.plate = 0.008 * self.scale


def _rod_angles(geometry: DeltaGeometry, local: Array, angle: float) -> tuple[float, float]:
    """How a leg's rods hang: turned about the leg's x axis from straight down, then about their own y axis."""
    out = geometry.base_radius - geometry.platform_radius + geometry.upper_arm * math.cos(angle)
    x, y, z = local[0], local[1] + out, local[2] + geometry.upper_arm * math.sin(angle)
    return math.atan2(y, -z), math.asin(-x / geometry.forearm)


def _add_leg(model: DeltaModel, sizes: _Sizes, leg: int, turn: float, links: list[Link], joints: list[Joint]) -> None:
    """The driven arm, and two rods that each hang on a ball."""
    geometry = model.geometry
    arm = f"arm_{leg}"
    shoulder = rotation_z(turn) @ (0.0, -geometry.base_radius, 0.0)
    links.append(Link(arm, "arm", _arm(sizes), _PLASTIC, _ORANGE))
    joints.append(
        Joint(
            ARM_JOINTS[leg - 1], "revolute", BASE, arm, make_pose(shoulder, rotation_z(turn)),
            limits=(model.home_angle, model.max_angle),
        )
    )  # fmt: skip
    for side, sign in _RODS:
        elbow, name = f"elbow_{leg}{side}", f"rod_{leg}{side}"
        links += [
            Link(elbow, "ball", ball((0, 0, 0), sizes.ball), _ALUMINIUM, _LIGHT),
            Link(name, "rod", _rod(sizes), _CARBON, _BLACK),
        ]
        joints += [
            Joint(f"{elbow}_tilt", "revolute", arm, elbow, make_pose((sign * sizes.half, -geometry.upper_arm, 0.0))),
            Joint(f"{elbow}_swing", "revolute", elbow, name, axis=(0, 1, 0), limits=(-math.pi / 2, math.pi / 2)),
        ]


def _add_platform(sizes: _Sizes, links: list[Link], joints: list[Joint]) -> None:
    """The platform, hanging on leg 1's first rod; a ball's two turns make it level again."""
    radius, half = sizes.geometry.platform_radius, sizes.half
    links += [
        Link("wrist", "wrist", ball((0, 0, 0), 0.8 * sizes.ball), _ALUMINIUM, _LIGHT),  # inside the rod's ball
        Link("hinge", "hinge", rod((0, 0, 0), (half / 2, 0, 0), sizes.ball / 2), _ALUMINIUM, _LIGHT),
        Link(PLATFORM, "platform", _platform(sizes), _PLASTIC, _LIGHT),
    ]
    end = make_pose((0.0, 0.0, -sizes.geometry.forearm))
    joints += [
        Joint("wrist_swing", "revolute", "rod_1a", "wrist", end, (0, 1, 0), (-math.pi / 2, math.pi / 2)),
        Joint("wrist_tilt", "revolute", "wrist", "hinge"),
        Joint("platform_joint", "fixed", "hinge", PLATFORM, make_pose((half, radius, 0.0))),
    ]


def _add_tool(tool: ToolConfig, sizes: _Sizes, links: list[Link], joints: list[Joint]) -> None:
    low, high = (math.radians(tool.turn_sign * (limit - tool.turn_zero)) for limit in tool.turn_limits)
    limits = (min(low, high), max(low, high))
    tip = make_pose((0.0, 0.0, -tool.length))
    joints.append(Joint(TURN_JOINT, "revolute", PLATFORM, PALM, tip, (0, 0, 1), limits))
    if tool.kind == "vacuum":
        links.append(Link(PALM, "cup", _cup(tool, sizes), _PLASTIC, _GRAPHITE))
        return
    links.append(Link(PALM, "palm", _palm(tool, sizes), _PLASTIC, _GRAPHITE))
    for name, turn in (("left", 0.0), ("right", math.pi)):
        links.append(Link(f"{name}_finger", "finger", _finger(tool), _PLASTIC, _BLACK))
        joints.append(
            Joint(
                f"{name}_finger_joint", "prismatic", PALM, f"{name}_finger", make_pose((0, 0, 0), rotation_z(turn)),
                limits=(0.0, tool.table[-1][0] / 2), effort=tool.force, speed=1.0,
            )
        )  # fmt: skip


# Shapes


def _base(sizes: _Sizes) -> Mesh:
    """A plate above the shoulders, a motor beside each, and a flange to hang it by."""
    s, radius = sizes.scale, sizes.geometry.base_radius
    plate = (0.026 * s, 0.026 * s + sizes.plate)
    motors, corners = [], []
    for turn in _TURNS:
        pose = make_pose((0, 0, 0), rotation_z(turn))
        motor = block((0.040 * s, 0.040 * s, 0.040 * s), (0.040 * s, -radius, 0.0))
        bracket = block((0.006 * s, 0.044 * s, 0.048 * s), (0.019 * s, -radius, 0.004 * s))
        axle = rod((-0.014 * s, -radius, 0), (0.022 * s, -radius, 0), 0.004 * s)
        motors.append(moved(joined(motor, bracket, axle), pose))
        edge = -radius - 0.02 * s
        posts = (rod((x, edge, plate[0]), (x, edge, plate[1]), 0.004 * s) for x in (-0.03 * s, 0.062 * s))
        corners += [moved(post, pose) for post in posts]
    flange = rod((0, 0, plate[1]), (0, 0, plate[1] + 0.03 * s), 0.035 * s)
    return joined(hull(*corners), flange, *motors)


def _arm(sizes: _Sizes) -> Mesh:
    """From the shoulder's hub outwards along -y to a bar that carries the rods."""
    s, length = sizes.scale, sizes.geometry.upper_arm
    hub = rod((-0.010 * s, 0, 0), (0.010 * s, 0, 0), 0.014 * s)
    neck = rod((-0.006 * s, -length, 0), (0.006 * s, -length, 0), 0.007 * s)
    bar = rod((-sizes.half, -length, 0), (sizes.half, -length, 0), 0.004 * s)
    return joined(hub, hull(rod((-0.007 * s, 0, 0), (0.007 * s, 0, 0), 0.012 * s), neck), bar)


def _rod(sizes: _Sizes) -> Mesh:
    """Down along -z, with a ball at its end."""
    end = (0.0, 0.0, -sizes.geometry.forearm)
    return joined(rod((0, 0, 0), end, 0.0035 * sizes.scale), ball(end, sizes.ball))


def _platform(sizes: _Sizes) -> Mesh:
    """A six-sided plate, with a bar at each leg from one rod's end to the other's."""
    radius, half = sizes.geometry.platform_radius, sizes.half
    corners, bars = [], []
    for turn in _TURNS:
        pose = make_pose((0, 0, 0), rotation_z(turn))
        for x in (-0.55 * half, 0.55 * half):
            start = (x, -0.85 * radius, -sizes.plate / 2)
            corners.append(moved(rod(start, (*start[:2], sizes.plate / 2), 0.004 * sizes.scale), pose))
        bars.append(moved(rod((-half, -radius, 0), (half, -radius, 0), 0.0035 * sizes.scale), pose))
    return joined(hull(*corners), *bars)


def _palm(tool: ToolConfig, sizes: _Sizes) -> Mesh:
    """A block on a round neck, from the fingers up to the platform's lower side."""
    spec, top = tool.gripper, _space(tool, sizes)
    middle = (spec.pad_height + top) / 2
    body = block((spec.palm_along, spec.palm_across, middle - spec.pad_height), (0, 0, (middle + spec.pad_height) / 2))
    return joined(body, rod((0, 0, middle), (0, 0, top), 0.010 * sizes.scale))


def _finger(tool: ToolConfig) -> Mesh:
    """A pad from its inner face at x = 0 outwards, from the tip at z = 0 up; narrower at its tip's outside."""
    x, y, z = tool.pad_thickness, tool.pad_width, tool.pad_height
    tip = block((0.6 * x, y, 0.2 * z), (0.3 * x, 0, 0.1 * z))
    return hull(tip, block((x, y, 0.6 * z), (x / 2, 0, 0.7 * z)))


def _cup(tool: ToolConfig, sizes: _Sizes) -> Mesh:
    s, top = sizes.scale, _space(tool, sizes)
    lip = min(0.012 * s, top / 2)
    return joined(rod((0, 0, 0), (0, 0, lip), 0.010 * s, 0.004 * s), rod((0, 0, lip), (0, 0, top), 0.004 * s))


def _space(tool: ToolConfig, sizes: _Sizes) -> float:
    """Metres from the tips to the platform's lower side, which the tool fills."""
    top = tool.length - sizes.plate / 2
    fingers = tool.pad_height if tool.kind == "gripper" else 0.0
    if top <= fingers:
        raise InputError(
            f"a tool of {tool.length * 1e3:.0f} mm is too short for fingers of {fingers * 1e3:.0f} mm under a platform",
            "Measure tool.length from the middle of the platform down to the fingertips, and pad_height",
        )
    return top


def _tuple(point: Array) -> tuple[float, float, float]:
    x, y, z = point.tolist()
    return x, y, z
