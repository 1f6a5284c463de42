"""Grasp progress from rules over the symbols: near → aligned → between fingers → contact → lifted → stable.

Φ is the share of the milestones reached in their order, plus a graded part of the next one, so that it grows all the
way. It is a fixed function of the symbols and the task.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.scene import predicates as p
from keygrasp.scene.symbols import COLOURS, STABLE_STEPS
from keygrasp.scene.tasks import Task, TaskKind
from keygrasp.shaping.potential import Potential, Stationarity

#: The adversarial potential's size, in multiples of the largest reward.
ADVERSARIAL_SCALE = 20
#: Metres at which the graded part of the approach begins.
_FAR = 0.5


@dataclass(frozen=True)
class Milestone:
    """One step of progress.

    Attributes:
        name: Its name in explanations.
        reached: Predicate of rows and task, booleans (N,).
        graded: How far the way to it is done, in [0, 1], of rows and task, (N,).
    """

    name: str
    reached: Callable[[Array, Task], NDArray[np.bool_]]
    graded: Callable[[Array, Task], Array]


def _falling(value: Array, start: float) -> Array:
    """1 at 0, falling to 0 at ``start``."""
    return np.asarray(np.clip(1 - value / start, 0, 1))


def _target_distance(rows: Array, task: Task) -> Array:
    offset = p.column(rows, "object_x") - task.target_x, p.column(rows, "object_y") - task.target_y
    return np.asarray(np.hypot(*offset))


def _contacts(rows: Array, task: Task) -> Array:
    return np.asarray((p.column(rows, "contact_left") + p.column(rows, "contact_right")) / 2)


_REACHING = (
    Milestone("near", lambda r, t: p.near(r), lambda r, t: _falling(p.distance(r), _FAR)),
    Milestone("aligned", lambda r, t: p.aligned(r), lambda r, t: _falling(p.misalignment(r), np.pi / 2)),
    Milestone(
        "between fingers",
        lambda r, t: p.between_fingers(r),
        lambda r, t: (
            _falling(np.maximum(p.TIP_OVERLAP - p.tips_below_top(r), 0), p.NEAR_HEIGHT) / 2
            + _falling(p.distance(r), p.NEAR_DISTANCE) / 2
        ),
    ),
)
_LIFTING = (
    *_REACHING,
    Milestone("contact", lambda r, t: p.grasped(r), _contacts),
    Milestone("lifted", lambda r, t: p.lifted(r), lambda r, t: np.clip(p.column(r, "height") / p.LIFTED_HEIGHT, 0, 1)),
)
#: The milestones of each task, in order.
MILESTONES: dict[TaskKind, tuple[Milestone, ...]] = {
    TaskKind.REACH: _REACHING,
    TaskKind.LIFT: (
        *_LIFTING,
        Milestone("stable", lambda r, t: p.stable(r), lambda r, t: p.column(r, "held_steps") / STABLE_STEPS),
    ),
    TaskKind.PLACE: (
        *_LIFTING,
        Milestone(
            "in target",
            lambda r, t: _target_distance(r, t) <= t.target_radius,
            lambda r, t: _falling(_target_distance(r, t), _FAR),
        ),
    ),
}


def task_done(rows: Array, task: Task) -> NDArray[np.bool_]:
    """Whether rows (N, D) have reached all of a task's milestones, with the object that is meant; booleans (N,)."""
    done = np.stack([m.reached(rows, task) for m in MILESTONES[task.kind]]).all(axis=0)
    return np.asarray(done & _meant(rows, task))


class RulePotential(Potential):
    """Share of a task's milestones reached in order; an object of another colour than the task's is no progress."""

    name = "rules"
    stationarity = Stationarity.STATIC

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Progress (N,) in [0, 1] of rows (N, D)."""
        level, graded, meant = self._progress(states, goal)
        total = len(MILESTONES[_task(goal).kind])
        return np.where(meant, (level + np.minimum(graded, 0.999)) / total, 0.0).clip(0, 1)

    def explain(self, state: Array, goal: Hashable) -> str:
        """The milestones reached, and the next one with how far it is."""
        milestones = MILESTONES[_task(goal).kind]
        levels, graded, meant = self._progress(state[None], goal)
        level = int(levels[0])
        if not meant[0]:
            return f"the object is not {_task(goal).colour}: no progress"
        done = ", ".join(m.name for m in milestones[:level]) or "nothing yet"
        if level == len(milestones):
            return f"reached: {done}"
        return f"reached: {done}; next: {milestones[level].name} ({100 * graded[0]:.0f}%)"

    @staticmethod
    def _progress(states: Array, goal: Hashable) -> tuple[NDArray[np.int64], Array, NDArray[np.bool_]]:
        """Milestones reached in order (N,), share of the next one (N,), whether the object is the one meant (N,)."""
        task = _task(goal)
        milestones = MILESTONES[task.kind]
        reached = np.stack([m.reached(states, task) for m in milestones], axis=1)
        level = np.cumprod(reached, axis=1, dtype=np.int64).sum(axis=1)
        grades = np.stack([*(m.graded(states, task) for m in milestones), np.zeros(len(states))], axis=1)
        graded = np.take_along_axis(grades, level[:, None], axis=1)[:, 0]
        return level, graded, _meant(states, task)


class AdversarialPotential(RulePotential):
    """Progress turned round, :data:`ADVERSARIAL_SCALE` times the largest reward: what shaping must survive."""

    name, low, high = "adversarial", -float(ADVERSARIAL_SCALE), 0.0

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Values (N,) of rows (N, D)."""
        return -ADVERSARIAL_SCALE * super().evaluate(states, goal)


def _meant(rows: Array, task: Task) -> NDArray[np.bool_]:
    """Whether the object is the one that the task means, (N,)."""
    if not task.colour:
        return np.ones(len(rows), dtype=bool)
    return np.asarray(p.column(rows, "object_colour") == COLOURS.index(task.colour))


def _task(goal: Hashable) -> Task:
    if not isinstance(goal, Task):
        raise InputError(f"the goal is {goal!r}, not a task", "Give a keygrasp.scene.Task")
    return goal
