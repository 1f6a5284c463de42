"""A small symbolic grasp MDP: approach, align, lower, close, lift and hold, with slips; 28 states, 8 actions.

Its states are symbols as a simulator would tell them, so any potential over symbols can be certified and compared on
it. The reward is 1 for a stable lift and 0 otherwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.scene.symbols import STABLE_STEPS, SymbolicState
from keygrasp.shaping.mdp import FiniteMDP, Transition

#: Metres from the object and radians off its shorter side, by grid step.
_DISTANCES = (0.0, 0.03, 0.10, 0.18)
_TURNS = tuple(math.radians(angle) for angle in (0, 30, 60))
#: Metres by which the object has risen, and steps for which it was held, by level of the lift.
_LIFTS = ((0.0, 0), (0.03, 0), (0.08, STABLE_STEPS // 3), (0.08, 2 * STABLE_STEPS // 3))
#: Grid steps within which the fingers can go down around the object.
_AROUND = 2
_GAMMA = Fraction(19, 20)


class Phase(IntEnum):
    """Where a grasp stands."""

    ABOVE = 0
    AROUND = 1
    LOOSE = 2
    FIRM = 3
    SUCCESS = 4
    FAILURE = 5


class Action(IntEnum):
    """What the gripper does."""

    CLOSER = 0
    AWAY = 1
    TURN = 2
    TURN_BACK = 3
    LOWER = 4
    CLOSE = 5
    LIFT = 6
    OPEN = 7


@dataclass(frozen=True)
class Cell:
    """One state.

    Attributes:
        phase: Where the grasp stands.
        distance: Grid step from the object while the fingers are open.
        turn: Grid step off alignment while the fingers are open.
        lift: Level of the lift while the object is held.
    """

    phase: Phase
    distance: int = 0
    turn: int = 0
    lift: int = 0


#: Probability in twentieths, and where it leads.
_Moves = list[tuple[int, Cell]]


@dataclass(frozen=True, eq=False)
class GraspMDP:
    """The MDP with the symbols of its states.

    Attributes:
        mdp: The MDP.
        rows: (S, D) symbols.
        starts: States in which episodes begin, each with the same probability.
    """

    mdp: FiniteMDP
    rows: Array
    starts: tuple[int, ...]


def grasp_mdp() -> GraspMDP:
    """Build it."""
    cells = list(_cells())
    index = {cell: number for number, cell in enumerate(cells)}
    transitions = tuple(
        tuple(_transitions(_moves(cell, action), index) for action in Action)
        if cell.phase not in (Phase.SUCCESS, Phase.FAILURE)
        else ()
        for cell in cells
    )
    far = tuple(index[Cell(Phase.ABOVE, len(_DISTANCES) - 1, turn)] for turn in range(len(_TURNS)))
    mdp = FiniteMDP(
        transitions,
        _GAMMA,
        start=far[-1],
        state_names=tuple(_name(cell) for cell in cells),
        action_names=tuple(action.name.lower().replace("_", " ") for action in Action),
    )
    return GraspMDP(mdp, np.stack([_symbols(cell).to_row() for cell in cells]), far)


def _cells() -> Iterator[Cell]:
    for distance, turn in itertools.product(range(len(_DISTANCES)), range(len(_TURNS))):
        yield Cell(Phase.ABOVE, distance, turn)
    for distance, turn in itertools.product(range(_AROUND), range(len(_TURNS))):
        yield Cell(Phase.AROUND, distance, turn)
    for phase, lift in itertools.product((Phase.LOOSE, Phase.FIRM), range(len(_LIFTS))):
        yield Cell(phase, lift=lift)
    yield Cell(Phase.SUCCESS)
    yield Cell(Phase.FAILURE)


def _moves(cell: Cell, action: Action) -> _Moves:
    """What an action does; what makes no sense in a state changes nothing."""
    if cell.phase in (Phase.ABOVE, Phase.AROUND):
        return _open_moves(cell, action)
    if action is Action.OPEN:
        return [(20, Cell(Phase.AROUND, 0, 0))] if cell.lift == 0 else [(20, Cell(Phase.FAILURE))]
    if action is Action.LIFT:
        return _lift_moves(cell)
    return [(20, cell)]


def _open_moves(cell: Cell, action: Action) -> _Moves:
    phase, distance, turn = cell.phase, cell.distance, cell.turn
    reach = len(_DISTANCES) if phase is Phase.ABOVE else _AROUND
    if action in (Action.CLOSER, Action.AWAY):
        to = distance + (1 if action is Action.AWAY else -1)
        return [(18, Cell(phase, min(max(to, 0), reach - 1), turn)), (2, cell)]
    if action in (Action.TURN, Action.TURN_BACK):
        to = turn + (1 if action is Action.TURN_BACK else -1)
        return [(18, Cell(phase, distance, min(max(to, 0), len(_TURNS) - 1))), (2, cell)]
    if phase is Phase.ABOVE:
        if action is not Action.LOWER:
            return [(20, cell)]
        # Beside the object there is nothing to go down around: the gripper comes up again.
        return [(20, Cell(Phase.AROUND, distance, turn) if distance < _AROUND else cell)]
    if action is Action.LIFT:
        return [(20, Cell(Phase.ABOVE, distance, turn))]
    if action is Action.CLOSE:
        firm = max(0, 18 - 9 * turn - 6 * distance)
        loose = min(20 - firm, 12 - 4 * turn)
        rest = 20 - firm - loose
        moves = [(firm, Cell(Phase.FIRM)), (loose, Cell(Phase.LOOSE)), (rest, Cell(Phase.FAILURE))]
        return [(weight, to) for weight, to in moves if weight]
    return [(20, cell)]


def _lift_moves(cell: Cell) -> _Moves:
    higher = Cell(cell.phase, lift=cell.lift + 1) if cell.lift + 1 < len(_LIFTS) else Cell(Phase.SUCCESS)
    if cell.phase is Phase.FIRM:
        return [(19, higher), (1, Cell(Phase.LOOSE, lift=cell.lift))]
    return [(12, higher), (8, Cell(Phase.FAILURE))]


def _transitions(moves: _Moves, index: dict[Cell, int]) -> tuple[Transition, ...]:
    merged: dict[Cell, int] = {}
    for weight, cell in moves:
        merged[cell] = merged.get(cell, 0) + weight
    return tuple(
        Transition(
            Fraction(weight, 20),
            index[cell],
            Fraction(int(cell.phase is Phase.SUCCESS)),
            cell.phase in (Phase.SUCCESS, Phase.FAILURE),
        )
        for cell, weight in merged.items()
    )


def _symbols(cell: Cell) -> SymbolicState:
    """Symbols of a state: a 10 × 4 × 6 cm object at the origin, its longer side along y."""
    held = cell.phase in (Phase.LOOSE, Phase.FIRM, Phase.SUCCESS)
    height, steps = _LIFTS[cell.lift] if cell.phase is not Phase.SUCCESS else (0.08, STABLE_STEPS)
    tips = 0.10 if cell.phase in (Phase.ABOVE, Phase.FAILURE) else 0.01 + height
    return SymbolicState(
        object_x=0.0, object_y=0.0, object_z=0.03 + height, object_yaw=math.pi / 2, object_length=0.10,
        object_width=0.04, object_height=0.06, object_shape="compact", object_colour="orange",
        gripper_x=_DISTANCES[cell.distance], gripper_y=0.0, gripper_z=tips, gripper_yaw=_TURNS[cell.turn],
        gripper_width=0.04 if held else 0.085, contact_left=held,
        contact_right=held and (cell.phase is not Phase.LOOSE or cell.lift > 0),
        height=height, held_steps=steps,
    )  # fmt: skip


def _name(cell: Cell) -> str:
    if cell.phase in (Phase.SUCCESS, Phase.FAILURE):
        return cell.phase.name.lower()
    if cell.phase in (Phase.ABOVE, Phase.AROUND):
        return (
            f"{cell.phase.name.lower()} the object at {_DISTANCES[cell.distance] * 100:.0f} cm, "
            f"{math.degrees(_TURNS[cell.turn]):.0f}° off"
        )
    return f"{cell.phase.name.lower()} grasp at lift level {cell.lift}"
