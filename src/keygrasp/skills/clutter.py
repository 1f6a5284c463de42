"""Scenes in which an object lies too close to a wall, or to another object, for a gripper's fingers to fit between."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, get_args

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.cameras import overhead_pose
from keygrasp.geometry.poses import Array, make_pose, quaternion_from_rotation, rotation_z
from keygrasp.geometry.solids import block
from keygrasp.objects.prepared import PreparedObject, assemble
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.noise import camera_noise
from keygrasp.scene import GripperSpec, OverheadView
from keygrasp.sim import UR5, FreeGripper, ObjectHandle, World

Kind = Literal["wall", "pair", "free", "long wall"]
#: Sides of a carton in metres: the longest is more than any opening here, the middle one fits between the pads.
_LONG, _MIDDLE, _LOW = (0.090, 0.130), (0.036, 0.060), (0.028, 0.036)
#: Metres between the object and what is beside it.
_GAP = (0.002, 0.012)
#: Half sides of the wall in metres, wider than the gripper opens; it stands a little higher than the object.
_WALL = (0.11, 0.048)
#: Half length in metres of a wall that ends outside of the camera's view.
_LONG_WALL = 0.20
_WALL_RISE = (0.0, 0.015)


@dataclass(frozen=True)
class ClutterSpec:
    """What a scene depends on; equal specifications give equal scenes.

    Attributes:
        kind: What is beside the object: a fixed wall, a second object, or nothing.
        seed: Of sizes, places and camera noise.
    """

    kind: Kind
    seed: int


class ClutterScene:
    """A carton with something beside it, under KG-1's camera. Use as a context manager.

    Args:
        spec: What to build.
        robot: ``"gripper"`` or ``"ur5"``.
        friction: Contact friction of everything.

    Raises:
        InputError: If the kind or the robot is unknown.
    """

    def __init__(self, spec: ClutterSpec, robot: str = "gripper", *, friction: float = PROTOCOL.friction) -> None:
        if spec.kind not in get_args(Kind) or robot not in ("gripper", "ur5"):
            raise InputError(
                f"a scene of '{spec.kind}' for '{robot}' is unknown", f"Kinds: {', '.join(get_args(Kind))}"
            )
        self.spec = spec
        self._rng = np.random.default_rng([spec.seed, get_args(Kind).index(spec.kind)])
        self.world = World(friction=friction)
        #: Metres between the object and what is beside it.
        self.gap = float(self._rng.uniform(*_GAP))
        self.target = self._build()
        for handle in self.world.objects:
            self.world.settle(handle, 1.0)
        make = FreeGripper if robot == "gripper" else UR5
        self.robot: FreeGripper | UR5 = make(self.world, GripperSpec())

    def __enter__(self) -> ClutterScene:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.close()

    def look(self) -> OverheadView:
        """A noisy image of the scene as it is now, with the robot out of the way and everything at rest."""
        self.world.park_robots()
        for handle in self.world.objects:
            self.world.settle(handle, PROTOCOL.settle_seconds)
        pose = overhead_pose(PROTOCOL.camera_height)
        depth = self.world.render_depth(PROTOCOL.intrinsics, pose)
        return OverheadView(camera_noise(depth, self._rng), PROTOCOL.intrinsics, pose)

    def _build(self) -> ObjectHandle:
        rng = self._rng
        size = np.array([rng.uniform(*side) for side in (_LONG, _MIDDLE, _LOW)])
        # The pair of object and neighbour is in the middle, turned as it happens.
        whole = make_pose((*rng.uniform(-0.02, 0.02, 2), 0.0), rotation_z(rng.uniform(0, math.tau)))
        beside = 0.0
        if self.spec.kind in ("wall", "long wall"):
            half_length = _WALL[0] if self.spec.kind == "wall" else _LONG_WALL
            beside = _WALL[1]
            height = size[2] + rng.uniform(*_WALL_RISE)
            lying = make_pose((rng.uniform(-0.02, 0.02), beside + self.gap, height / 2), _small_turn(rng))
            self._add_wall(whole @ make_pose((0, -beside / 2, 0)) @ lying, half_length, height)
        elif self.spec.kind == "pair":
            other = np.array([rng.uniform(*side) for side in (_LONG, _MIDDLE, _LOW)])
            beside = float(other[1]) / 2
            lying = make_pose((rng.uniform(-0.02, 0.02), beside + self.gap, 0.0), _small_turn(rng))
            self._add_carton("neighbour", other, whole @ make_pose((0, -beside / 2, 0)) @ lying)
        return self._add_carton("carton", size, whole @ make_pose((0, -beside / 2 - size[1] / 2, 0)))

    def _add_carton(self, name: str, size: Array, pose: Array) -> ObjectHandle:
        handle = self.world.add_object(carton(name, size))
        up = make_pose((0, 0, size[2] / 2 + 0.0005))
        self.world.set_object_pose(handle, pose @ up)
        return handle

    def _add_wall(self, pose: Array, half_length: float, height: float) -> None:
        bullet, client = self.world.bullet, self.world.client
        half = [half_length, _WALL[1], height / 2]
        shape = bullet.createCollisionShape(bullet.GEOM_BOX, halfExtents=half, physicsClientId=client)
        look = bullet.createVisualShape(
            bullet.GEOM_BOX, halfExtents=half, rgbaColor=[0.5, 0.5, 0.55, 1], physicsClientId=client
        )
        body = bullet.createMultiBody(
            0, shape, look, pose[:3, 3].tolist(), quaternion_from_rotation(pose[:3, :3]).tolist(),
            physicsClientId=client,
        )  # fmt: skip
        bullet.changeDynamics(body, -1, lateralFriction=math.sqrt(self.world.friction), physicsClientId=client)


def carton(name: str, size: Array) -> PreparedObject:
    """A box whose sides fall from x to z, ready for physics."""
    vertices, faces = block(size)
    return assemble(name, "file", vertices, faces, (vertices,), rule="none", category="carton")


def _small_turn(rng: np.random.Generator) -> Array:
    return rotation_z(rng.uniform(-0.05, 0.05))
