"""Learning a task from scratch, by steps in the workspace alone: what a world model saves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from keygrasp.sim.tabletop import Tabletop
from keygrasp.worldmodel.qlearning import QAgent, QConfig, QLearner
from keygrasp.worldmodel.task_files import RewardTask

#: Steps of random actions before the policy acts.
_RANDOM_STEPS = 500


def learn_in_workspace(
    workspace: Tabletop,
    task: RewardTask,
    steps: int,
    config: QConfig,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> QAgent:
    """Train policy and Q-networks by steps in the workspace, one update a step.

    Args:
        workspace: Where to act; scenes begin with seeds that are never evaluated.
        task: Rewards, and ends episodes.
        steps: Decisions in all.
        config: Of the networks; ``updates``, ``starts`` and ``horizon`` don't matter here.
        progress: Called with steps done and steps in all.
    """
    layout = task.layout
    learner = QLearner(layout, config, torch.device("cpu"))
    random = np.random.default_rng(config.seed)
    scene, done, age = 5_000_000 + 10_000 * config.seed, True, 0
    row = torch.zeros(layout.size)
    for step in range(steps):
        if done:
            view = workspace.reset(scene)
            row = torch.as_tensor(layout.row(view.states, view.force), dtype=torch.float32)
            scene, age = scene + 1, 0
        free = torch.as_tensor(random.uniform(-1, 1, 5), dtype=torch.float32)
        action = free if step < _RANDOM_STEPS else learner.explore(row[None])[0]
        view = workspace.step(action.numpy())
        after = torch.as_tensor(layout.row(view.states, view.force), dtype=torch.float32)
        ended = task.terminated(after[None])
        learner.remember(row[None], action[None], task.reward(row[None], action[None], after[None]), ended, after[None])
        age += 1
        done = bool(ended[0]) or view.lost or age >= task.steps
        row = after
        if step >= _RANDOM_STEPS:
            learner.update(step)
        if progress is not None and step % 100 == 99:
            progress(step + 1, steps)
    return learner.agent
