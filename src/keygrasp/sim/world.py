"""A physics world: table, objects, snapshots and camera, in one PyBullet client of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError, MeshError
from keygrasp.extras import require
from keygrasp.geometry.cameras import Intrinsics
from keygrasp.geometry.poses import Array, make_pose, quaternion_from_rotation, rotation_from_quaternion
from keygrasp.sim.clients import give_client, take_client
from keygrasp.sim.rendering import look_at, metric_depth, pinhole, render
from keygrasp.sim.shapes import collision_shape, visual_shape

if TYPE_CHECKING:
    from keygrasp.objects import PreparedObject

#: Half edges in metres of the table, whose surface is z = 0; what leaves it has fallen off.
TABLE_HALF = (0.6, 0.6)
_TABLE_THICKNESS = 0.03
_GRAVITY = 9.81
#: Height above the table in metres at which an object touches nothing.
_AWAY = 5.0


@dataclass(frozen=True, eq=False)
class ObjectHandle:
    """One object in a world.

    Attributes:
        body: The physics engine's id of its body.
        prepared: What it was made from.
        points: (V, 3) metres, vertices of its hulls in the body's frame.
    """

    body: int
    prepared: PreparedObject
    points: Array


@dataclass(frozen=True)
class Snapshot:
    """A saved state, valid while its world lives and has the same bodies.

    Attributes:
        state: The physics engine's id of the state.
        bodies: Number of bodies when it was saved.
        time: Simulated seconds when it was saved.
    """

    state: int
    bodies: int
    time: float


class World:
    """Table, objects and robots under KG-1's physics: 240 Hz, 150 solver iterations, contact friction μ.

    The engine multiplies the friction of two touching bodies, so every body carries √μ. Worlds are independent of each
    other: each has a client of its own. Use as a context manager, or call :meth:`close`.

    Args:
        friction: Contact friction μ between any two bodies.
        frequency: Steps a second.
        solver_iterations: Iterations of the contact solver in a step.
    """

    def __init__(self, *, friction: float = 0.5, frequency: int = 240, solver_iterations: int = 150) -> None:
        self.bullet: Any = require("pybullet", "grasp")
        self.time_step = 1.0 / frequency
        self.time = 0.0
        self.friction = _checked_friction(friction)
        self._objects: dict[int, ObjectHandle] = {}
        self._object_friction: dict[int, float] = {}
        self._robots: dict[int, Callable[[], None]] = {}
        self.client = take_client(self.bullet)
        self.bullet.setPhysicsEngineParameter(
            fixedTimeStep=self.time_step,
            numSolverIterations=solver_iterations,
            deterministicOverlappingPairs=1,
            enableFileCaching=0,
            physicsClientId=self.client,
        )
        self.bullet.setGravity(0, 0, -_GRAVITY, physicsClientId=self.client)
        self._table = self._add_table()
        self.set_friction(friction)

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the client; a second call does nothing."""
        if self.client >= 0:
            client, self.client = self.client, -1
            give_client(self.bullet, client)

    @property
    def objects(self) -> tuple[ObjectHandle, ...]:
        """Objects in the order in which they were added."""
        return tuple(self._objects.values())

    def step(self, count: int = 1) -> None:
        """Advance by ``count`` time steps."""
        for _ in range(count):
            self.bullet.stepSimulation(self.client)
        self.time += count * self.time_step

    # Objects

    def add_object(
        self,
        prepared: PreparedObject,
        position: ArrayLike = (0.0, 0.0, 0.1),
        rotation: ArrayLike | None = None,
        *,
        friction: float | None = None,
    ) -> ObjectHandle:
        """Put an object into the world.

        Args:
            prepared: Its shape, mass and inertia.
            position: (3,) metres, centre of mass in the workspace frame.
            rotation: Rotation matrix (3, 3) or quaternion (x, y, z, w) of its principal axes; ``None`` for none.
            friction: Contact friction μ of this object with table and pads; ``None`` for the world's.

        Returns:
            A handle for the other calls.

        Raises:
            InputError: If a value is not finite, or the position lies off the table.
            MeshError: If the shape is larger than the engine takes.
        """
        place = np.asarray(position, dtype=float)
        if place.shape != (3,) or not np.all(np.isfinite(place)) or np.any(np.abs(place[:2]) > TABLE_HALF):
            raise InputError(
                f"an object can't be put at {place.tolist()}", f"Stay within ±{TABLE_HALF[0]} m in x and y"
            )
        coefficient = self.friction if friction is None else _checked_friction(friction)
        body = self.bullet.createMultiBody(
            baseMass=float(prepared.mass),
            baseCollisionShapeIndex=collision_shape(self.bullet, self.client, prepared),
            baseVisualShapeIndex=visual_shape(self.bullet, self.client, prepared, len(self._objects)),
            basePosition=place.tolist(),
            baseOrientation=_quaternion(rotation).tolist(),
            physicsClientId=self.client,
        )
        if body < 0:
            raise MeshError(f"the physics engine refuses the object '{prepared.name}'", "Check its mesh and hulls")
        handle = ObjectHandle(body, prepared, np.concatenate([np.asarray(hull) for hull in prepared.hulls]))
        self._objects[body] = handle
        self._object_friction[body] = coefficient
        self._apply_friction()
        self.set_mass(handle)
        return handle

    def set_mass(self, handle: ObjectHandle, factor: float = 1.0) -> None:
        """Give an object ``factor`` times the mass and inertia that it was prepared with."""
        self._check(handle)
        if not (math.isfinite(factor) and factor > 0):
            raise InputError(f"a mass can't be multiplied by {factor}", "Give a positive factor")
        self.bullet.changeDynamics(
            handle.body,
            -1,
            mass=factor * float(handle.prepared.mass),
            localInertiaDiagonal=(factor * np.asarray(handle.prepared.inertia)).tolist(),
            physicsClientId=self.client,
        )

    def remove_object(self, handle: ObjectHandle) -> None:
        """Take an object out of the world; snapshots made before become invalid."""
        self._check(handle)
        self.bullet.removeBody(handle.body, physicsClientId=self.client)
        del self._objects[handle.body], self._object_friction[handle.body]

    def object_pose(self, handle: ObjectHandle) -> Array:
        """Pose (4, 4) of an object's centre of mass and principal axes in the workspace frame."""
        self._check(handle)
        position, quaternion = self.bullet.getBasePositionAndOrientation(handle.body, physicsClientId=self.client)
        return make_pose(position, rotation_from_quaternion(quaternion))

    def set_object_pose(self, handle: ObjectHandle, pose: Array) -> None:
        """Put an object at rest at a pose (4, 4)."""
        self._check(handle)
        self.bullet.resetBasePositionAndOrientation(
            handle.body,
            pose[:3, 3].tolist(),
            quaternion_from_rotation(pose[:3, :3]).tolist(),
            physicsClientId=self.client,
        )
        self.bullet.resetBaseVelocity(handle.body, [0, 0, 0], [0, 0, 0], physicsClientId=self.client)

    def height_of(self, handle: ObjectHandle) -> float:
        """Height in metres of an object's centre of mass above the table."""
        return float(self.bullet.getBasePositionAndOrientation(handle.body, physicsClientId=self.client)[0][2])

    def top_of(self, handle: ObjectHandle) -> float:
        """Height in metres of an object's highest vertex (the engine's own boxes are inflated on compounds)."""
        pose = self.object_pose(handle)
        return float((handle.points @ pose[2, :3]).max() + pose[2, 3])

    def is_on_table(self, handle: ObjectHandle) -> bool:
        """Whether an object's centre of mass lies above the table's surface."""
        x, y, z = self.object_pose(handle)[:3, 3]
        return bool(abs(x) <= TABLE_HALF[0] and abs(y) <= TABLE_HALF[1] and z > 0)

    def settle(self, handle: ObjectHandle, timeout: float = 3.0) -> bool:
        """Let an object come to rest.

        Args:
            handle: The object.
            timeout: Simulated seconds after which to give up.

        Returns:
            Whether it came to rest on the table: for a tenth of a second slower than 5 mm/s and 0.1 rad/s.
        """
        self._check(handle)
        needed = round(0.1 / self.time_step)
        calm = 0
        for _ in range(math.ceil(timeout / self.time_step)):
            self.step()
            linear, angular = self.bullet.getBaseVelocity(handle.body, physicsClientId=self.client)
            slow = sum(v * v for v in linear) < 0.005**2 and sum(v * v for v in angular) < 0.1**2
            calm = calm + 1 if slow else 0
            if calm >= needed:
                return self.is_on_table(handle)
        return False

    def set_friction(self, friction: float) -> None:
        """Make μ the contact friction of every pair of bodies, robots included."""
        self.friction = _checked_friction(friction)
        self._object_friction = dict.fromkeys(self._objects, self.friction)
        self._apply_friction()

    # Robots

    def add_robot(self, urdf: Path, park: Callable[[], None], position: ArrayLike = (0.0, 0.0, 0.0)) -> int:
        """Load a robot with a fixed base.

        Args:
            urdf: Its description.
            park: Called to move it out of the camera's view and stop it, also after each :meth:`restore`.
            position: (3,) metres, its base in the workspace frame.

        Returns:
            The engine's id of its body.
        """
        body: int = self.bullet.loadURDF(
            str(urdf), np.asarray(position, dtype=float).tolist(), useFixedBase=True, physicsClientId=self.client
        )
        for link in range(-1, self.bullet.getNumJoints(body, physicsClientId=self.client)):
            self.bullet.changeDynamics(
                body, link, linearDamping=0, angularDamping=0, jointDamping=0, physicsClientId=self.client
            )
        self._robots[body] = park
        self._apply_friction()
        return body

    def halt(self, body: int, joints: list[int], forces: list[float]) -> None:
        """Brake a robot's joints with the given forces at most, and hold them where they come to rest."""
        self.bullet.setJointMotorControlArray(
            body,
            joints,
            self.bullet.VELOCITY_CONTROL,
            targetVelocities=[0.0] * len(joints),
            forces=forces,
            physicsClientId=self.client,
        )

    def park_robots(self) -> None:
        """Take every robot out of the camera's view, opened and at rest."""
        for park in self._robots.values():
            park()

    # Snapshots

    def save(self) -> Snapshot:
        """Save the state in memory, with parked robots."""
        self.park_robots()
        state = self.bullet.saveState(physicsClientId=self.client)
        return Snapshot(state, self.bullet.getNumBodies(physicsClientId=self.client), self.time)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a saved state; the same calls after it then have the same effects.

        Raises:
            InputError: If bodies were added or removed since, or the snapshot belongs to another world.
        """
        if snapshot.bodies != self.bullet.getNumBodies(physicsClientId=self.client):
            raise InputError("bodies were added or removed since the snapshot", "Save a new one after adding objects")
        # Contacts are saved with the state, and Bullet remembers for each touching pair where its last search for the
        # closest points ended: robots and objects must part from everything first, or that would outlive the jump.
        self.park_robots()
        for number, body in enumerate(self._objects):
            self.bullet.resetBasePositionAndOrientation(
                body, (0.0, 0.0, _AWAY * (number + 1)), (0.0, 0.0, 0.0, 1.0), physicsClientId=self.client
            )
        self.bullet.performCollisionDetection(physicsClientId=self.client)
        try:
            self.bullet.restoreState(stateId=snapshot.state, physicsClientId=self.client)
        except self.bullet.error as error:
            raise InputError("the snapshot can't be restored", "It belongs to another world or was dropped") from error
        self.park_robots()
        self.time = snapshot.time

    def drop(self, snapshot: Snapshot) -> None:
        """Free a snapshot's memory."""
        self.bullet.removeState(snapshot.state, physicsClientId=self.client)

    # Cameras

    def render_depth(self, intrinsics: Intrinsics, camera_in_workspace: Array) -> NDArray[np.float32]:
        """Noise-free depth image.

        Args:
            intrinsics: Pinhole model.
            camera_in_workspace: (4, 4) pose of the optical frame.

        Returns:
            (H, W) metres along the optical axis, NaN where nothing is seen.
        """
        return metric_depth(render(self.bullet, self.client, intrinsics, camera_in_workspace)[1])

    def render_rgb(
        self,
        width: int = 640,
        height: int = 480,
        camera_in_workspace: Array | None = None,
        *,
        field_of_view: float = math.radians(45),
    ) -> NDArray[np.uint8]:
        """Picture (H, W, 3) from a pose (4, 4) of an optical frame; without one, from above the table's front edge."""
        if camera_in_workspace is None:
            camera_in_workspace = look_at((0.75, -0.65, 0.65), (-0.1, 0.0, 0.15))
        self._show_ground(False)
        try:
            image, _ = render(self.bullet, self.client, pinhole(width, height, field_of_view), camera_in_workspace)
        finally:
            self._show_ground(True)
        return np.ascontiguousarray(image[..., :3])

    def _show_ground(self, shown: bool) -> None:
        """Show or hide the endless plane, which shares its height with the table top and would flicker through it."""
        self.bullet.changeVisualShape(self._table, -1, rgbaColor=[1, 1, 1, float(shown)], physicsClientId=self.client)

    # Internals

    def _check(self, handle: ObjectHandle) -> None:
        if self._objects.get(handle.body) is not handle:
            raise InputError(
                f"'{handle.prepared.name}' is not in this world", "It was removed or belongs to another one"
            )

    def _add_table(self) -> int:
        """An infinite plane to stand on, with a table top to see."""
        plane = self.bullet.createCollisionShape(self.bullet.GEOM_PLANE, physicsClientId=self.client)
        body: int = self.bullet.createMultiBody(0, plane, physicsClientId=self.client)
        top = self.bullet.createVisualShape(
            self.bullet.GEOM_BOX,
            halfExtents=[*TABLE_HALF, _TABLE_THICKNESS / 2],
            rgbaColor=[0.85, 0.83, 0.80, 1],
            physicsClientId=self.client,
        )
        self.bullet.createMultiBody(0, -1, top, basePosition=[0, 0, -_TABLE_THICKNESS / 2], physicsClientId=self.client)
        return body

    def _apply_friction(self) -> None:
        root = math.sqrt(self.friction)
        self.bullet.changeDynamics(self._table, -1, lateralFriction=root, physicsClientId=self.client)
        for body in self._robots:
            for link in range(-1, self.bullet.getNumJoints(body, physicsClientId=self.client)):
                self.bullet.changeDynamics(body, link, lateralFriction=root, physicsClientId=self.client)
        for body, friction in self._object_friction.items():
            self.bullet.changeDynamics(body, -1, lateralFriction=friction / root, physicsClientId=self.client)


def _checked_friction(friction: float) -> float:
    if not (math.isfinite(friction) and 0 < friction <= 10):
        raise InputError(f"friction {friction} can't be used", "Give a coefficient above 0, such as 0.5")
    return float(friction)


def _quaternion(rotation: ArrayLike | None) -> Array:
    """Unit quaternion of a rotation matrix, a quaternion or nothing."""
    if rotation is None:
        return np.array([0.0, 0.0, 0.0, 1.0])
    value = np.asarray(rotation, dtype=float)
    matrix = value if value.shape == (3, 3) else rotation_from_quaternion(value)
    return quaternion_from_rotation(matrix)
