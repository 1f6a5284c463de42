"""How much of a PPO iteration credit assignment takes, with a loop over time and with keygrasp.credit.

python benchmarks/credit_ppo.py --json benchmarks/results/credit-ppo.json      (4,096 environments on a GPU)
python benchmarks/credit_ppo.py --environments 64 --iterations 2               (small, on the CPU)

One file, in CleanRL's style. The environments are point masses that have to reach the origin, stepped as tensors on the
device: an episode terminates when the point is close and is cut after a number of steps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from keygrasp.credit import gae
from keygrasp.files import write_json
from keygrasp.provenance import provenance

GAMMA, LAM, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5
EPOCHS, MINIBATCHES, LIMIT = 4, 4, 200
#: Rollout of one iteration, each [T, N, ...].
Rollout = dict[str, Tensor]


class PointMasses:
    """N points in the plane with velocity; the action is one of five accelerations."""

    def __init__(self, count: int, device: str) -> None:
        self.pushes = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], device=device)
        self.state = torch.zeros(count, 4, device=device)
        self.age = torch.zeros(count, dtype=torch.int64, device=device)
        self.reset(torch.ones(count, dtype=torch.bool, device=device))

    def reset(self, which: Tensor) -> None:
        """Start the chosen episodes anew."""
        self.state = torch.where(which.unsqueeze(1), 2 * torch.rand_like(self.state) - 1, self.state)
        self.age = torch.where(which, 0, self.age)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Reward, terminated, truncated and the state before any reset."""
        position, velocity = self.state[:, :2], self.state[:, 2:]
        velocity = 0.95 * velocity + 0.05 * self.pushes[action]
        position = position + 0.1 * velocity
        self.state, self.age = torch.cat((position, velocity), 1), self.age + 1
        distance = position.norm(dim=1)
        terminated = distance < 0.1
        truncated = self.age >= LIMIT
        reached = self.state
        self.reset(terminated | truncated)
        return terminated.float() - 0.01 * distance, terminated, truncated, reached


class Agent(nn.Module):
    """Policy and value function, two hidden layers each."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def value(self, states: Tensor) -> Tensor:
        """V of each state."""
        found: Tensor = self.critic(states).squeeze(-1)
        return found


def collect(agent: Agent, environments: PointMasses, steps: int) -> Rollout:
    """One rollout, with the value of the state in which an episode was cut."""
    rows: dict[str, list[Tensor]] = {}
    for _ in range(steps):
        state = environments.state
        policy = torch.distributions.Categorical(logits=agent.actor(state))
        action = policy.sample()
        reward, terminated, truncated, reached = environments.step(action)
        row = {"states": state, "actions": action, "log_probs": policy.log_prob(action), "values": agent.value(state)}
        row |= {"rewards": reward, "terminated": terminated, "truncated": truncated, "cut": agent.value(reached)}
        for name, tensor in row.items():
            rows.setdefault(name, []).append(tensor)
    rollout = {name: torch.stack(tensors) for name, tensors in rows.items()}
    rollout["last"] = agent.value(environments.state)
    return rollout


def credit_by_loop(rollout: Rollout) -> tuple[Tensor, Tensor]:
    """GAE as training scripts write it, with time-outs told apart."""
    rewards, values = rollout["rewards"], rollout["values"]
    advantages = torch.zeros_like(rewards)
    carry = torch.zeros_like(rollout["last"])
    for t in reversed(range(rewards.shape[0])):
        following = rollout["last"] if t == rewards.shape[0] - 1 else values[t + 1]
        following = torch.where(rollout["truncated"][t], rollout["cut"][t], following)
        following = torch.where(rollout["terminated"][t], 0.0, following)
        done = rollout["terminated"][t] | rollout["truncated"][t]
        delta = rewards[t] + GAMMA * following - values[t]
        advantages[t] = carry = delta + torch.where(done, 0.0, GAMMA * LAM * carry)
    return advantages, advantages + values


def credit_by_keygrasp(rollout: Rollout) -> tuple[Tensor, Tensor]:
    """The same in one call."""
    found = gae(
        rollout["rewards"], rollout["values"], rollout["terminated"], rollout["truncated"], gamma=GAMMA, lam=LAM,
        last_value=rollout["last"], truncated_values=rollout["cut"],
    )  # fmt: skip
    if found.returns is None:
        raise RuntimeError("returns were asked for")
    return found.advantages, found.returns


def update(
    agent: Agent, optimiser: torch.optim.Optimizer, rollout: Rollout, advantages: Tensor, returns: Tensor
) -> None:
    """PPO's epochs over shuffled minibatches."""
    flat = {name: rollout[name].flatten(0, 1) for name in ("states", "actions", "log_probs")}
    advantages, returns = advantages.flatten(), returns.flatten()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(returns), device=returns.device).chunk(MINIBATCHES):
            policy = torch.distributions.Categorical(logits=agent.actor(flat["states"][batch]))
            ratio = (policy.log_prob(flat["actions"][batch]) - flat["log_probs"][batch]).exp()
            gain = torch.minimum(ratio * advantages[batch], ratio.clamp(1 - CLIP, 1 + CLIP) * advantages[batch])
            miss = (agent.value(flat["states"][batch]) - returns[batch]).square()
            loss = -gain.mean() + VALUE * miss.mean() - ENTROPY * policy.entropy().mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()


def train(arguments: argparse.Namespace, credit: Callable[[Rollout], tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Seconds an iteration and of each of its parts, after one iteration to warm up."""
    device = arguments.device
    torch.manual_seed(arguments.seed)
    agent = Agent().to(device)
    optimiser = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    environments = PointMasses(arguments.environments, device)
    spent = {"rollout": 0.0, "credit": 0.0, "update": 0.0}
    reward = 0.0
    for iteration in range(1 + arguments.iterations):
        if iteration == 1:
            spent = dict.fromkeys(spent, 0.0)
        marks = [now(device)]
        with torch.no_grad():
            rollout = collect(agent, environments, arguments.steps)
            marks.append(now(device))
            advantages, returns = credit(rollout)
            marks.append(now(device))
        update(agent, optimiser, rollout, advantages, returns)
        marks.append(now(device))
        for name, begin, end in zip(spent, marks, marks[1:], strict=False):
            spent[name] += (end - begin) / arguments.iterations
        reward = float(rollout["rewards"].mean())
    total = sum(spent.values())
    return {**spent, "iteration": total, "share": spent["credit"] / total, "mean_reward": reward}


def now(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    ways: dict[str, Any] = {"loop over time": credit_by_loop, "keygrasp.credit": credit_by_keygrasp}
    results = {name: train(arguments, credit) for name, credit in ways.items()}
    print(f"{'':16}{'rollout':>10}{'credit':>10}{'update':>10}{'share':>8}{'reward':>9}   (ms an iteration)")
    for name, found in results.items():
        times = "".join(f"{1e3 * found[part]:>10.2f}" for part in ("rollout", "credit", "update"))
        print(f"{name:16}{times}{found['share']:>8.2%}{found['mean_reward']:>9.4f}")
    if arguments.json:
        setting = {"environments": arguments.environments, "steps": arguments.steps, "device": arguments.device}
        write_json(arguments.json, {"results": results, **setting, "provenance": provenance(arguments.seed)})


if __name__ == "__main__":
    main()
