"""A table-top workspace: two coloured blocks, a random object, and a gripper that is moved by small actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.cameras import overhead_pose
from keygrasp.geometry.poses import Array, make_pose
from keygrasp.geometry.solids import block
from keygrasp.objects import Catalog, PreparedObject
from keygrasp.objects.prepared import assemble
from keygrasp.scene.symbols import SymbolicState
from keygrasp.scene.tabletop import (
    ACTIONS,
    CAMERA_HEIGHT,
    DECISION_SECONDS,
    FINGER_SPEED,
    GRIP_FORCE,
    LOST_DISTANCE,
    MOTION_SCALE,
    OBJECTS,
    REACH_HIGH,
    REACH_LOW,
)
from keygrasp.sim.free_gripper import FreeGripper
from keygrasp.sim.rendering import metric_depth, pinhole, render
from keygrasp.sim.symbols import SymbolObserver
from keygrasp.sim.world import ObjectHandle, World

#: KG-1's steps a second (with half as many a pushed block sinks into the table), and a quarter of its iterations: pads
#: sink into a held block by half a millimetre, which is enough here.
_FREQUENCY = 240
_SOLVER_ITERATIONS = 40
_STEPS = round(DECISION_SECONDS * _FREQUENCY)
#: Newtons with which the gripper presses downwards at most; then it goes no lower, as a guarded move does.
_GUARD = 15.0
#: Metres: bounds of a block's sides, and of where objects begin.
_BLOCK_LOW, _BLOCK_HIGH = np.array([0.075, 0.030, 0.030]), np.array([0.100, 0.042, 0.044])
_BEGIN = 0.13
#: Metres that the middles of two objects have between them at least when an episode begins.
_APART = 0.10
#: Random objects of the embedded set that a gripper of KG-1 can hold, under rule A.
_RANDOM = ("004", "008", "010", "012", "013", "017", "018", "019", "022", "023")
_COLOUR = {"red": (0.80, 0.16, 0.12, 1.0), "blue": (0.12, 0.32, 0.75, 1.0), "other": (0.55, 0.55, 0.52, 1.0)}
#: Pixels of the overhead camera, and its field of view, which spans the reach.
_PIXELS = 64
_VIEW = 2 * math.atan(0.26 / CAMERA_HEIGHT)


@dataclass(frozen=True, eq=False)
class TabletopView:
    """What is observed between two decisions.

    Attributes:
        states: Symbols of each object, with the gripper's.
        force: Newtons, half the sum of the contact forces on the gripper, mean over the last decision.
        lost: Whether an object has left the table or the gripper's surroundings.
        rgb: (64, 64, 3) uint8 from overhead, or ``None``.
        depth: (64, 64) float32 metres along the optical axis, 0 where nothing is seen, or ``None``.
    """

    states: dict[str, SymbolicState]
    force: float
    lost: bool
    rgb: NDArray[np.uint8] | None = None
    depth: NDArray[np.float32] | None = None


class Tabletop:
    """The workspace; use as a context manager, or call :meth:`close`.

    An action is five numbers in [-1, 1], see :mod:`keygrasp.scene.tabletop`: the gripper moves by the first four in
    one decision of 0.15 s, whatever it holds. A negative grip opens the fingers, the faster the more negative it is; a
    positive one closes them, and is the share of 20 N with which they press.

    Args:
        images: Whether views have pictures.
    """

    def __init__(self, *, images: bool = False) -> None:
        self.images = images
        self._build()
        self._catalog = Catalog()
        self._observers: dict[str, SymbolObserver] = {}
        self._command = np.zeros(4)

    def _build(self) -> None:
        """An empty table and a parked gripper."""
        self.world = World(frequency=_FREQUENCY, solver_iterations=_SOLVER_ITERATIONS)
        self.gripper = FreeGripper(self.world)
        self.handles: dict[str, ObjectHandle] = {}

    def __enter__(self) -> Tabletop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the physics."""
        self.world.close()

    def reset(self, seed: int) -> TabletopView:
        """Begin an episode: the same seed gives the same objects in the same places."""
        random = np.random.default_rng(seed)
        self.world.close()  # what the engine remembers of earlier episodes would change this one in the last digits
        self._build()
        places = _places(random, len(OBJECTS))
        for name, place in zip(OBJECTS, places, strict=True):
            prepared = self._object(name, random)
            height = prepared.extents[0] / 2 if name != "other" else 0.5 * float(np.ptp(prepared.vertices[:, 2]))
            handle = self.world.add_object(prepared, (0, 0, 0.1))
            self.world.set_object_pose(handle, _turned(random.uniform(-math.pi, math.pi), (*place, height + 0.002)))
            self.world.bullet.changeVisualShape(
                handle.body, -1, rgbaColor=_COLOUR[name], physicsClientId=self.world.client
            )
            self.handles[name] = handle
        self.world.step(_FREQUENCY // 2)
        x, y = random.uniform(-0.15, 0.15, 2)
        self._command = np.array([x, y, random.uniform(0.10, 0.18), random.uniform(-math.pi / 2, math.pi / 2)])
        self.gripper.approach(self._command, self.gripper.gripper.max_opening, self.world.step)
        self.world.step(2)
        self._observers = {name: SymbolObserver(self.gripper, handle) for name, handle in self.handles.items()}
        return self._view(0.0)

    def step(self, action: ArrayLike) -> TabletopView:
        """Take one decision.

        Args:
            action: (5,) in [-1, 1]; clipped.

        Raises:
            InputError: If it has another shape or is not finite, or no episode has begun.
        """
        wanted = np.asarray(action, dtype=float)
        if wanted.shape != (len(ACTIONS),) or not np.all(np.isfinite(wanted)):
            raise InputError(f"action {wanted.tolist()} can't be taken", f"Give finite {', '.join(ACTIONS)}")
        if not self._observers:
            raise InputError("no episode has begun", "Call reset() first")
        wanted = np.clip(wanted, -1, 1)
        self._grip(float(wanted[4]))
        start, goal = self._command.copy(), self._command + wanted[:4] * MOTION_SCALE
        goal[:3] = np.clip(goal[:3], REACH_LOW, REACH_HIGH)
        forces = []
        for number in range(1, _STEPS + 1):
            total, pressed = self._contact_forces()
            forces.append(total / 2)
            command = start + (goal - start) * number / _STEPS
            if pressed > _GUARD and goal[2] < self._command[2]:
                start[2] = goal[2] = command[2] = self._command[2]
            self._command = command
            self.gripper.follow(command)
            self.world.step()
        return self._view(float(np.mean(forces)))

    def _grip(self, grip: float) -> None:
        if grip < 0:
            self.gripper.fingers.drive(-grip * FINGER_SPEED)
        else:
            self.gripper.fingers.drive(-FINGER_SPEED, grip * GRIP_FORCE)

    def _contact_forces(self) -> tuple[float, float]:
        """Newtons of all contacts of the gripper, and of what it presses on downwards."""
        points = self.world.bullet.getContactPoints(self.gripper.body, physicsClientId=self.world.client)
        return sum(p[9] for p in points), sum(p[9] * max(p[7][2], 0.0) for p in points)

    def _view(self, force: float) -> TabletopView:
        # The yaw's symbol is wrapped to a half turn: beyond that, the pad on its positive side is the other one.
        swapped = math.floor((float(self.gripper.tool()[3]) + math.pi / 2) / math.pi) % 2 == 1
        states = {name: _named(name, observer.observe(), swapped) for name, observer in self._observers.items()}
        positions = [self.world.object_pose(handle)[:3, 3] for handle in self.handles.values()]
        lost = any(np.hypot(p[0], p[1]) > LOST_DISTANCE or p[2] < 0 for p in positions)
        rgb, depth = self._picture() if self.images else (None, None)
        return TabletopView(states, force, lost, rgb, depth)

    def _picture(self) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        camera = pinhole(_PIXELS, _PIXELS, _VIEW)
        colour, buffer = render(self.world.bullet, self.world.client, camera, overhead_pose(CAMERA_HEIGHT))
        return np.ascontiguousarray(colour[..., :3]), np.nan_to_num(metric_depth(buffer), nan=0.0)

    def _object(self, name: str, random: np.random.Generator) -> PreparedObject:
        if name == "other":
            return self._catalog.prepare(f"{_RANDOM[random.integers(len(_RANDOM))]}", "A")
        vertices, faces = block(random.uniform(_BLOCK_LOW, _BLOCK_HIGH))
        return assemble(name, "file", vertices, faces, (vertices,), rule="none", category="elongated")


def _named(name: str, state: SymbolicState, swapped: bool) -> SymbolicState:
    """The state with the object's colour, and with left and right as the wrapped yaw means them."""
    left, right = state.contact_left, state.contact_right
    return state.replace(
        object_colour=name if name in ("red", "blue") else "unknown",
        contact_left=right if swapped else left,
        contact_right=left if swapped else right,
    )


def _places(random: np.random.Generator, count: int) -> list[Sequence[float]]:
    """Places (x, y) that keep apart."""
    places: list[Array] = []
    while len(places) < count:
        place = random.uniform(-_BEGIN, _BEGIN, 2)
        if all(np.hypot(*(place - other)) >= _APART for other in places):
            places.append(place)
    return [place.tolist() for place in places]


def _turned(yaw: float, position: ArrayLike) -> Array:
    cos, sin = math.cos(yaw), math.sin(yaw)
    return make_pose(np.asarray(position), np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]))
