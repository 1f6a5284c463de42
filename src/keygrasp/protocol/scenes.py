"""A scene of KG-1: one settled object under the camera, and robots that act on it again and again."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError, KeygraspError
from keygrasp.geometry.cameras import overhead_pose, project
from keygrasp.geometry.poses import Array, invert_pose, make_pose, rotation_from_quaternion, transform_points
from keygrasp.objects import Catalog, PreparedObject, Rule, Source
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.noise import camera_noise
from keygrasp.robots import Robot
from keygrasp.scene import GripperSpec, OverheadView, PlanarGrasp, TrialOutcome
from keygrasp.sim import UR5, DeltaTwin, FreeGripper, ObjectHandle, Snapshot, World

RobotName = Literal["gripper", "ur5", "delta"]

# Streams of randomness of one scene.
_POSE, _NOISE = 0, 1


class SceneError(KeygraspError):
    """No pose of the object can be used: it never settles inside the camera's view."""


@dataclass(frozen=True)
class SceneSpec:
    """All that a scene depends on; equal specifications give equal scenes in any process.

    Attributes:
        object_name: Name of the object in its source.
        rule: Scaling rule of KG-1.
        seed: Seed of pose and camera noise.
        source: Where the object comes from.
    """

    object_name: str
    rule: Rule
    seed: int
    source: Source = "embedded"

    def stream(self, *purpose: int | str) -> np.random.Generator:
        """Randomness of this scene for one purpose; objects with equal seeds don't share it."""
        names = [p if isinstance(p, int) else zlib.crc32(p.encode()) for p in (self.object_name, *purpose)]
        return np.random.default_rng([self.seed, *names])


@dataclass(frozen=True)
class Perturbation:
    """How an execution differs from what was planned.

    Attributes:
        x: Metres added to the grasp's x.
        y: Metres added to its y.
        z: Metres added to its z.
        yaw: Radians added to its yaw.
        friction: Contact friction of the execution.
        mass: Factor of the object's mass.
    """

    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    yaw: float = 0.0
    friction: float = PROTOCOL.friction
    mass: float = 1.0

    @staticmethod
    def sample(rng: np.random.Generator) -> Perturbation:
        """Draw one as KG-1 asks for in robustness trials."""
        x, y, z, yaw = rng.normal(size=4) * [
            PROTOCOL.position_error,
            PROTOCOL.position_error,
            PROTOCOL.height_error,
            PROTOCOL.yaw_error,
        ]
        return Perturbation(float(x), float(y), float(z), float(yaw), float(rng.uniform(*PROTOCOL.friction_range)))

    def apply(self, grasp: PlanarGrasp) -> PlanarGrasp:
        """The grasp that is executed instead; its z is not pushed below the table."""
        return grasp.replace(
            x=grasp.x + self.x, y=grasp.y + self.y, z=max(0.0, grasp.z + self.z), yaw=grasp.yaw + self.yaw
        )


class Scene:
    """A settled object, its image, and a robot; made by :func:`build_scene`. Use as a context manager.

    Attributes:
        spec: What it was made from.
        prepared: The object.
        world: The physics world.
        handle: The object in it.
        robot: Who executes.
        view: The latest noisy image.
        true_depth: (H, W) float32 metres, the latest image without noise.
        lost_reason: After :meth:`again` returned ``None``: why no further attempt is possible.
    """

    def __init__(self, spec: SceneSpec, world: World, handle: ObjectHandle, robot: Robot) -> None:
        self.spec = spec
        self.prepared: PreparedObject = handle.prepared
        self.world = world
        self.handle = handle
        self.robot = robot
        self.lost_reason = ""
        self._first: Snapshot = self._save()
        self._start: Snapshot = self._first
        self.true_depth: NDArray[np.float32] = self._render()
        self.view = self._noisy_view(spec.stream(_NOISE))
        self._first_images = (self.true_depth, self.view)

    def __enter__(self) -> Scene:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the physics world."""
        self.world.close()

    @property
    def object_pose(self) -> Array:
        """Pose (4, 4) of the object's body frame in the workspace frame, as it is now."""
        return self.world.object_pose(self.handle)

    def execute(
        self, grasp: PlanarGrasp, perturbation: Perturbation | None = None, friction: float | None = None
    ) -> TrialOutcome:
        """Execute a grasp on the object as the latest image shows it.

        The state is restored first, so executions don't depend on each other; where the object ends is left as it is
        for :meth:`again`.

        Args:
            grasp: What was planned.
            perturbation: How the execution differs from it (robustness trials).
            friction: Contact friction; that of ``perturbation``, else KG-1's, where ``None``.
        """
        if perturbation is not None:
            grasp = perturbation.apply(grasp)
            friction = perturbation.friction if friction is None else friction
        self.restore()
        self.world.set_friction(PROTOCOL.friction if friction is None else friction)
        self.world.set_mass(self.handle, perturbation.mass if perturbation is not None else 1.0)
        return self.robot.execute(grasp)

    def restore(self) -> None:
        """Put the object back to where the latest image shows it, and the robot out of the way."""
        self.world.restore(self._start)

    def again(self, rng: np.random.Generator) -> OverheadView | None:
        """A new image after a failed attempt, with the object where it lies now.

        Later executions start from here, until :meth:`reset`.

        Returns:
            The image, or ``None`` with :attr:`lost_reason` set where the object can't be tried again.
        """
        self.world.park_robots()
        self.world.set_friction(PROTOCOL.friction)
        settled = self.world.settle(self.handle, PROTOCOL.settle_seconds)
        centre = self.object_pose[:3, 3]
        if not self.world.is_on_table(self.handle) or not in_view(centre[None]):
            self.lost_reason = "the object has left the workspace that the camera sees"
            return None
        if not settled:
            self.lost_reason = f"the object still moves after {PROTOCOL.settle_seconds:g} s"
            return None
        if self._start is not self._first:
            self.world.drop(self._start)
        self._start = self._save()
        self.true_depth = self._render()
        self.view = self._noisy_view(rng)
        return self.view

    def reset(self) -> None:
        """Return to the first image and state, as if nothing had been tried."""
        if self._start is not self._first:
            self.world.drop(self._start)
            self._start = self._first
        self.world.restore(self._first)
        self.world.set_friction(PROTOCOL.friction)
        self.true_depth, self.view = self._first_images
        self.lost_reason = ""

    def _save(self) -> Snapshot:
        """Save the state, and start from it restored.

        A state that came about by itself has its contacts in another order, on which the solver's sums depend: the
        first execution would differ from later ones in its last bits.
        """
        snapshot = self.world.save()
        self.world.restore(snapshot)
        return snapshot

    def _render(self) -> NDArray[np.float32]:
        return self.world.render_depth(PROTOCOL.intrinsics, overhead_pose(PROTOCOL.camera_height))

    def _noisy_view(self, rng: np.random.Generator) -> OverheadView:
        return OverheadView(
            camera_noise(self.true_depth, rng), PROTOCOL.intrinsics, overhead_pose(PROTOCOL.camera_height)
        )


def build_scene(spec: SceneSpec, robot: str = "gripper", *, gripper: GripperSpec | None = None) -> Scene:
    """Drop an object, let it settle, take its image, and bring a robot.

    The object's pose and the image depend on ``spec`` alone, not on the robot or the process.

    Args:
        spec: Which object, scaled how, and the seed.
        robot: ``"gripper"`` (a free gripper), ``"ur5"`` or ``"delta"``.
        gripper: The gripper; KG-1's by default.

    Returns:
        The scene; close it after use.

    Raises:
        SceneError: If no pose of :attr:`KG1.settle_attempts` settles inside the camera's view.
        InputError: If robot, object, rule or source are unknown.
        MeshError: If the object can't be used.
    """
    if robot not in get_args(RobotName):
        raise InputError(f"unknown robot '{robot}'", f"Choose one of {', '.join(get_args(RobotName))}")
    prepared = _prepare(spec)
    world = World(friction=PROTOCOL.friction)
    try:
        handle = world.add_object(prepared)
        _drop(world, handle, spec.stream(_POSE))
        hand = gripper or GripperSpec()
        # The robot comes last, so that it changes nothing about how the object settles.
        return Scene(spec, world, handle, _robot(robot, world, hand))
    except BaseException:
        world.close()
        raise


def _robot(name: str, world: World, gripper: GripperSpec) -> Robot:
    if name == "gripper":
        return FreeGripper(world, gripper)
    if name == "delta":
        return DeltaTwin(world, gripper)
    return UR5(world, gripper)


def in_view(points: Array) -> bool:
    """Whether workspace points (n, 3) all lie inside the camera's image."""
    camera = transform_points(invert_pose(overhead_pose(PROTOCOL.camera_height)), points)
    if np.any(camera[:, 2] <= 0):
        return False
    pixels = project(camera, PROTOCOL.intrinsics)
    return bool(np.all((pixels >= 0) & (pixels <= PROTOCOL.image_size - 1)))


def _prepare(spec: SceneSpec) -> PreparedObject:
    return Catalog().prepare(spec.object_name, spec.rule, source=spec.source)


def _drop(world: World, handle: ObjectHandle, rng: np.random.Generator) -> None:
    """Draw poses until one settles where the camera sees all of the object."""
    for _ in range(PROTOCOL.settle_attempts):
        world.set_object_pose(handle, _random_pose(handle.points, rng))
        if world.settle(handle, PROTOCOL.settle_seconds) and in_view(
            transform_points(world.object_pose(handle), handle.points)
        ):
            return
    raise SceneError(
        f"object '{handle.prepared.name}' did not settle inside the camera's view in {PROTOCOL.settle_attempts} poses",
        "It may be round or too large; use another object or scaling rule",
    )


def _random_pose(points: Array, rng: np.random.Generator) -> Array:
    """A pose (4, 4) with uniform orientation, whose lowest point hangs KG-1's gap over the table."""
    quaternion = rng.normal(size=4)
    while math.hypot(*quaternion) < 1e-3:
        quaternion = rng.normal(size=4)
    rotation = rotation_from_quaternion(quaternion)
    x, y = rng.uniform(-PROTOCOL.drop_range, PROTOCOL.drop_range, size=2)
    lowest = float((points @ rotation[2]).min())
    return make_pose((x, y, PROTOCOL.drop_gap - lowest), rotation)
