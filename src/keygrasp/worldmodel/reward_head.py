"""A reward that is learned instead of written: the coupled baseline, a head that is refitted for each task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.qlearning import policy_features
from keygrasp.worldmodel.task_files import RewardTask

_HIDDEN = 128


def fit_reward_head(
    task: RewardTask, episodes: Sequence[Episode], *, updates: int = 1500, batch: int = 256, seed: int = 0
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Fit a network to the rewards that a task's code gives earlier episodes, and nothing else of the task.

    Args:
        task: Labels the episodes.
        episodes: What the head learns from.
        updates: Gradient steps.
        batch: Transitions a step.
        seed: Seed of weights and batches.

    Returns:
        A reward (B,) of rows before, actions and rows after.
    """
    layout = task.layout
    before = torch.cat([e.symbols[:-1] for e in episodes])
    after = torch.cat([e.symbols[1:] for e in episodes])
    actions = torch.cat([e.actions for e in episodes])
    rewards = task.reward(before, actions, after)
    middle, spread = rewards.mean(), rewards.std().clamp(min=1e-3)
    draw = torch.Generator().manual_seed(seed)

    def seen(rows: Tensor, taken: Tensor) -> Tensor:
        force = rows[:, layout.columns["gripper_force"], None] / 20
        places = torch.cat([rows[:, layout.columns_of(name)][:, [0, 1, 11]] / 0.1 for name in layout.objects], dim=1)
        return torch.cat([policy_features(layout, rows), force, places, taken], dim=1)

    inputs = seen(after, actions)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = nn.Sequential(
            nn.Linear(inputs.shape[1], _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, 1),
        )
    optimiser = torch.optim.AdamW(head.parameters(), 1e-3, weight_decay=1e-4)
    for _ in range(updates):
        index = torch.randint(len(inputs), (batch,), generator=draw)
        loss = (head(inputs[index])[:, 0] - (rewards[index] - middle) / spread).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    @torch.no_grad()
    def reward(_: Tensor, taken: Tensor, rows: Tensor) -> Tensor:
        predicted: Tensor = head(seen(rows, taken))[:, 0]
        return predicted * spread + middle

    return reward
