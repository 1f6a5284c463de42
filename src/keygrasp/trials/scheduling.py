"""Which scenes a run tries next, where a scheduler decides: objects are the samples, their poses the trials."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from keygrasp.curriculum import Scheduler, make_scheduler
from keygrasp.curriculum.grasp_features import features_of_objects
from keygrasp.objects import Catalog
from keygrasp.protocol import SceneSpec
from keygrasp.trials.config import TrialsConfig, judged_planner
from keygrasp.trials.records import TrialRecord

#: Scenes between two decisions: enough for many workers, few enough to learn from. Part of what results depend on.
ROUND = 48


class Schedule(Protocol):
    """Decides in rounds which scenes are tried."""

    def next_round(self) -> list[int]:
        """Indices of the next scenes; empty at the end."""
        ...

    def learn(self, done: dict[int, tuple[TrialRecord, ...]], scenes: Sequence[int]) -> None:
        """Take the outcomes of a round."""
        ...

    def expected(self) -> int:
        """How many scenes it will be in all, as far as that is known."""
        ...


def make_schedule(config: TrialsConfig, scenes: Sequence[SceneSpec]) -> Schedule:
    """The schedule that a configuration asks for."""
    if config.tail:
        return TailSchedule(config, scenes)
    return AllScenes(len(scenes)) if config.scheduler == "all" else SceneSchedule(config, scenes)


class AllScenes:
    """Every scene, in one round."""

    def __init__(self, count: int) -> None:
        self._count, self._left = count, count

    def next_round(self) -> list[int]:
        """See :class:`Schedule`."""
        chosen, self._left = list(range(self._left)), 0
        return chosen

    def learn(self, done: dict[int, tuple[TrialRecord, ...]], scenes: Sequence[int]) -> None:
        """Nothing changes what comes next."""

    def expected(self) -> int:
        """See :class:`Schedule`."""
        return self._count


class TailSchedule:
    """The first pose of each object, then further poses until the reference has failed often enough.

    Args:
        config: What to do; ``tail`` says how often is enough.
        scenes: All scenes that there are, pose after pose.
    """

    def __init__(self, config: TrialsConfig, scenes: Sequence[SceneSpec]) -> None:
        self._wanted, self._first, self._count = config.tail, len(scenes) // config.poses, len(scenes)
        self._begun = self._tail = 0

    def next_round(self) -> list[int]:
        """See :class:`Schedule`."""
        if self._begun and self._tail >= self._wanted:
            return []
        begin = self._begun
        self._begun = min(begin + ROUND, self._count) if begin else self._first
        return list(range(begin, self._begun))

    def learn(self, done: dict[int, tuple[TrialRecord, ...]], scenes: Sequence[int]) -> None:
        """Count the reference's failures."""
        self._tail += sum(in_tail(record) for index in scenes for record in done[index])

    def expected(self) -> int:
        """See :class:`Schedule`; at first a quarter of all scenes is taken for tail."""
        share = self._tail / self._begun if self._tail else 0.25
        return min(self._count, max(self._first, self._begun, round(self._wanted / share)))


def in_tail(record: TrialRecord) -> bool:
    """Whether this is a failure of the reference, on a scene that could be made and tried."""
    return record.planner == "reference" and bool(record.attempts) and not record.single_shot


class SceneSchedule:
    """The scenes of a run in rounds, each chosen by the outcomes of those before.

    The outcomes are the single shots of the first planner that is not the reference. Given the same outcomes the rounds
    are the same, so a run that was stopped goes on with the same scenes.

    Args:
        config: What to do; ``scheduler`` and ``budget`` say how.
        scenes: All scenes that there are, pose after pose, as ``config.scenes()`` gives them.
    """

    def __init__(self, config: TrialsConfig, scenes: Sequence[SceneSpec]) -> None:
        self._config = config
        self._objects = len(scenes) // config.poses
        self._next_pose = np.zeros(self._objects, np.int64)
        self._left = config.budget
        catalog = Catalog()
        features = features_of_objects(
            [catalog.prepare(s.object_name, s.rule, source=s.source) for s in scenes[: self._objects]]
        )
        self._scheduler: Scheduler = make_scheduler(config.scheduler, features, seed=config.seed)
        self._scheduler.allocation = dataclasses.replace(self._scheduler.allocation, least=1, most=config.poses)

    def next_round(self) -> list[int]:
        """Indices of the next scenes; empty when the budget is spent."""
        open_objects = np.flatnonzero(self._next_pose < self._config.poses)
        if not len(open_objects) or self._left <= 0:
            return []
        given = self._scheduler.allocate(min(ROUND, self._left), among=open_objects)
        found = []
        for i, count in zip(given.ids, given.trials, strict=True):
            poses = range(self._next_pose[i], min(self._next_pose[i] + count, self._config.poses))
            found += [int(pose * self._objects + i) for pose in poses]
            self._next_pose[i] += len(poses)
        self._left -= len(found)
        return sorted(found)

    def expected(self) -> int:
        """See :class:`Schedule`."""
        return self._config.expected_scenes()

    def learn(self, done: dict[int, tuple[TrialRecord, ...]], scenes: Sequence[int]) -> None:
        """Take the outcomes of a round; a scene that could not be made tells nothing."""
        judged = judged_planner([spec.name for spec in self._config.planners])
        records = [r for index in scenes for r in done[index] if r.planner == judged and not r.scene_fault]
        ids = [record.scene % self._objects for record in records]
        self._scheduler.update(ids, [int(record.single_shot) for record in records], np.ones(len(records)))
