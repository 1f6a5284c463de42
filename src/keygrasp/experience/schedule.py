"""Which objects a collection executes grasps on next, where a scheduler decides by the outcomes so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from keygrasp.curriculum import make_scheduler
from keygrasp.curriculum.grasp_features import features_of_objects
from keygrasp.experience.labels import PROPOSALS, SceneLabels
from keygrasp.objects import Catalog, Rule


class ObjectSchedule:
    """Objects as samples; a trial is one executed grasp that a planner chose.

    Given the same labels the choices are the same: a collection that was stopped goes on with the same objects.

    Args:
        names: Training objects.
        rule: Scaling rule of KG-1.
        scheduler: Name of a scheduler, see :func:`keygrasp.curriculum.make_scheduler`.
        seed: Seed of all draws.
    """

    def __init__(self, names: Sequence[str], rule: Rule, scheduler: str, seed: int) -> None:
        catalog = Catalog()
        self._names = list(names)
        self._place = {name: i for i, name in enumerate(names)}
        self._scheduler = make_scheduler(
            scheduler, features_of_objects([catalog.prepare(name, rule) for name in names]), seed=seed
        )
        # A trial here is a scene with several grasps: one is enough to begin with.
        self._scheduler.allocation = dataclasses.replace(self._scheduler.allocation, least=1, most=16)

    def choose(self, scenes: int) -> list[str]:
        """The objects of the next scenes, an object once for each scene with it."""
        given = self._scheduler.allocate(scenes)
        return [self._names[i] for i in np.repeat(given.ids, given.trials)]

    def learn(self, labels: Iterable[SceneLabels]) -> None:
        """Take the outcomes of scenes: those of the grasps that planners chose."""
        ids, successes, trials = [], [], []
        for scene in labels:
            chosen = scene.proposal == PROPOSALS.index("planner")
            ids.append(self._place[scene.object_name])
            successes.append(int(scene.success[chosen].sum()))
            trials.append(int(chosen.sum()))
        self._scheduler.update(ids, successes, trials)
