"""Scripted experts that see the true state: the ceiling that plans are measured against, and teachers of collections.

Each is made for one kind of task and acts on the row as it is, so that it mends what goes wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.scene.symbols import SymbolicState
from keygrasp.scene.tabletop import MOTION_SCALE, REACH_HIGH, REACH_LOW

#: The symbols of each object, by name.
States = dict[str, SymbolicState]
#: Metres: height of the tips above an object on the way to it, around it, and when it is carried.
_OVER, _AROUND, _CARRIED = 0.02, 0.008, 0.06
#: Metres that a circle is avoided by: the reward for staying out begins there.
_MARGIN = 0.021
#: What counts as above the object: metres, radians.
_NEAR, _TURNED = 0.012, math.radians(8)


def towards(state: SymbolicState, x: float, y: float, z: float, yaw: float | None, grip: float) -> Array:
    """The action that goes as far as it can to a pose of the gripper, the shorter way round; ``None`` keeps the yaw."""
    turn = 0.0 if yaw is None else (yaw - state.gripper_yaw + math.pi / 2) % math.pi - math.pi / 2
    way = np.array([x - state.gripper_x, y - state.gripper_y, z - state.gripper_z, turn])
    steps = way / np.array(MOTION_SCALE)
    steps[:2] /= max(1.0, float(np.abs(steps[:2]).max()))  # straight ahead
    return np.append(np.clip(steps, -1, 1), grip)


def across(state: SymbolicState) -> float:
    """Yaw in radians at which the fingers close over the object's shorter side."""
    return state.object_yaw + math.pi / 2


@dataclass
class Reach:
    """Brings the open gripper around an object.

    Attributes:
        object: The object that is meant.
        end: Share of half the object's length from its middle towards the nearer end at which to be.
        avoid: Circle (x, y, radius) that the gripper goes around.
    """

    object: str
    end: float = 0.0
    avoid: tuple[float, float, float] | None = None

    def place(self, state: SymbolicState) -> tuple[float, float]:
        """Where to be around the object: its middle, or a place towards the nearer end."""
        along = np.array([math.cos(state.object_yaw), math.sin(state.object_yaw)])
        middle = np.array([state.object_x, state.object_y])
        here = np.array([state.gripper_x, state.gripper_y])
        side = 1.0 if (here - middle) @ along >= 0 else -1.0
        shares = np.array([side * self.end])
        if self.avoid is not None:  # the place nearest to the middle that is outside, or the one that is farthest out
            shares = np.linspace(-0.8, 0.8, 33)[np.argsort(np.abs(np.linspace(-0.8, 0.8, 33)), kind="stable")]
        places = middle + shares[:, None] * state.object_length / 2 * along
        if self.avoid is not None:
            out = np.hypot(*(places - self.avoid[:2]).T) - self.avoid[2] - _MARGIN
            places = places[[int(np.argmax(out > 0)) if np.any(out > 0) else int(np.argmax(out))]]
        return float(places[0, 0]), float(places[0, 1])

    def __call__(self, states: States) -> Array:
        """The action."""
        state = states[self.object]
        x, y = self.place(state)
        bottom = state.object_z - state.object_height / 2
        there = math.hypot(x - state.gripper_x, y - state.gripper_y) < _NEAR
        off = abs((across(state) - state.gripper_yaw + math.pi / 2) % math.pi - math.pi / 2)
        down = there and (off < _TURNED or state.gripper_z < bottom + state.object_height)
        z = max(bottom + _AROUND, REACH_LOW[2]) if down else max(bottom + state.object_height + _OVER, 0.05)
        if self.avoid is not None:
            x, y = _around((state.gripper_x, state.gripper_y), (x, y), self.avoid)
        low = state.gripper_z < bottom + state.object_height + 0.005
        if not down and low:  # rise first
            return towards(state, state.gripper_x, state.gripper_y, z, None, -1.0)
        return towards(state, x, y, z, across(state), -1.0)


@dataclass
class Pick:
    """Grasps an object, lifts it and holds it.

    Attributes:
        reach: How to get around it.
        height: Metres to lift it.
        force: Share of the gripper's force to close with.
    """

    reach: Reach
    height: float = 0.09
    force: float = 0.5

    def __call__(self, states: States) -> Array:
        """The action."""
        state = states[self.reach.object]
        if state.grasped:
            rise = np.clip(self.height - state.height, -0.03, 0.03)
            return towards(state, state.gripper_x, state.gripper_y, state.gripper_z + rise, None, self.force)
        x, y = self.reach.place(state)
        around = math.hypot(x - state.gripper_x, y - state.gripper_y) < 1.5 * _NEAR
        bottom = state.object_z - state.object_height / 2
        if around and state.gripper_z < bottom + _AROUND + 0.006:
            return towards(state, x, y, state.gripper_z, across(state), self.force)
        return self.reach(states)


@dataclass
class Place:
    """Carries an object to a place, and lets it go there where asked to.

    Attributes:
        pick: How to get it.
        x: Metres, where to.
        y: Metres; ``None`` keeps the object's.
        release: Whether to put it down.
        done: Whether it lies where it should.
    """

    pick: Pick
    x: float
    y: float | None
    release: bool = False
    done: bool = field(default=False, init=False)

    def __call__(self, states: States) -> Array:
        """The action."""
        state = states[self.pick.reach.object]
        y = state.object_y if self.y is None else self.y
        off = np.array([self.x - state.object_x, y - state.object_y])
        self.done = bool(np.hypot(*off) < 0.03 and state.height < 0.01 and not state.grasped)
        if self.done:
            return towards(state, state.gripper_x, state.gripper_y, REACH_HIGH[2], None, -1.0)
        if not state.grasped:
            return self.pick(states)
        far = float(np.hypot(*off)) > 0.015
        lift = (_CARRIED if far else 0.002) - state.height
        x, y = (state.gripper_x, state.gripper_y) + (off if state.height > 0.03 or not far else 0 * off)
        grip = self.pick.force
        if not far and state.height < 0.006 and self.release:
            return towards(state, state.gripper_x, state.gripper_y, state.gripper_z, None, -1.0)
        lift = 0.0 if not far and not self.release else lift
        return towards(state, x, y, state.gripper_z + float(np.clip(lift, -0.03, 0.03)), None, grip)


@dataclass
class Sort:
    """Puts one object after the other where it belongs.

    Attributes:
        parts: One for each object.
        sorted: Tells whether an object is where it belongs.
    """

    parts: tuple[Place, ...]
    sorted: Callable[[SymbolicState], bool] | None = None

    def __call__(self, states: States) -> Array:
        """The action."""
        for part in self.parts:
            state = states[part.pick.reach.object]
            sign = 1.0 if part.x >= 0 else -1.0
            if state.grasped or sign * state.object_x < abs(part.x) - 0.015:
                return part(states)
        state = next(iter(states.values()))
        return towards(state, state.gripper_x, state.gripper_y, REACH_HIGH[2], None, -1.0)


def _around(
    here: tuple[float, float], goal: tuple[float, float], circle: tuple[float, float, float]
) -> tuple[float, float]:
    """Next point of a way to the goal that stays out of a circle; its border where the goal is inside."""
    centre, radius = np.array(circle[:2]), circle[2] + _MARGIN
    start, end = np.array(here), np.array(goal)
    out = end - centre
    if np.hypot(*out) < radius:
        end = centre + out / max(float(np.hypot(*out)), 1e-6) * radius
    way = end - start
    share = float(np.clip((centre - start) @ way / max(float(way @ way), 1e-9), 0, 1))
    nearest = start + share * way - centre
    if np.hypot(*nearest) >= radius - 1e-3:
        return float(end[0]), float(end[1])
    # Along the tangent, on the side on which the way already is.
    away = start - centre
    turn = 1.0 if away[0] * way[1] - away[1] * way[0] >= 0 else -1.0
    angle = math.atan2(away[1], away[0]) + turn * 0.5
    point = centre + max(radius + 0.008, 0.0) * np.array([math.cos(angle), math.sin(angle)])
    return float(point[0]), float(point[1])
