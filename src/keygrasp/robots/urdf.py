"""A robot's links and joints as data: its URDF text, its mesh files, and where each link is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import quoteattr

import numpy as np

from keygrasp.errors import InputError
from keygrasp.files import atomic_path
from keygrasp.geometry.meshes import mass_properties
from keygrasp.geometry.poses import Array, make_pose
from keygrasp.geometry.solids import Mesh, binary_stl

JointKind = Literal["fixed", "revolute", "prismatic"]


@dataclass(frozen=True, eq=False)
class Link:
    """A rigid part.

    Attributes:
        name: Its frame's name.
        shape: Name of its mesh; links may share one.
        mesh: Its surface in its own frame; contact is with the box around it.
        density: Kilograms a cubic metre.
        colour: Red, green and blue in [0, 1].
    """

    name: str
    shape: str
    mesh: Mesh
    density: float
    colour: tuple[float, float, float]

    @property
    def mass(self) -> float:
        """Kilograms."""
        return self.density * mass_properties(*self.mesh).volume


@dataclass(frozen=True, eq=False)
class Joint:
    """What joins a link to its parent.

    Attributes:
        name: Its name.
        kind: Whether and how it moves.
        parent: The link nearer to the base.
        child: The link that it moves; the child's frame is the joint's.
        origin: Pose (4, 4) of the child in the parent at position 0.
        axis: Unit vector (3,) in the child's frame, about or along which it moves.
        limits: Lowest and highest position in radians or metres.
        effort: Newton metres or newtons at most.
        speed: Radians or metres a second at most.
    """

    name: str
    kind: JointKind
    parent: str
    child: str
    origin: Array = field(default_factory=lambda: np.eye(4))
    axis: tuple[float, float, float] = (1.0, 0.0, 0.0)
    limits: tuple[float, float] = (-math.pi, math.pi)
    effort: float = 10.0
    speed: float = 20.0

    def pose(self, position: float) -> Array:
        """Pose (4, 4) of the child in the parent."""
        if self.kind == "fixed":
            return self.origin
        axis = np.array(self.axis)
        if self.kind == "prismatic":
            return np.asarray(self.origin @ make_pose(position * axis))
        x, y, z = axis
        cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        turn = np.eye(3) + math.sin(position) * cross + (1 - math.cos(position)) * cross @ cross
        return np.asarray(self.origin @ make_pose((0, 0, 0), turn))


@dataclass(frozen=True, eq=False)
class RobotDescription:
    """A tree of links.

    Attributes:
        name: The robot's.
        links: All links, the root first.
        joints: One for each link but the root, parents before their children.
    """

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]

    @property
    def root(self) -> str:
        """The link from which all others hang."""
        return self.links[0].name

    @property
    def moving(self) -> tuple[Joint, ...]:
        """The joints that move."""
        return tuple(joint for joint in self.joints if joint.kind != "fixed")

    @property
    def shapes(self) -> dict[str, Mesh]:
        """The meshes by name."""
        return {link.shape: link.mesh for link in self.links}

    def urdf(self, meshes: str | Mapping[str, str]) -> str:
        """The description as URDF.

        Args:
            meshes: What stands before the mesh files' names: a folder, or a URL such as ``file:///…`` or ``package://…``;
                or the whole path or URL of each, by name.
        """
        files = (
            {name: f"{meshes.rstrip('/')}/{name}.stl" for name in self.shapes} if isinstance(meshes, str) else meshes
        )
        parts = [*(_link(link, files[link.shape]) for link in self.links), *map(_joint, self.joints)]
        return f'<?xml version="1.0"?>\n<robot name={quoteattr(self.name)}>\n' + "\n".join(parts) + "\n</robot>\n"

    def write_meshes(self, folder: Path) -> None:
        """Write the mesh files that :meth:`urdf` names, as binary STL in metres.

        Raises:
            StorageError: If that fails.
        """
        for shape, mesh in self.shapes.items():
            with atomic_path(folder / f"{shape}.stl") as temporary:
                temporary.write_bytes(binary_stl(mesh))

    def poses(self, positions: Mapping[str, float]) -> dict[str, Array]:
        """Pose (4, 4) of every link in the root's frame.

        Args:
            positions: Of every joint that moves, by name.

        Raises:
            InputError: If one is missing.
        """
        found = {self.root: np.eye(4)}
        for joint in self.joints:
            if joint.kind != "fixed" and joint.name not in positions:
                raise InputError(f"no position is given for the joint {joint.name}")
            found[joint.child] = found[joint.parent] @ joint.pose(positions.get(joint.name, 0.0))
        return found


def _link(link: Link, file: str) -> str:
    properties = mass_properties(*link.mesh)
    inertia = link.density * properties.inertia
    low, high = link.mesh[0].min(axis=0), link.mesh[0].max(axis=0)
    entries = " ".join(
        f'i{"xyz"[i]}{"xyz"[j]}="{inertia[i, j]:.6g}"' for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    )
    colour = " ".join(f"{value:.3g}" for value in link.colour)
    return (
        f'<link name="{link.name}">'
        f'<inertial><origin xyz="{_triple(properties.center)}"/><mass value="{link.mass:.6g}"/>'
        f"<inertia {entries}/></inertial>"
        f"<visual><geometry><mesh filename={quoteattr(file)}/></geometry>"
        f'<material name="{link.shape}_colour"><color rgba="{colour} 1"/></material></visual>'
        f'<collision><origin xyz="{_triple((low + high) / 2)}"/>'
        f'<geometry><box size="{_triple(high - low)}"/></geometry></collision></link>'
    )


def _joint(joint: Joint) -> str:
    rotation = joint.origin[:3, :3]
    roll = math.atan2(rotation[2, 1], rotation[2, 2])
    pitch = math.atan2(-rotation[2, 0], math.hypot(rotation[0, 0], rotation[1, 0]))
    yaw = math.atan2(rotation[1, 0], rotation[0, 0])
    text = (
        f'<joint name="{joint.name}" type="{joint.kind}">'
        f'<parent link="{joint.parent}"/><child link="{joint.child}"/>'
        f'<origin xyz="{_triple(joint.origin[:3, 3])}" rpy="{_triple(np.array([roll, pitch, yaw]))}"/>'
    )
    if joint.kind != "fixed":
        text += (
            f'<axis xyz="{_triple(np.array(joint.axis))}"/>'
            f'<limit lower="{joint.limits[0]:.9g}" upper="{joint.limits[1]:.9g}" effort="{joint.effort:.6g}" '
            f'velocity="{joint.speed:.6g}"/>'
        )
    return text + "</joint>"


def _triple(values: Array) -> str:
    return " ".join(f"{value:.9g}" for value in values + 0.0)  # no -0
