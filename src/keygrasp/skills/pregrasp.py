"""Before a grasp that can't be made: the pushes that would let the fingers in, best first; see ``manipulator``."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.grasps.collision import CLEARANCE, TABLE_FLOOR, FootprintModel
from keygrasp.perception import Perceived
from keygrasp.scene import GripperSpec, HeightMap, ReachFilter
from keygrasp.scene.pushes import PlanarPush
from keygrasp.skills.manipulator import MOST_STROKE, ManipulatorSkills, Shove
from keygrasp.skills.parts import Mask, Part, drawn, found_again, parts_of

#: Strokes in metres and offsets as shares of half a side that are tried; long ones are made in several pushes.
_STROKES = (0.02, 0.035, 0.055, 0.08, 0.12, 0.16, 0.2)
_OFFSETS = (-0.75, -0.4, 0.0, 0.4, 0.75)
#: Metres beside an object at which the fingers fit with ease: more counts no more.
ENOUGH = 0.030
#: Metres along which a part that is pushed into another is thought to slip aside, and in how many directions.
_SLIPS, _DIRECTIONS = np.arange(0.0, 0.025, 0.004), 12
#: Metres by which a part's rectangle is wider than the part, for the camera blurs its edges.
_BLUR = 0.004
#: Share of a part's half length from its middle within which it is to be grasped.
_GRASPED = 0.6
#: Metres from the middle of the workspace that a part may be pushed to: the camera must go on to see it.
_FARTHEST = 0.15
#: What a metre of stroke costs, and a metre of slipping, which is less sure; in metres of room.
_STROKE_COST, _SLIP_COST = 0.05, 0.8
#: Metres of the longest side of what is pushed to see more, and the order of the sides.
_EXPLORED = 0.16
_EXPLORING = (0, 2, 1, 3)
#: Metres of room that are missing after a push that has disappointed, and what one like it costs.
_DISAPPOINTING, _REPEAT_COST = 0.010, 0.020
#: Metres between two looks for obstacles on the tips' way.
_SPACING = 0.01


@dataclass(frozen=True, eq=False)
class Proposal:
    """A push and what is expected of it.

    Attributes:
        shove: The push in the part's terms.
        motion: The stroke of the tips.
        room: Metres that are expected to be free on both sides of what can be grasped then; see :func:`room_beside`.
        gain: By how much that is more than now, less what the push costs.
        expected: Where the part is expected after the stroke that is made now; ``None`` where that can't be told,
            because it would meet others.
    """

    shove: Shove
    motion: PlanarPush
    room: float
    gain: float
    expected: Part | None = None


class PushPlanner:
    """Chooses one push after the other until the fingers fit, learns from what each did, and doesn't insist.

    Args:
        skills: What is known of pushing.
        gripper: The gripper, which pushes with its closed tips.
        exploring: Most pushes of which nothing is expected but to see what moves.
    """

    def __init__(self, skills: ManipulatorSkills, gripper: GripperSpec, *, exploring: int = 2) -> None:
        self._skills, self._gripper, self._exploring = skills, gripper, exploring
        self._last: Proposal | None = None
        self._failed: list[Shove] = []
        self._explored = 0

    def choose(self, seen: Perceived, reach: ReachFilter | None = None) -> Proposal | None:
        """The push to make now; ``None`` where none is worth it.

        Args:
            seen: What the camera sees; what the push before did is read from it.
            reach: Which tool poses the robot can take.
        """
        self._look_back(seen)
        proposals = propose(seen, self._gripper, self._skills, reach, failed=self._failed)
        if proposals:
            return proposals[0]
        if self._explored == self._exploring:
            return None
        self._explored += 1
        return explore(seen, self._gripper, self._explored - 1, reach)

    def made(self, proposal: Proposal, *, completed: bool) -> None:
        """A push was made.

        Args:
            proposal: Which one.
            completed: Whether the whole stroke was; one that ended early says nothing of the model.
        """
        self._last = proposal
        if not completed:
            self._last = dataclasses.replace(proposal, expected=None)

    def _look_back(self, seen: Perceived) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        room = best_room(parts_of(seen), seen.height_map, self._gripper)
        if room < last.room - _DISAPPOINTING:
            self._failed.append(last.shove)
        moved = found_again(last.shove.part, last.expected, seen) if last.expected is not None else None
        if moved is not None:
            self._skills.observe(last.shove, moved)


def propose(
    perceived: Perceived,
    gripper: GripperSpec,
    skills: ManipulatorSkills,
    reach: ReachFilter | None = None,
    *,
    failed: Sequence[Shove] = (),
) -> list[Proposal]:
    """Pushes that are expected to make room for the fingers beside some part, best first; empty where none is.

    Args:
        perceived: What the camera sees.
        gripper: The gripper, which pushes with its closed tips.
        skills: What is known of pushing.
        reach: Which tool poses the robot can take.
        failed: Pushes that have disappointed; alike ones count for less.
    """
    parts, height_map = parts_of(perceived), perceived.height_map
    before = best_room(parts, height_map, gripper)
    found = []
    for shove in possible(perceived, gripper, reach):
        others = tuple(part for part in parts if part.mask is not shove.part.mask)
        taken = _taken(others, height_map)
        after, slip = _slipped(skills.expect(shove), taken, height_map)
        if after is not None:
            room = best_room((after, *others), height_map, gripper)
            gain = room - before - _STROKE_COST * shove.stroke - _SLIP_COST * slip
            gain -= _REPEAT_COST * sum(_is_alike(shove, other) for other in failed)
            now = dataclasses.replace(shove, stroke=min(shove.stroke, MOST_STROKE))
            there = skills.expect(now)
            free = not np.any(drawn(there, height_map, -_BLUR) & taken)
            found.append(Proposal(now, now.motion(gripper), room, gain, there if free else None))
    return sorted((one for one in found if one.gain > 0), key=lambda one: -one.gain)


def explore(
    perceived: Perceived, gripper: GripperSpec, tried: int, reach: ReachFilter | None = None
) -> Proposal | None:
    """A push of which nothing is expected but to see more: things that touch all along look like one, until one moves.

    Args:
        perceived: What the camera sees.
        gripper: The gripper.
        tried: How many such pushes were made before; the next one is made against another side.
        reach: Which tool poses the robot can take.
    """
    shoves = [
        shove
        for shove in possible(perceived, gripper, reach, widest=_EXPLORED)
        if shove.part.length < _EXPLORED and shove.stroke <= MOST_STROKE and abs(shove.offset) > 0.3 * shove.breadth / 2
    ]
    side = _EXPLORING[tried % len(_EXPLORING)]
    best = max(shoves, key=lambda shove: (shove.side == side, shove.stroke), default=None)
    return None if best is None else Proposal(best, best.motion(gripper), 0.0, 0.0)


def possible(
    perceived: Perceived, gripper: GripperSpec, reach: ReachFilter | None = None, *, widest: float | None = None
) -> list[Shove]:
    """Pushes whose tips touch nothing but what they push.

    Args:
        perceived: What the camera sees.
        gripper: The gripper.
        reach: Which tool poses the robot can take.
        widest: Metres of the short side of what may be pushed; as wide as the gripper opens by default.
    """
    height_map = perceived.height_map
    whole = FootprintModel(height_map, gripper)
    found = []
    for part in parts_of(perceived):
        if part.width > (widest or gripper.max_opening):
            continue
        heights = np.where(drawn(part, height_map, CLEARANCE) | part.mask, np.float32(0.0), height_map.heights)
        rest = FootprintModel(dataclasses.replace(height_map, heights=heights), gripper)
        for side, share, stroke in itertools.product(range(4), _OFFSETS, _STROKES):
            breadth = (part.width, part.length)[side // 2]
            for across in (False, True):
                shove = Shove(part, side, share * breadth / 2, stroke, across)
                if _is_clear(shove.motion(gripper), whole, rest, gripper, reach):
                    found.append(shove)
                    break
    return found


def _is_alike(shove: Shove, other: Shove) -> bool:
    """Whether two pushes go about the same way, and through about the same place of a side."""
    same_way = float(shove.ahead @ other.ahead) > 0.7
    return same_way and abs(shove.offset - other.offset) < 0.3 * max(shove.breadth, other.breadth)


def best_room(parts: tuple[Part, ...], height_map: HeightMap, gripper: GripperSpec) -> float:
    """Room beside the part that has most of it."""
    rooms = [
        room_beside(part, _taken(tuple(o for o in parts if o is not part), height_map), height_map, gripper)
        for part in parts
    ]
    return max(rooms, default=0.0)


def room_beside(part: Part, taken: Mask, height_map: HeightMap, gripper: GripperSpec) -> float:
    """Metres that are free on both sides of a part where fingers would go down, at its best place; at most ENOUGH.

    Args:
        part: What is to be grasped across its short side; 0 is returned where it is too wide for that.
        taken: (H, W) cells that something else stands on.
        height_map: Whose cells these are.
        gripper: The gripper.
    """
    if part.width > gripper.max_opening - 2 * CLEARANCE:
        return 0.0
    along, aside = part.axes
    cell, reach = height_map.cell, _GRASPED * part.length / 2
    places = np.arange(-reach, reach + cell / 2, cell)
    spots = np.arange(-gripper.pad_width / 2, gripper.pad_width / 2 + cell / 2, cell)
    outward = np.arange(cell, ENOUGH + cell / 2, cell)
    place, side, spot, away = np.meshgrid(places, (1.0, -1.0), spots, outward, indexing="ij")
    points = np.array([part.x, part.y]) + (place + spot)[..., None] * along
    points = points + (side * (part.width / 2 + away))[..., None] * aside
    hit = np.any(_at(taken, points, height_map), axis=2)  # place, side, away
    free = np.where(np.any(hit, axis=2), np.argmax(hit, axis=2), hit.shape[2])
    return float(np.max(np.min(free, axis=1))) * cell


def _taken(parts: tuple[Part, ...], height_map: HeightMap) -> Mask:
    """(H, W) cells of these parts."""
    taken = np.zeros(height_map.heights.shape, np.bool_)
    for part in parts:
        taken |= part.mask
    return taken


def _is_clear(
    motion: PlanarPush, whole: FootprintModel, rest: FootprintModel, gripper: GripperSpec, reach: ReachFilter | None
) -> bool:
    """Whether the closed gripper can go down beside the part, and along without meeting anything else."""
    count = max(2, math.ceil(motion.length / _SPACING))
    ways = np.linspace(0.0, 1.0, count)[:, None]
    (x, y), start = motion.end, np.array([motion.x, motion.y])
    xy = start + ways * (np.array([x, y]) - start)
    fixed = np.tile([motion.z, motion.yaw, gripper.min_opening], (count, 1))
    tips = np.column_stack([xy, fixed])
    if reach is not None and not bool(np.all(reach(tips))):
        return False
    down, on = tips[:1], tips[1:]
    # The tips go down beside the part itself, whose edge the camera blurs: what counts there is higher than that.
    clear = whole.clear(down, whole.below(down)) | (whole.below(down).fingers <= TABLE_FLOOR + motion.z)
    return bool(clear.all() and rest.clear(on, rest.below(on)).all())


def _slipped(part: Part, taken: Mask, height_map: HeightMap) -> tuple[Part | None, float]:
    """A part that was pushed somewhere, slipped aside as little as keeps it off the others, and how far that is.

    Returns:
        ``None`` where it can't be.
    """
    angles = np.arange(_DIRECTIONS) * math.tau / _DIRECTIONS
    for slip in _SLIPS:
        for angle in angles if slip else angles[:1]:
            x, y = part.x + slip * math.cos(angle), part.y + slip * math.sin(angle)
            moved = dataclasses.replace(part, x=x, y=y)
            mask = drawn(moved, height_map, -_BLUR)
            if not np.any(mask & taken) and math.hypot(x, y) < _FARTHEST:
                return dataclasses.replace(moved, mask=mask), float(slip)
    return None, 0.0


def _at(mask: Mask, points: Array, height_map: HeightMap) -> Mask:
    """Values of a mask at workspace points (..., 2); false outside."""
    cells = np.rint(height_map.cells_of(points)).astype(np.intp)
    rows, columns = cells[..., 0], cells[..., 1]
    inside = (rows >= 0) & (rows < mask.shape[0]) & (columns >= 0) & (columns < mask.shape[1])
    return np.asarray(mask[np.where(inside, rows, 0), np.where(inside, columns, 0)] & inside)
