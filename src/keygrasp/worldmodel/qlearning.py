"""Twin Q-networks and a deterministic policy over symbols (TD3, Fujimoto et al., ICML 2018), and what they learn from.

Where the transitions come from, a world model or the workspace, is the caller's matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.geometry.poses import Array
from keygrasp.scene.tabletop import ACTIONS
from keygrasp.sim.tabletop import TabletopView
from keygrasp.worldmodel import dynamics
from keygrasp.worldmodel.layout import Layout


@dataclass(frozen=True)
class QConfig:
    """How the networks learn.

    Attributes:
        updates: Gradient steps.
        batch: Transitions a step.
        starts: Situations that are imagined at once.
        horizon: Imagined decisions from each before new ones are drawn.
        hidden: Width of the layers.
        discount: A decision.
        learning_rate: Of Adam.
        noise: Standard deviation of exploration, and of the target policy's smoothing.
        memory: Imagined transitions that are kept.
        seed: Seed of weights and draws.
    """

    updates: int = 3000
    batch: int = 256
    starts: int = 256
    horizon: int = 15
    hidden: int = 128
    discount: float = 0.95
    learning_rate: float = 1e-3
    noise: float = 0.3
    memory: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.updates, self.batch, self.starts, self.horizon, self.memory) < 1 or not 0 <= self.discount < 1:
            raise ConfigurationError("Q-learning needs positive counts, and a discount below 1")


def policy_features(layout: Layout, rows: Tensor) -> Tensor:
    """What policy and Q-networks see of rows (B, D): each object from the gripper, and where the gripper is."""
    still = rows.new_zeros((len(rows), len(ACTIONS)))
    own = dynamics.inputs_of(dynamics.frame_of(rows, still), still).flatten(1)
    yaw = rows[:, layout.columns["gripper_yaw"]]
    return torch.cat([own, rows[:, :3] / 0.1, (2 * yaw).sin()[:, None], (2 * yaw).cos()[:, None]], dim=1)


class QAgent(nn.Module):
    """Policy and twin Q-networks over the symbols of a layout."""

    def __init__(self, layout: Layout, hidden: int, seed: int) -> None:
        super().__init__()
        self.layout = layout
        inputs = len(layout.objects) * dynamics.INPUTS + 5
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy = _network(inputs, hidden, len(ACTIONS))
            self.critics = nn.ModuleList(_network(inputs + len(ACTIONS), hidden, 1) for _ in range(2))

    def act(self, rows: Tensor) -> Tensor:
        """Actions (B, 5) in the policy's frame of the workspace."""
        return self.to_workspace(rows, torch.tanh(self.policy(policy_features(self.layout, rows))))

    def to_workspace(self, rows: Tensor, actions: Tensor) -> Tensor:
        """Actions (B, 5) whose first two are along and across the gripper, turned to x and y."""
        yaw = rows[:, self.layout.columns["gripper_yaw"]]
        cos, sin = yaw.cos(), yaw.sin()
        x, y = cos * actions[:, 0] - sin * actions[:, 1], sin * actions[:, 0] + cos * actions[:, 1]
        return torch.cat([torch.stack([x, y], dim=1).clamp(-1, 1), actions[:, 2:]], dim=1)

    def values(self, rows: Tensor, actions: Tensor) -> Tensor:
        """Both Q-values (2, B)."""
        yaw = rows[:, self.layout.columns["gripper_yaw"]]
        cos, sin = yaw.cos(), yaw.sin()
        own = torch.stack([cos * actions[:, 0] + sin * actions[:, 1], cos * actions[:, 1] - sin * actions[:, 0]], dim=1)
        seen = torch.cat([policy_features(self.layout, rows), own, actions[:, 2:]], dim=1)
        return torch.stack([critic(seen)[:, 0] for critic in self.critics])


def td_targets(rewards: Tensor, terminated: Tensor, next_values: Tensor, discount: float) -> Tensor:
    """Targets (B,) of a Q-network: each transition's own ``terminated`` (B,) cuts off what comes after it.

    A transition after which an episode was merely cut off is not terminated: its value goes on.
    """
    return rewards + discount * torch.where(terminated, 0.0, next_values)


class QLearner:
    """Networks, their optimisers, and a memory of transitions."""

    def __init__(self, layout: Layout, config: QConfig, device: torch.device) -> None:
        self.layout, self.config = layout, config
        self.agent = QAgent(layout, config.hidden, config.seed).to(device)
        self._target = QAgent(layout, config.hidden, config.seed).to(device)
        self._policy_optimiser = torch.optim.Adam(self.agent.policy.parameters(), config.learning_rate)
        self._critic_optimiser = torch.optim.Adam(self.agent.critics.parameters(), config.learning_rate)
        self.draw = torch.Generator(device=device).manual_seed(config.seed)
        self.memory = torch.zeros(config.memory, 2 * layout.size + len(ACTIONS) + 2, device=device)
        self._filled = self._at = 0

    @torch.no_grad()
    def explore(self, rows: Tensor) -> Tensor:
        """Actions (B, 5) of the policy for rows (B, D), with noise."""
        noise = torch.randn((len(rows), len(ACTIONS)), generator=self.draw, device=rows.device)
        return (self.agent.act(rows) + self.config.noise * noise).clamp(-1, 1)

    def remember(self, before: Tensor, actions: Tensor, rewards: Tensor, ended: Tensor, after: Tensor) -> None:
        """Keep transitions: rows (B, D), actions (B, 5), rewards (B,), whether they ended (B,), rows (B, D)."""
        made = torch.cat([before, actions, rewards[:, None], ended[:, None].to(before.dtype), after], dim=1)
        place = (self._at + torch.arange(len(made), device=made.device)) % self.config.memory
        self.memory[place] = made
        self._at = (self._at + len(made)) % self.config.memory
        self._filled = min(self._filled + len(made), self.config.memory)

    def update(self, number: int) -> float:
        """One gradient step of the Q-networks, and every second time one of the policy; returns the loss."""
        c, wide = self.config, self.layout.size
        index = torch.randint(self._filled, (c.batch,), generator=self.draw, device=self.memory.device)
        parts = torch.split(self.memory[index], [wide, len(ACTIONS), 1, 1, wide], dim=1)
        before, actions, rewards, ended, after = parts
        with torch.no_grad():
            noise = torch.randn(actions.shape, generator=self.draw, device=actions.device).clamp(-2, 2)
            later = (self._target.act(after) + 0.5 * c.noise * noise).clamp(-1, 1)
            value = self._target.values(after, later).amin(dim=0)
            goal = td_targets(rewards[:, 0], ended[:, 0] > 0.5, value, c.discount)
        loss = (self.agent.values(before, actions) - goal).square().mean()
        if not bool(torch.isfinite(loss)):
            raise InputError("the loss of the Q-network is not finite", "Check the task's scales, or lower the rate")
        self._critic_optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._critic_optimiser.step()
        if number % 2:
            gain = -self.agent.values(before, self.agent.act(before))[0].mean()
            self._policy_optimiser.zero_grad(set_to_none=True)
            gain.backward()  # type: ignore[no-untyped-call]
            self._policy_optimiser.step()
            with torch.no_grad():
                for mine, slow in zip(self.agent.parameters(), self._target.parameters(), strict=True):
                    slow.lerp_(mine, 0.01)
        return float(loss.detach())


class QPolicy:
    """An agent that acts in the workspace; implements :class:`keygrasp.worldmodel.rollouts.Policy`."""

    def __init__(self, agent: QAgent) -> None:
        self._agent = agent

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""

    @torch.no_grad()
    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        device = next(self._agent.parameters()).device
        action: Array = self._agent.act(row[None].to(device))[0].cpu().double().numpy()
        return action


def _network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.LayerNorm(hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )
