"""A policy for a new task, trained in imagination: zero steps in the workspace, some minutes of computing.

Transitions are imagined by the world model from rows that were observed in earlier episodes. Rewards and terminations
come from the task's code.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.model import Belief, WorldModel
from keygrasp.worldmodel.qlearning import QAgent, QConfig, QLearner
from keygrasp.worldmodel.task_files import RewardTask

Reward = Callable[[Tensor, Tensor, Tensor], Tensor]


def train_in_imagination(
    model: WorldModel,
    task: RewardTask,
    episodes: Sequence[Episode],
    config: QConfig | None = None,
    *,
    reward: Reward | None = None,
    progress: Callable[[int, int, Mapping[str, float]], None] | None = None,
) -> QAgent:
    """Train policy and Q-networks for a task.

    Args:
        model: Imagines; it is not changed.
        task: Gives rewards and terminations by its code.
        episodes: Their rows are what imagination begins from.
        config: How.
        reward: Replaces the code's rewards, such as a reward head that was fitted (the coupled baseline).
        progress: Called with updates done, updates in all, and figures.

    Raises:
        InputError: If a loss is no longer finite.
    """
    config = config or QConfig()
    rows = torch.cat([episode.symbols for episode in episodes]).to(model.device)
    learner = QLearner(model.layout, config, model.device)
    dream = Dream(model, task, rows, learner, reward or task.reward)
    begun = time.monotonic()
    for update in range(config.updates):
        if update % 4 == 0:
            dream.step()
        loss = learner.update(update)
        if progress is not None and (update % 50 == 49 or update + 1 == config.updates):
            progress(update + 1, config.updates, {"loss": loss, "s": time.monotonic() - begun})
    return learner.agent


class Dream:
    """Situations that are imagined side by side, for a learner to learn from.

    Args:
        model: Imagines.
        task: Ends episodes.
        rows: (N, D) where they begin.
        learner: Acts, and remembers.
        reward: Gives rewards.
    """

    def __init__(self, model: WorldModel, task: RewardTask, rows: Tensor, learner: QLearner, reward: Reward) -> None:
        self._model, self._task, self._rows, self._learner, self._reward = model, task, rows, learner, reward
        self._belief, self._age = self._fresh(), 0

    @torch.no_grad()
    def step(self) -> None:
        """One imagined decision of each situation; new ones where they ended, and for all after the horizon."""
        if self._age >= self._learner.config.horizon:
            self._belief, self._age = self._fresh(), 0
        before = self._belief.symbols
        actions = self._learner.explore(before)
        after = self._model.step(self._belief, actions)
        ended = self._task.terminated(after.symbols)
        self._learner.remember(before, actions, self._reward(before, actions, after.symbols), ended, after.symbols)
        fresh, gone = self._fresh(), ended[:, None]
        self._belief = Belief(
            torch.where(gone, fresh.symbols, after.symbols),
            torch.where(gone, fresh.deviation, after.deviation),
            torch.where(gone, fresh.state, after.state),
        )
        self._age += 1

    def _fresh(self) -> Belief:
        count, draw = self._learner.config.starts, self._learner.draw
        index = torch.randint(len(self._rows), (count,), generator=draw, device=self._rows.device)
        return self._model.start(self._rows[index])
