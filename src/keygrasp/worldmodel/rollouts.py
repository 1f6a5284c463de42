"""Episodes in the simulated workspace: a policy acts, rows are kept, and a task's code gives the return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from keygrasp.geometry.poses import Array
from keygrasp.sim.tabletop import Tabletop, TabletopView
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.task_files import RewardTask


class Policy(Protocol):
    """Chooses actions in the workspace."""

    def reset(self, view: TabletopView, seed: int) -> None:
        """An episode begins."""
        ...

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """The action (5,) for what is seen, whose row (D,) is given."""
        ...


class Scripted:
    """A policy of a function of the true symbols, made anew for each episode.

    Args:
        make: Makes the function.
        noise: Standard deviation of what is added to the motions.
    """

    def __init__(self, make: Callable[[], Callable[[dict], Array]], noise: float = 0.0) -> None:  # type: ignore[type-arg]
        self._make, self._noise = make, noise

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`Policy`."""
        self._function, self._random = self._make(), np.random.default_rng(seed)

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`Policy`."""
        action = self._function(view.states)
        action[:4] += self._noise * self._random.standard_normal(4)
        return np.clip(action, -1, 1)


def roll_out(
    workspace: Tabletop,
    policy: Policy,
    layout: Layout,
    *,
    steps: int,
    seed: int,
    task: RewardTask | None = None,
    behaviour: str = "",
) -> Episode:
    """One episode; it ends after ``steps``, when the task's code says so, or when an object is lost."""
    view = workspace.reset(seed)
    rows, actions = [layout.row(view.states, view.force)], list[Array]()
    rgb, depth = [view.rgb], [view.depth]
    policy.reset(view, seed)
    terminated = lost = False
    while len(actions) < steps and not (terminated or lost):
        action = np.clip(policy.act(view, torch.as_tensor(rows[-1], dtype=torch.float32)), -1, 1)
        view = workspace.step(action)
        rows.append(layout.row(view.states, view.force))
        actions.append(action)
        rgb.append(view.rgb)
        depth.append(view.depth)
        lost = view.lost
        if task is not None:
            terminated = bool(task.terminated(torch.as_tensor(rows[-1], dtype=torch.float32)[None])[0])
    return Episode(
        torch.as_tensor(np.array(rows), dtype=torch.float32),
        torch.as_tensor(np.array(actions), dtype=torch.float32),
        terminated=terminated,
        truncated=not terminated,
        behaviour=behaviour,
        task="" if task is None else task.name,
        seed=seed,
        rgb=None if view.rgb is None else torch.as_tensor(np.array(rgb)),
        depth=None if view.depth is None else torch.as_tensor(np.array(depth)),
    )


def rewards_of(episode: Episode, task: RewardTask) -> Tensor:
    """Rewards (T,) that a task's code gives an episode, whichever task it was collected with.

    Reward t is that of action t: of the rows t and t + 1.
    """
    return task.reward(episode.symbols[:-1], episode.actions, episode.symbols[1:])


def episode_return(episode: Episode, task: RewardTask) -> float:
    """Sum of rewards; what an episode that was cut off early would have gone on to get counts as 0."""
    return float(rewards_of(episode, task).sum())
