"""A manipulator's development: it pushes what lies before it, and learns what that does, on a bench that one provides.

The bench is a small protocol: a look at the table, and a push. Here it is the simulated scene of ``clutter``; a real
robot's is its camera and its arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from keygrasp.perception import Perceived, perceive
from keygrasp.scene import GripperSpec, TrialOutcome
from keygrasp.scene.pushes import PlanarPush
from keygrasp.sim.pushing import push_stages
from keygrasp.skills.clutter import ClutterScene, ClutterSpec, Kind
from keygrasp.skills.core import Event
from keygrasp.skills.faculty import Choice
from keygrasp.skills.manipulator import ManipulatorSkills, Shove
from keygrasp.skills.parts import Part, found_again, parts_of
from keygrasp.skills.pregrasp import ENOUGH, PushPlanner, best_room

#: Metres that a practised push is to move a part by, and radians that it is to turn it by.
_DISTANCES, _ANGLES = (0.025, 0.09), (math.radians(20), math.radians(60))
#: Where on a side turning pushes are made, as shares of its half.
_SHARES = (0.4, 0.8)
#: As on the millirobot: what a stroke is to achieve at least, and a swing.
_LEAST_TRAVEL, _LEAST_TURN = 0.020, math.radians(20)
#: Metres from the middle of the table from which a new part is taken.
_TOO_FAR = 0.11
#: What "clear" is practised on.
_CLUTTER: tuple[Kind, ...] = ("pair", "wall")
#: Most pushes of one run of "clear".
MOST_PUSHES = 4


class Bench(Protocol):
    """A table with something on it, a camera above it and a gripper that pushes."""

    @property
    def gripper(self) -> GripperSpec:
        """The gripper."""
        ...

    def look(self) -> Perceived:
        """What the camera sees, with the gripper out of the way and everything at rest."""
        ...

    def push(self, push: PlanarPush) -> TrialOutcome:
        """Push."""
        ...


class SimulatedBench:
    """A scene of ``clutter`` as a bench.

    Args:
        scene: The scene.
    """

    def __init__(self, scene: ClutterScene) -> None:
        self.scene = scene

    @property
    def gripper(self) -> GripperSpec:
        """The gripper."""
        return self.scene.robot.gripper

    def look(self) -> Perceived:
        """What the camera sees."""
        return perceive(self.scene.look())

    def push(self, push: PlanarPush) -> TrialOutcome:
        """Push."""
        return push_stages(self.scene.robot, push, self.scene.robot.profile)


@dataclass(frozen=True)
class Practised:
    """One run of practice.

    Attributes:
        choice: What was practised and why.
        fitness: How well it went, 1 is perfect.
        events: What that changed.
        skill: What was practised.
    """

    choice: Choice
    fitness: float
    events: Event

    @property
    def skill(self) -> str:
        """What was practised."""
        return self.choice.skill


def practise(
    skills: ManipulatorSkills,
    runs: int,
    *,
    seed: int = 0,
    make: Callable[[ClutterSpec], ClutterScene] = ClutterScene,
    on: Callable[[ClutterScene], Bench] = SimulatedBench,
) -> Iterator[Practised]:
    """Let a manipulator develop on simulated cartons.

    Args:
        skills: What it knows; learns.
        runs: How many runs of skills.
        seed: Of the cartons and of what is asked.
        make: Builds a scene.
        on: Makes a bench of it.
    """
    rng = np.random.default_rng(seed)
    scene: ClutterScene | None = None
    scenes = 0
    try:
        for _ in range(runs):
            choice = skills.choose()
            wanted: Kind = _CLUTTER[rng.integers(len(_CLUTTER))] if choice.skill == "clear" else "free"
            if scene is None or scene.spec.kind != wanted or wanted != "free" or not _is_near(scene):
                if scene is not None:
                    scene.world.close()
                scenes += 1
                scene = make(ClutterSpec(wanted, 1_000_000 * (seed + 1) + scenes))
            bench = on(scene)
            fitness = _cleared(skills, bench) if choice.skill == "clear" else _pushed(skills, choice.skill, bench, rng)
            if fitness is not None:  # else the scene says nothing about the skill
                yield Practised(choice, fitness, skills.assess(choice.skill, fitness))
    finally:
        if scene is not None:
            scene.world.close()


def _is_near(scene: ClutterScene) -> bool:
    return float(np.hypot(*scene.world.object_pose(scene.target)[:2, 3])) < _TOO_FAR


def _pushed(skills: ManipulatorSkills, skill: str, bench: Bench, rng: np.random.Generator) -> float | None:
    """One run of stroke, swing, push or align on the largest part; ``None`` where it is lost from view."""
    parts = parts_of(bench.look())
    if not parts:
        return None
    shove, goal = _asked(skills, skill, parts[0], rng)
    bench.push(shove.motion(bench.gripper))
    moved = found_again(shove.part, skills.expect(shove), bench.look())
    if moved is None:
        return None
    travel, turn = skills.observe(shove, moved, skill)
    aside = float((np.array([moved.x, moved.y]) - [shove.part.x, shove.part.y]) @ [-shove.ahead[1], shove.ahead[0]])
    return fitness_of(skill, goal, travel, aside, turn)


def _asked(skills: ManipulatorSkills, skill: str, part: Part, rng: np.random.Generator) -> tuple[Shove, float]:
    """The push of a run and its goal in metres or radians; parts are pushed towards the middle of the table."""
    inward = [float(Shove(part, side, 0.0, 0.0).ahead @ [-part.x, -part.y]) for side in range(4)]
    turning = skill in ("swing", "align")
    sides = (2, 3) if turning else range(4)  # a short side has no lever to speak of
    side = max(sides, key=lambda each: inward[each] + rng.uniform(0, 0.02))
    if turning:
        goal = float(rng.uniform(*_ANGLES) * rng.choice([-1, 1]))
        return skills.turning(part, side, goal, skill, share=float(rng.uniform(*_SHARES))), goal
    goal = float(rng.uniform(*_DISTANCES))
    return skills.straight(part, side, goal, skill), goal


def fitness_of(skill: str, goal: float, travel: float, aside: float, turn: float) -> float:
    """How well a push went, with the millirobot's targets and tolerances.

    Args:
        skill: Which skill was run.
        goal: Metres or radians that were asked for.
        travel: Metres along the push.
        aside: Metres to the left of it.
        turn: Radians.
    """
    if skill == "stroke":  # straight on, by a quarter of the way in millimetres and degrees
        target = max(travel, _LEAST_TRAVEL)
        errors = np.array([target - travel, aside, math.degrees(turn) / 1e3]) * 4 / target
        return float(1 - np.linalg.norm(errors) / math.sqrt(3))
    if skill == "swing":
        target = max(abs(turn), _LEAST_TURN)
        return 1 - (target - abs(turn)) / target
    done = turn if skill == "align" else travel
    return 1 - 2 * abs(done - goal) / abs(goal)


def _cleared(skills: ManipulatorSkills, bench: Bench) -> float | None:
    """One run of clear: the room that it made, as a share of what is enough; ``None`` where there was nothing to do."""
    planner = PushPlanner(skills, bench.gripper)
    for tried in range(MOST_PUSHES + 1):
        seen = bench.look()
        room = best_room(parts_of(seen), seen.height_map, bench.gripper)
        if room >= ENOUGH:
            return 1.0 if tried else None
        if tried == MOST_PUSHES:
            break
        proposal = planner.choose(seen)
        if proposal is None:
            return None
        planner.made(proposal, completed=bench.push(proposal.motion).success)
    return room / ENOUGH
