"""Skills of a gripper that pushes: stroke, swing, push, align and clear, developed by the millirobot's learner.

A push is a straight stroke of the closed fingertips against a side of a part. Quasi-static theory says what it does:
under an ellipsoidal limit surface with the ratio k of the friction's moment to its force (Lynch, Maekawa and Tanie,
IROS 1992), pushing by d at an offset c from the middle of a side moves the part by d·k²/(k² + c²) and turns it by
d·c/(k² + c²). Those two numbers are the inputs of every skill's model; what really happens, its outcomes: travel along
the push in units of 50 mm, and turn in radians. The models begin as the theory and learn what it leaves out: where a
side really is behind the camera's blur, how much the tips slip, what this gripper's tool does.

| skill | slot of the core | learns |
|---|---|---|
| stroke | linear | to move a part straight on, by a push near the middle of a side |
| swing | angular | to turn it, by a push near the end of a side |
| push | move linear | to move it by a given distance |
| align | move angular | to turn it by a given angle |
| clear | square | to bring it to where the fingers fit beside it, with pushes and turns |
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from keygrasp.errors import InputError
from keygrasp.files import write_json
from keygrasp.geometry.poses import Array, wrap_half_turn
from keygrasp.scene import GripperSpec
from keygrasp.scene.pushes import PlanarPush
from keygrasp.skills.core import Event
from keygrasp.skills.faculty import Choice, Faculty
from keygrasp.skills.parts import Part

SLOTS = {"stroke": "linear", "swing": "angular", "push": "move linear", "align": "move angular", "clear": "square"}
#: Format of a file of skills, and the most bytes that are read of one.
_FORMAT, _MOST_BYTES = "keygrasp manipulator skills 1", 65536
#: Whose model a skill begins with.
_PARENT = {"push": "stroke", "align": "swing"}
_THEORY = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
#: Travel is told in this many metres, as on the millirobot, so that all numbers are near 1.
UNIT = 0.05
#: Ratio of friction's moment to its force, as a share of the rectangle's diagonal, for an even pressure below it.
_MOMENT = 0.267
#: Metres between the tips and a side before the stroke, and height of the tips above the table.
STANDOFF, _TIP_HEIGHT = 0.012, 0.006
#: Metres of the tips along the side that they push.
_TIP = 0.020
#: Largest offset of a push, as a share of half a side; and longest stroke beyond the contact in metres.
_MOST_OFFSET, MOST_STROKE = 0.8, 0.10
#: Offset of turning pushes, as a share of half a side.
TURNING = 0.75
#: Offset from which a push counts as a turning one, as a share of half a side.
_TURNS = 0.3


@dataclass(frozen=True, eq=False)
class Shove:
    """A push against a part, in the part's own terms.

    Attributes:
        part: What is pushed.
        side: 0 to 3: pushed along the long axis, against it, along the short axis, against it.
        offset: Metres from the side's middle, to the right of who looks along the push.
        stroke: Metres that the tips move on after they touch.
        across: Whether the closing axis is at a right angle to the push.
    """

    part: Part
    side: int
    offset: float
    stroke: float
    across: bool = False

    @property
    def ahead(self) -> Array:
        """Unit vector along the push."""
        return self.part.axes[self.side // 2] * (1 - 2 * (self.side % 2))

    @property
    def depth(self) -> float:
        """Metres of the part along the push."""
        return (self.part.length, self.part.width)[self.side // 2]

    @property
    def breadth(self) -> float:
        """Metres of the side that is pushed."""
        return (self.part.width, self.part.length)[self.side // 2]

    @property
    def moment(self) -> float:
        """K in metres."""
        return _MOMENT * math.hypot(self.part.length, self.part.width)

    @property
    def lever(self) -> float:
        """Metres from the middle to where it really touches: the inner edge of the tips, once the side turns away."""
        return math.copysign(max(0.0, abs(self.offset) - _TIP / 2), self.offset)

    @property
    def inputs(self) -> tuple[float, float]:
        """What theory expects: travel in units, turn in radians."""
        square = self.moment**2 + self.lever**2
        return self.stroke * self.moment**2 / square / UNIT, self.stroke * self.lever / square

    def motion(self, gripper: GripperSpec) -> PlanarPush:
        """The stroke of the tips."""
        ahead = self.ahead
        right = np.array([ahead[1], -ahead[0]])
        tips = (gripper.pad_width if self.across else 2 * gripper.pad_thickness + gripper.min_opening) / 2
        begin = np.array([self.part.x, self.part.y]) + self.offset * right
        begin = begin - (self.depth / 2 + tips + STANDOFF) * ahead
        direction = math.atan2(ahead[1], ahead[0])
        yaw = wrap_half_turn(direction + (math.pi / 2 if self.across else 0.0))
        length = STANDOFF + self.stroke
        return PlanarPush(float(begin[0]), float(begin[1]), direction, length, _TIP_HEIGHT, yaw)


class ManipulatorSkills:
    """What a gripper knows of pushing.

    Args:
        memory: What another one has learned (:attr:`memory`).
        learns: Whether it goes on to learn; else theory or memory stay as they are.
    """

    def __init__(self, memory: bytes | None = None, *, learns: bool = True) -> None:
        self.faculty = Faculty(SLOTS, dict.fromkeys(SLOTS, _THEORY), memory)
        self.learns = learns

    @property
    def memory(self) -> bytes:
        """What was learned, 768 bytes."""
        return self.faculty.memory

    def choose(self) -> Choice:
        """What to practise next; a skill that begins takes over its parent's model."""
        choice = self.faculty.choose()
        known = {state.name: state for state in self.faculty.states}
        if choice.skill in _PARENT and not known[choice.skill].tried:
            self.faculty.inherit(choice.skill, _PARENT[choice.skill])
        return choice

    def expect(self, shove: Shove) -> Part:
        """Where a part will be after a push."""
        travel, turn = self.faculty.predict(_skill_of(shove), *shove.inputs)
        step = max(0.0, travel) * UNIT * shove.ahead
        part = shove.part
        return replace(part, x=part.x + float(step[0]), y=part.y + float(step[1]), yaw=wrap_half_turn(part.yaw + turn))

    def straight(self, part: Part, side: int, distance: float, skill: str = "push") -> Shove:
        """The push that moves a part straight on by a distance in metres."""
        shove = Shove(part, side, 0.0, 0.0)
        (c0, c1, c2), (t0, t1, t2) = self.faculty.weights(skill)
        # Travel and turn are affine in the two inputs: solve for the distance and no turn.
        matrix = np.array([[_away(c1), c2], [t1, _away(t2)]])
        travel, turn = np.linalg.solve(matrix, [distance / UNIT - c0, -t0])
        square = shove.moment**2
        most = _MOST_OFFSET * shove.breadth / 2
        lever = float(turn) * square / max(float(travel) * UNIT, 1e-3)
        # Tips that face a side keep it from turning: a small lever is not worth leaving that.
        offset = 0.0 if abs(lever) < _TIP / 4 else lever + math.copysign(_TIP / 2, lever)
        shove = replace(shove, offset=float(np.clip(offset, -most, most)))
        stroke = float(travel) * UNIT * (square + shove.lever**2) / square
        return replace(shove, stroke=float(np.clip(stroke, 0.0, MOST_STROKE)))

    def turning(self, part: Part, side: int, angle: float, skill: str = "align", *, share: float = TURNING) -> Shove:
        """The push that turns a part by an angle in radians, with this share of the longest lever that its side has."""
        shove = Shove(part, side, 0.0, 1.0)
        shove = replace(shove, offset=math.copysign((_TIP + share * (shove.breadth - _TIP)) / 2, angle))
        _, (t0, t1, t2) = self.faculty.weights(skill)
        per_metre, turn_per_metre = shove.inputs
        rate = t1 * per_metre + _away(t2) * turn_per_metre
        stroke = (angle - t0) / rate if abs(rate) > 1e-3 else MOST_STROKE
        return replace(shove, stroke=float(np.clip(stroke, 0.0, MOST_STROKE)))

    def observe(self, shove: Shove, after: Part, skill: str | None = None) -> tuple[float, float]:
        """Learn from where a part was found after a push.

        Returns:
            What it did: metres along the push, and radians.
        """
        travel = float((np.array([after.x, after.y]) - [shove.part.x, shove.part.y]) @ shove.ahead)
        turn = after.turn_from(shove.part)
        if self.learns:
            self.faculty.learn(skill or _skill_of(shove), *shove.inputs, (travel / UNIT, turn))
        return travel, turn

    def assess(self, skill: str, fitness: float) -> Event:
        """Take in how well a run went."""
        return self.faculty.assess(skill, fitness) if self.learns else Event(0)


def _skill_of(shove: Shove) -> str:
    """Whose model speaks of a push: turning ones are made near the end of a side."""
    return "align" if abs(shove.offset) > _TURNS * shove.breadth / 2 else "push"


def _away(slope: float) -> float:
    """A slope that can be divided by."""
    return max(slope, 0.2)


def save_skills(skills: ManipulatorSkills, path: Path, provenance: dict[str, object] | None = None) -> None:
    """Write what was learned as a small JSON file.

    Raises:
        StorageError: If it can't be written.
    """
    write_json(path, {"format": _FORMAT, "memory": skills.memory.hex(), "provenance": provenance or {}})


def load_skills(path: Path) -> ManipulatorSkills:
    """What :func:`save_skills` wrote.

    Raises:
        InputError: If the file is missing or is something else.
    """
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(_MOST_BYTES))
        if data["format"] != _FORMAT:
            raise InputError(f"{path} has the format '{data['format']}', not '{_FORMAT}'", "Practise anew")
        memory = bytes.fromhex(data["memory"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} holds no skills ({error})", "Make one: keygrasp skills practise --out FILE"
        ) from error
    return ManipulatorSkills(memory)
