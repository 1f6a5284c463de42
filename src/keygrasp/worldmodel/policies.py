"""Policies in the workspace that no learning is behind: random actions, and plans of a model."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import torch
from torch import Tensor

from keygrasp.geometry.poses import Array
from keygrasp.scene.tabletop import ACTIONS
from keygrasp.sim.tabletop import TabletopView
from keygrasp.worldmodel.ensemble import Ensemble
from keygrasp.worldmodel.model import WorldModel
from keygrasp.worldmodel.planner import Plan, Planner, PlannerConfig
from keygrasp.worldmodel.task_files import FileTask, RewardTask


class RandomActions:
    """Even random actions: the floor that returns are measured from."""

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        self._random = np.random.default_rng(seed)

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        return self._random.uniform(-1, 1, len(ACTIONS))


class Planned:
    """Plans anew at each decision and takes the plan's first action.

    Args:
        model: Imagines.
        task: Rewards, by code.
        config: How to search.
        keep: Whether plans are kept.
        focus: Whether an ensemble imagines only the objects that a task of a file is about, and plans have only these:
            half the time, and what others do is neither foreseen nor doubted.

    Attributes:
        plans: The plans of the present episode, kept where asked to.
        seconds: Seconds of each decision, of all episodes.
    """

    def __init__(
        self,
        model: WorldModel,
        task: RewardTask,
        config: PlannerConfig | None = None,
        *,
        keep: bool = False,
        focus: bool = True,
    ) -> None:
        self.plans: list[Plan] = []
        self.seconds: list[float] = []
        self._columns = list(range(model.layout.size))
        if focus and isinstance(model, Ensemble) and isinstance(task, FileTask):
            model, task, self._columns = focused(model, task)
        self._model, self._planner, self._keep = model, Planner(model, task, config), keep

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        self._planner.reset(seed)
        self.plans = []

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        begun = time.perf_counter()
        belief = self._model.start(row[None, self._columns].to(self._model.device))
        if self._keep:
            self.plans.append(self._planner.plan(belief))
            action = self.plans[-1].actions[0]
        else:
            action = self._planner.search(belief)[0]
        self.seconds.append(time.perf_counter() - begun)
        return np.asarray(action.cpu().double().numpy())


def imagined_return(model: WorldModel, task: RewardTask, start: Tensor, actions: Tensor) -> float:
    """Return that a model expects of actions (T, 5) from a row (D,): what a realised one is compared with."""
    belief, total, going = model.start(start[None].to(model.device)), 0.0, True
    with torch.no_grad():
        for action in actions.to(model.device):
            after = model.step(belief, action[None])
            total += going * float(task.reward(belief.symbols, action[None], after.symbols)[0])
            going = going and not bool(task.terminated(after.symbols)[0])
            belief = after
    return total


def focused(model: Ensemble, task: FileTask) -> tuple[Ensemble, FileTask, list[int]]:
    """Model and task for the objects that the task is about alone, and the columns of a row that they read.

    A task that is about none keeps the first.
    """
    objects = task.objects or model.layout.objects[:1]
    smaller, columns = model.layout.part(objects)
    return model.only(objects), dataclasses.replace(task, layout=smaller), columns


@torch.no_grad()
def imagined_rows(model: WorldModel, start: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (T+1, D) and their deviations that a model imagines for actions (T, 5) from a row (D,), open loop."""
    belief = model.start(start[None].to(model.device))
    rows, deviations = [belief.symbols[0]], [belief.deviation[0]]
    for action in actions.to(model.device):
        belief = model.step(belief, action[None])
        rows.append(belief.symbols[0])
        deviations.append(belief.deviation[0])
    return torch.stack(rows).cpu(), torch.stack(deviations).cpu()
