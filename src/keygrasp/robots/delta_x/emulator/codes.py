"""What each G- and M-code does to the emulated robot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x.emulator.arduino import print_float, words
from keygrasp.robots.delta_x.emulator.machine import SHORTEST_MOVE, Machine, Motion
from keygrasp.robots.delta_x.model import Dialect

#: Millimetres by which the end of an arc may lie off its circle.
_ARC_TOLERANCE = 0.5


@dataclass(frozen=True, eq=False)
class Effect:
    """What executing a command has set going.

    Attributes:
        known: Whether the firmware takes it as executed.
        seconds: How long until it is complete.
        motion: The platform's motion, if any.
        text: Printed at once.
    """

    known: bool = True
    seconds: float = 0.0
    motion: Motion | None = None
    text: str = ""


_UNKNOWN = Effect(known=False)
_DONE = Effect()
_Words = dict[str, float]


def execute(machine: Machine, line: str) -> Effect:
    """Execute a queued line."""
    code, *rest = words(line)
    handler = _HANDLERS.get((code[0], int(code[1])))
    return handler(machine, dict(rest)) if handler else _UNKNOWN


def _move(machine: Machine, given: _Words) -> Effect:
    if "F" in given:
        machine.set_speed(given["F"])
    seconds = 0.0
    turned = given.get("W", machine.turn) != machine.turn
    if turned:
        seconds = machine.turn_to(given["W"])
    start, goal = machine.target, machine.point(given)
    if not machine.allowed(goal):
        # The tool's axis has been taken for the whole command by then.
        return Effect(known=turned, seconds=seconds)
    if np.linalg.norm(goal - start) < SHORTEST_MOVE:
        return Effect(seconds=seconds)
    motion = machine.start_move(start, goal)
    return Effect(seconds=max(seconds, motion.duration), motion=motion)


def _arc(machine: Machine, given: _Words, *, clockwise: bool) -> Effect:
    if "I" not in given or "J" not in given:
        return _UNKNOWN
    if "F" in given:
        machine.set_speed(given["F"])
    start, goal = machine.target, machine.point({k: v for k, v in given.items() if k != "Z"})
    centre = start[:2] + np.array([given["I"], given["J"]])
    radius = math.hypot(given["I"], given["J"])
    off = abs(float(np.linalg.norm(goal[:2] - centre)) - radius)
    if not machine.allowed(goal) or off > _ARC_TOLERANCE:
        return _UNKNOWN
    travel = _bearing(goal[:2] - centre) - _bearing(start[:2] - centre)
    travel = (-travel if clockwise else travel) % (2 * math.pi)
    motion = machine.start_move(start, goal, radius * (travel or 2 * math.pi))
    return Effect(seconds=motion.duration, motion=motion)


def _bearing(offset: Array) -> float:
    return math.atan2(float(offset[1]), float(offset[0]))


def _dwell(machine: Machine, given: _Words) -> Effect:
    return Effect(seconds=max(0.0, given["P"]) / 1e3) if "P" in given else _UNKNOWN


def _joints(machine: Machine, given: _Words) -> Effect:
    """Joint angles: X1 wants the length of the way too, and goes on answering the old position."""
    if "P" not in given:
        return _UNKNOWN
    if "F" in given:
        machine.set_speed(given["F"])
    return Effect(seconds=abs(given["P"]) / machine.speed)


def _home(machine: Machine, given: _Words) -> Effect:
    motion = machine.start_homing()
    return Effect(seconds=motion.duration, motion=motion)


def _mode(machine: Machine, *, absolute: bool) -> Effect:
    machine.absolute = absolute
    return _DONE


def _print_position(machine: Machine, given: _Words) -> Effect:
    if machine.model.dialect is not Dialect.X1:
        return _UNKNOWN
    return Effect(known=False, text=bare_position(machine))


def bare_position(machine: Machine) -> str:
    """X1's form of a position: where the latest move ends."""
    return ",".join(print_float(value) for value in machine.target)


def _switch_on(machine: Machine, given: _Words) -> Effect:
    if machine.model.dialect is Dialect.XS:
        if "P" in given and "W" in given:
            machine.outputs[f"P{given['P']:.0f}"] = min(255.0, max(0.0, given["W"])) / 255
        elif "D" in given:
            machine.outputs[f"D{given['D']:.0f}"] = 1.0
        else:
            return _UNKNOWN
    elif machine.effector == 1:
        share = given.get("S", 255.0)
        return Effect(seconds=machine.drive_gripper(1.0 if share > 100 else max(0.0, share) / 100))
    else:
        machine.outputs["tool"] = 1.0
    return _DONE


def _switch_off(machine: Machine, given: _Words) -> Effect:
    if machine.model.dialect is Dialect.XS:
        if not given.keys() & {"P", "D"}:
            return _UNKNOWN
        for letter in given.keys() & {"P", "D"}:
            machine.outputs[f"{letter}{given[letter]:.0f}"] = 0.0
    elif machine.effector == 1:
        return Effect(seconds=machine.drive_gripper(0.0))
    else:
        machine.outputs.clear()
    return _DONE


def _motors_off(machine: Machine, given: _Words) -> Effect:
    machine.motors = False
    return _DONE


def _top_speed(machine: Machine, given: _Words) -> Effect:
    if "S" not in given:
        return _UNKNOWN
    if machine.model.dialect is not Dialect.XS:  # there it is the jerk
        machine.top_speed = max(1.0, given["S"])
        machine.set_speed(machine.speed)
    return _DONE


def _acceleration(machine: Machine, given: _Words) -> Effect:
    if "A" not in given:
        return _UNKNOWN
    machine.set_acceleration(given["A"])
    return _DONE


def _end_speed(machine: Machine, given: _Words) -> Effect:
    return _DONE if "S" in given else _UNKNOWN


def _offset(machine: Machine, given: _Words) -> Effect:
    """Only 0, or what lies below home, is taken."""
    offset = given.get("Z", math.inf)
    if offset != 0 and offset >= machine.home[2]:
        return _UNKNOWN
    machine.z_offset = offset
    return _DONE


def _select(machine: Machine, given: _Words) -> Effect:
    effector = given.get("E", math.inf)
    if machine.model.dialect is Dialect.XS or not 0 <= effector <= 5:
        return _UNKNOWN
    machine.effector = int(effector)
    machine.outputs.clear()
    return Effect(seconds=machine.drive_gripper(0.0))


_HANDLERS: dict[tuple[str, int], Callable[[Machine, _Words], Effect]] = {
    ("G", 0): _move,
    ("G", 1): _move,
    ("G", 2): lambda machine, given: _arc(machine, given, clockwise=True),
    ("G", 3): lambda machine, given: _arc(machine, given, clockwise=False),
    ("G", 4): _dwell,
    ("G", 6): _joints,
    ("G", 28): _home,
    ("G", 90): lambda machine, _: _mode(machine, absolute=True),
    ("G", 91): lambda machine, _: _mode(machine, absolute=False),
    ("G", 93): _print_position,
    ("M", 3): _switch_on,
    ("M", 5): _switch_off,
    ("M", 84): _motors_off,
    ("M", 203): _top_speed,
    ("M", 204): _acceleration,
    ("M", 205): _end_speed,
    ("M", 206): _offset,
    ("M", 360): _select,
}
