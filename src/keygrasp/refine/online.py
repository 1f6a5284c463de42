"""The refiner's Q-network trained online in the refinement environment, with the shaping term as an option.

Labels (:mod:`keygrasp.refine.training`) need no shaping: inside one image the return of every move is known up to the
bootstrap, and in values the term cancels. Online, the only reward is the outcome of the execution at an episode's
end, and shaping decides how soon moves that lead there are found. Double Q-learning with n-step returns; the
network's outputs are Q′ = Q − Φ, so moves are compared as without shaping.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.objects import split
from keygrasp.protocol import Scene, SceneSpec, build_scene
from keygrasp.refine.actions import ACTIONS
from keygrasp.refine.environment import RefinementEnv
from keygrasp.refine.network import NetworkConfig, QNetwork
from keygrasp.refine.state import GraspFeatures
from keygrasp.scene import GripperSpec, SymbolicState, Task
from keygrasp.shaping import Potential, RulePotential, ShapingTerm, ZeroPotential
from keygrasp.shaping.campaign import ADVERSARIAL_SCALE
from keygrasp.shaping.learned import LearnedConfig, LearnedPotential
from keygrasp.shaping.learning import LearningCurve
from keygrasp.shaping.wrapper import ShapedReward

Shaping = Literal["none", "rules", "llm", "learned", "adversarial"]


@dataclass(frozen=True)
class OnlineConfig:
    """Everything that an online run depends on.

    Attributes:
        shaping: Potential of the shaping term; ``adversarial`` is the rules' progress turned round at 20 times the
            reward, to test what must not be lost.
        scale: Factor of the shaping term.
        objects: Training objects whose scenes are drawn from.
        episodes: Episodes.
        max_steps: Moves after which an episode is cut off.
        start_distance: Metres from the object's middle at which grasps begin, least and most.
        start_turn: Largest angle in radians off the object's shorter side at which they begin.
        gamma: Discount a move; the shaping term's as well.
        n_step: Length of the returns in moves.
        batch: Transitions a gradient step.
        capacity: Transitions that are remembered.
        learning_rate: Adam's.
        target_rate: Share of the online network that flows into the target network a gradient step.
        update_every: Moves between gradient steps.
        explore_episodes: Episodes over which random actions fall from all to ``explore_end``.
        explore_end: Share of random actions from then on.
        seed: Seed of objects' order, weights, batches and exploration.
        network: Sizes of the network.
    """

    shaping: Shaping = "none"
    scale: float = 1.0
    objects: int = 2
    episodes: int = 1000
    max_steps: int = 8
    start_distance: tuple[float, float] = (0.0, 0.03)
    start_turn: float = 0.4
    gamma: float = 0.95
    n_step: int = 3
    batch: int = 32
    capacity: int = 5000
    learning_rate: float = 2e-3
    target_rate: float = 0.02
    update_every: int = 1
    explore_episodes: int = 300
    explore_end: float = 0.05
    seed: int = 0
    network: NetworkConfig = field(
        default_factory=lambda: NetworkConfig(keypoint_hidden=16, channels=(8, 8), hidden=64)
    )

    def __post_init__(self) -> None:
        counts = (self.objects, self.episodes, self.max_steps, self.n_step, self.batch, self.capacity)
        if min(*counts, self.update_every, self.explore_episodes) < 1:
            raise ConfigurationError("online training: all counts must be at least 1")
        if not (0 < self.gamma <= 1 and 0 < self.target_rate <= 1 and 0 <= self.explore_end <= 1):
            raise ConfigurationError("online training: gamma, target_rate and explore_end are shares")


@dataclass(frozen=True, eq=False)
class OnlineReport:
    """What an online run did.

    Attributes:
        success: (episodes,) bool, whether the execution succeeded.
        length: (episodes,) moves.
        reward_terms: Mean of each named term of the reward an episode; ``shaping`` is already times its scale.
    """

    success: Array
    length: Array
    reward_terms: dict[str, float]


def make_potential(name: str, seed: int = 0) -> Potential:
    """The potential of a shaping option.

    Raises:
        ConfigurationError: If the name is unknown.
    """
    if name == "none":
        return ZeroPotential()
    if name == "rules":
        return RulePotential()
    if name == "learned":
        return LearnedPotential(LearnedConfig(seed=seed))
    if name == "adversarial":
        return _Adversarial()
    if name == "llm":
        from keygrasp.shaping.llm import language_model_potential

        return language_model_potential()
    raise ConfigurationError(f"unknown shaping '{name}'", "Known: none, rules, llm, learned, adversarial")


class _Adversarial(RulePotential):
    """Points away from success, at a multiple of the reward."""

    name, low, high = "adversarial", -float(ADVERSARIAL_SCALE), 0.0

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        return -ADVERSARIAL_SCALE * super().evaluate(states, goal)


def n_step_transitions(rewards: Sequence[float], gamma: float, n_step: int) -> list[tuple[float, int, int]]:
    """For each step of one episode: its n-step return, the step whose end it bootstraps from, and its length.

    Episodes come one by one, so no return can cross an end.
    """
    found = []
    for begin in range(len(rewards)):
        end = min(begin + n_step, len(rewards))
        total = sum(gamma**k * reward for k, reward in enumerate(rewards[begin:end]))
        found.append((total, end - 1, end - begin))
    return found


class OnlineTrainer:
    """Owns environment, networks and replay of one run; close it after use.

    Args:
        config: All settings.
        make_scene: Builds the scene of a number; of training objects by default.
    """

    def __init__(self, config: OnlineConfig, make_scene: Callable[[int], Scene] | None = None) -> None:
        self.config = config
        torch.manual_seed(config.seed)
        self.rng = np.random.default_rng(config.seed)
        self.potential = make_potential(config.shaping, config.seed)
        term = ShapingTerm(self.potential, config.gamma, scale=config.scale)
        plain = RefinementEnv(make_scene or _training_scene, config.max_steps, kept=config.objects)
        self.env = ShapedReward(plain, term, goal=Task())
        self.online = QNetwork(config.network)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimiser = torch.optim.Adam(self.online.parameters(), config.learning_rate)
        self.replay = _Replay(config.capacity)
        self.seen: dict[int, SymbolicState] = {}
        self.moves = 0

    def close(self) -> None:
        """Free the physics worlds."""
        self.env.close()

    def run(self, on_episode: Callable[[int], None] | None = None) -> OnlineReport:
        """Train for all episodes."""
        success, length = np.zeros(self.config.episodes, dtype=bool), np.zeros(self.config.episodes)
        terms = {"task": 0.0, "shaping": 0.0}
        for episode in range(self.config.episodes):
            rewards = self._episode(self._exploration(episode))
            success[episode] = rewards["task"][-1] > 0
            length[episode] = len(rewards["task"])
            for name, values in rewards.items():
                terms[name] += sum(values) / self.config.episodes
            if on_episode is not None:
                on_episode(episode + 1)
        return OnlineReport(success, length, terms)

    def _episode(self, exploration: float) -> dict[str, list[float]]:
        """One episode into the replay; its rewards by term."""
        observation, info = self._begin()
        seen, rows, actions = [observation], [info["symbols"]], []
        terms: dict[str, list[float]] = {"task": [], "shaping": []}
        terminated = truncated = False
        while not (terminated or truncated):
            action = self._act(observation, exploration)
            observation, _, terminated, truncated, info = self.env.step(action)
            seen.append(observation)
            rows.append(info["symbols"])
            actions.append(int(action))
            for name, value in info["reward_terms"].items():
                terms[name].append(value)
            self.moves += 1
            if self.moves % self.config.update_every == 0 and len(self.replay) >= self.config.batch:
                self._update()
        shaped = np.add(terms["task"], terms["shaping"]).tolist()
        for t, (total, last, steps) in enumerate(n_step_transitions(shaped, self.config.gamma, self.config.n_step)):
            ended = terminated and last == len(actions) - 1
            discount = 0.0 if ended else self.config.gamma**steps
            self.replay.add(seen[t], actions[t], total, seen[last + 1], discount)
        if isinstance(self.potential, LearnedPotential):
            left = np.arange(len(actions) - 1, -1, -1)
            outcome = terms["task"][-1] * np.power(self.config.gamma, left)
            self.potential.learn(np.stack(rows[:-1]), outcome, steps=2)
        return terms

    def _begin(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Begin beside an object, turned and a little too high."""
        number = int(self.rng.integers(self.config.objects))
        if number not in self.seen:
            _, info = self.env.reset(options={"scene": number})
            self.seen[number] = SymbolicState.from_row(info["symbols"])
        seen = self.seen[number]
        side, distance = self.rng.uniform(-np.pi, np.pi), self.rng.uniform(*self.config.start_distance)
        start = (
            seen.object_x + distance * np.cos(side),
            seen.object_y + distance * np.sin(side),
            max(seen.object_height - 0.01 + self.rng.uniform(0, 0.02), 0.002),
            seen.object_yaw + np.pi / 2 + self.rng.uniform(-self.config.start_turn, self.config.start_turn),
            GripperSpec().max_opening,
        )
        return self.env.reset(options={"start": start, "scene": number})

    def _act(self, observation: dict[str, Array], exploration: float) -> np.int64:
        if self.rng.random() < exploration:
            return np.int64(self.rng.integers(ACTIONS))
        with torch.inference_mode():
            return np.int64(int(self.online(_features([observation])).argmax()))

    def _update(self) -> None:
        before, actions, returns, after, discounts = self.replay.draw(self.config.batch, self.rng)
        with torch.no_grad():
            choice = self.online(after).argmax(dim=1, keepdim=True)
            goal = returns + discounts * self.target(after).gather(1, choice)[:, 0]
        value = self.online(before).gather(1, actions[:, None])[:, 0]
        loss = functional.smooth_l1_loss(value, goal)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.online.parameters(), 5.0)
        self.optimiser.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
                slow.lerp_(fast, self.config.target_rate)

    def _exploration(self, episode: int) -> float:
        share = max(0.0, 1 - episode / self.config.explore_episodes)
        return self.config.explore_end + (1 - self.config.explore_end) * share


class _Replay:
    """A bounded memory of transitions; the oldest go first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: list[tuple[dict[str, Array], int, float, dict[str, Array], float]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(
        self, before: dict[str, Array], action: int, total: float, after: dict[str, Array], discount: float
    ) -> None:
        entry = before, action, total, after, discount
        if len(self._kept) < self._capacity:
            self._kept.append(entry)
        else:
            self._kept[self._next] = entry
        self._next = (self._next + 1) % self._capacity

    def draw(self, count: int, rng: np.random.Generator) -> tuple[GraspFeatures, Tensor, Tensor, GraspFeatures, Tensor]:
        chosen = [self._kept[i] for i in rng.integers(len(self._kept), size=count)]
        before, actions, totals, after, discounts = zip(*chosen, strict=True)
        return (
            _features(before),
            torch.tensor(actions),
            torch.tensor(totals, dtype=torch.float32),
            _features(after),
            torch.tensor(discounts, dtype=torch.float32),
        )


def _features(observations: Sequence[dict[str, Array]]) -> GraspFeatures:
    stacked = {name: torch.from_numpy(np.stack([o[name] for o in observations])) for name in observations[0]}
    return GraspFeatures(stacked["heights"], stacked["keypoints"], stacked["mask"].bool(), stacked["scalars"])


def _training_scene(number: int) -> Scene:
    names = split("train")
    return build_scene(SceneSpec(names[(7 * number) % len(names)], "A", number))


def compare_potentials(
    names: Sequence[str],
    config: OnlineConfig,
    seeds: int,
    *,
    workers: int = 0,
    on_run: Callable[[int, int], None] | None = None,
) -> list[LearningCurve]:
    """Learning curves of the refiner with each potential, several seeds each, one run a process.

    ``worth`` is empty and ``to_enough`` infinite: V* is not known here. Regret is against success at once.
    """
    runs = [
        dataclasses.replace(config, shaping=name, seed=config.seed + seed)  # type: ignore[arg-type]
        for name in names
        for seed in range(seeds)
    ]
    reports = []
    with ProcessPoolExecutor(workers or None, mp_context=get_context("spawn")) as pool:
        for report in pool.map(run_online, runs):
            reports.append(report)
            if on_run is not None:
                on_run(len(reports), len(runs))
    curves = []
    for index, name in enumerate(names):
        part = reports[index * seeds : (index + 1) * seeds]
        success = np.stack([report.success for report in part]).astype(bool)
        discounted = np.stack([config.gamma ** (report.length - 1) for report in part]) * success
        curves.append(
            LearningCurve(
                name,
                success,
                np.zeros((seeds, 0)),
                np.where(success.any(axis=1), success.argmax(axis=1) + 1.0, np.inf),
                np.full(seeds, np.inf),
                (1 - discounted).sum(axis=1),
                {key: float(np.mean([r.reward_terms[key] for r in part])) for key in part[0].reward_terms},
            )
        )
    return curves


def run_online(config: OnlineConfig, on_episode: Callable[[int], None] | None = None) -> OnlineReport:
    """One run, on one thread; ``on_episode`` is told how many episodes are done."""
    torch.set_num_threads(1)
    trainer = OnlineTrainer(config)
    try:
        return trainer.run(on_episode)
    finally:
        trainer.close()
