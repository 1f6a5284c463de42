"""The refiner's Q-network trained online in the refinement environment, with the shaping term as an option.

Labels (:mod:`keygrasp.refine.training`) need no shaping: inside one image the return of every move is known up to the
bootstrap, and in values the term cancels. Online, the only reward is the outcome of the execution at an episode's
end, and shaping decides how soon moves that lead there are found. Double Q-learning with n-step returns; the
network's outputs are Q′ = Q − Φ, so moves are compared as without shaping.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.perception import Perceived, perceive
from keygrasp.protocol import Scene, SceneSpec, build_scene
from keygrasp.refine.actions import ACTIONS, EXECUTE
from keygrasp.refine.judges import Judge, ModelJudge, PhysicsJudge
from keygrasp.refine.network import NetworkConfig, QNetwork, default_weights
from keygrasp.refine.replay import Episode, Replay, Transitions
from keygrasp.refine.state import GraspFeatures
from keygrasp.refine.values import Weights
from keygrasp.refine.vector_environment import RefinementVectorEnv, Starts
from keygrasp.scene import GripperSpec, Task
from keygrasp.shaping import ShapingTerm
from keygrasp.shaping.guard import Guard
from keygrasp.shaping.learned import LearnedPotential
from keygrasp.shaping.options import make_potential
from keygrasp.shaping.wrapper import ShapedVectorReward

Shaping = Literal["none", "rules", "llm", "learned", "adversarial"]


@dataclass(frozen=True)
class OnlineConfig:
    """Everything that an online run depends on.

    Attributes:
        shaping: Potential of the shaping term; ``adversarial`` is the rules' progress turned round at 20 times the
            reward, to test what must not be lost.
        scale: Factor of the shaping term.
        guard: Whether a second network learns the same transitions without shaping, and acts where it does better.
        objects: Training objects of which one scene each is made.
        outcome: Who decides about executions: the shipped network as a model of physics (thousands a second), or
            physics (0.1 s each).
        episodes: Episodes.
        parallel: Episodes side by side.
        max_steps: Steps of an episode; the last one executes.
        starts: Where episodes begin.
        gamma: Discount a move; the shaping term's as well.
        n_step: Length of the returns in moves.
        batch: Transitions a gradient step.
        updates: Gradient steps each time all episodes have moved.
        capacity: Transitions that are remembered.
        learning_rate: Adam's.
        target_rate: Share of the online network that flows into the target network a gradient step.
        explore: Share of random actions at first.
        explore_episodes: Episodes over which it falls to ``explore_end``.
        explore_end: Share of random actions from then on.
        seed: Seed of weights, starts, batches and exploration.
        network: Sizes of the network.
    """

    shaping: Shaping = "none"
    scale: float = 1.0
    guard: bool = False
    objects: tuple[str, ...] = ("068", "132")
    outcome: Literal["model", "physics"] = "model"
    episodes: int = 800
    parallel: int = 32
    max_steps: int = 10
    starts: Starts = field(default_factory=Starts)
    gamma: float = 0.95
    n_step: int = 10
    batch: int = 32
    updates: int = 2
    capacity: int = 20_000
    learning_rate: float = 2e-3
    target_rate: float = 0.03
    explore: float = 0.3
    explore_episodes: int = 300
    explore_end: float = 0.05
    seed: int = 0
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(keypoint_hidden=8, channels=(4, 8), hidden=64))

    def __post_init__(self) -> None:
        counts = (self.episodes, self.parallel, self.max_steps, self.n_step, self.batch, self.updates, self.capacity)
        if min(*counts, self.explore_episodes, len(self.objects)) < 1:
            raise ConfigurationError("online training: all counts must be at least 1")
        shares = (self.gamma, self.target_rate, self.explore, self.explore_end)
        if not (all(0 <= share <= 1 for share in shares) and self.gamma > 0 and self.learning_rate > 0):
            raise ConfigurationError("online training: gamma, target_rate and the explorations are shares")


@dataclass(frozen=True, eq=False)
class OnlineReport:
    """What an online run did.

    Attributes:
        success: (episodes,) bool, whether the execution succeeded; in the order in which episodes began.
        length: (episodes,) moves.
        guarded: (episodes,) bool, whether the guard's network acted.
        reward_terms: Mean of each named term of the reward an episode; ``shaping`` is already times its scale.
    """

    success: NDArray[np.bool_]
    length: NDArray[np.int64]
    guarded: NDArray[np.bool_]
    reward_terms: dict[str, float]


class Learner:
    """A Q-network that learns from transitions, with or without their shaping terms.

    All outputs are 0 at first, so that Q = Φ where rewards are shaped (Wiewiora, JAIR 2003), and ties are broken at
    random.
    """

    def __init__(self, config: OnlineConfig, *, shaped: bool) -> None:
        self._config, self._shaped = config, shaped
        self.online = QNetwork(config.network)
        for head in (self.online.value, self.online.advantage):
            torch.nn.init.zeros_(head.weight)
            torch.nn.init.zeros_(head.bias)
        self._target = copy.deepcopy(self.online).requires_grad_(False)
        self._optimiser = torch.optim.Adam(self.online.parameters(), config.learning_rate)

    @torch.no_grad()
    def values(self, features: GraspFeatures) -> Array:
        """Action values (B, ACTIONS)."""
        return np.asarray(self.online(features).double().numpy())

    def update(self, drawn: Transitions, before: GraspFeatures, after: GraspFeatures) -> None:
        """One gradient step on drawn transitions."""
        rewards = torch.from_numpy(drawn.reward + drawn.shaping if self._shaped else drawn.reward)
        with torch.no_grad():
            choice = self.online(after).argmax(dim=1, keepdim=True)
            goal = rewards + torch.from_numpy(drawn.discount) * self._target(after).gather(1, choice)[:, 0]
        value = self.online(before).gather(1, torch.from_numpy(drawn.action)[:, None])[:, 0]
        loss = functional.smooth_l1_loss(value, goal)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.online.parameters(), 5.0)
        self._optimiser.step()
        with torch.no_grad():
            for slow, fast in zip(self._target.parameters(), self.online.parameters(), strict=True):
                slow.lerp_(fast, self._config.target_rate)


class OnlineTrainer:
    """Owns scenes, environment, learners and replay of one run; close it after use.

    Args:
        config: All settings.
        make_scene: Builds the scene of an object's name.
        judge: Decides about executions, instead of whom the settings name.
    """

    def __init__(
        self, config: OnlineConfig, make_scene: Callable[[str], Scene] | None = None, judge: Judge | None = None
    ) -> None:
        self.config = config
        torch.manual_seed(config.seed)
        self.rng = np.random.default_rng(config.seed)
        self.potential = make_potential(config.shaping, config.seed)
        self.scenes = [(make_scene or _training_scene)(name) for name in config.objects]
        self.perceived = [perceive(scene.view) for scene in self.scenes]
        if judge is None:
            physics = config.outcome == "physics"
            judge = PhysicsJudge(self.scenes) if physics else _model_judge(self.perceived)
        self.plain = RefinementVectorEnv(
            self.perceived, judge, config.parallel, starts=config.starts, max_steps=config.max_steps
        )
        term = ShapingTerm(self.potential, config.gamma, scale=config.scale, count=config.parallel)
        self.env = ShapedVectorReward(self.plain, term, goal=Task())
        self.learners = [Learner(config, shaped=True)]
        if config.guard:
            self.learners.append(Learner(config, shaped=False))
        self.guard = Guard(len(self.learners))
        self.replay = Replay(config.capacity)

    def close(self) -> None:
        """Free the physics worlds."""
        for scene in self.scenes:
            scene.close()

    def run(self, on_episode: Callable[[int], None] | None = None) -> OnlineReport:
        """Train for all episodes."""
        count, parallel = self.config.episodes, self.config.parallel
        success, length, arms = (np.zeros(count, dtype=np.int64) for _ in range(3))
        terms = {"task": 0.0, "shaping": 0.0}
        observation, infos = self.env.reset(seed=self.config.seed)
        running = [_Running(k, self.guard.choose(self.rng)) for k in range(parallel)]
        begun, ended = parallel, 0
        while ended < count:
            actions = self._act(observation, running)
            scenes, grasps, rows = infos["scene"], infos["grasp"], infos["symbols"]
            observation, _, terminated, truncated, infos = self.env.step(actions)
            for k, episode in enumerate(running):
                added = {name: float(values[k]) for name, values in infos["reward_terms"].items()}
                episode.note(grasps[k], rows[k], int(actions[k]), added)
            ends = np.asarray(terminated | truncated)
            for k in np.flatnonzero(ends).tolist():
                done = running[k]
                held = done.terms["task"][-1] > 0
                self._learn_from(done, int(scenes[k]), infos["grasp"][k], bool(terminated[k]))
                self.guard.note(done.arm, self.config.gamma ** (len(done.actions) - 1) * held)
                if done.number < count:
                    success[done.number], length[done.number], arms[done.number] = held, len(done.actions), done.arm
                    for name, values in done.terms.items():
                        terms[name] += sum(values) / count
                    ended += 1
                running[k] = _Running(begun, self.guard.choose(self.rng))
                begun += 1
            if ends.any():
                observation, infos = self.env.reset(options={"reset_mask": ends})
                if on_episode is not None:
                    on_episode(ended)
            self._update()
        return OnlineReport(success.astype(bool), length, arms.astype(bool), terms)

    def policy(self, features: GraspFeatures) -> NDArray[np.int64]:
        """Greedy actions (B,) of the learner that does best."""
        return np.asarray(self.learners[self.guard.best].values(features).argmax(axis=1))

    def _act(self, observation: dict[str, Array], running: list[_Running]) -> NDArray[np.int64]:
        features = _features(observation)
        values = np.stack([learner.values(features) for learner in self.learners])
        chosen = values[[episode.arm for episode in running], np.arange(len(running))]
        tied = chosen >= chosen.max(axis=1, keepdims=True)
        greedy = np.where(tied, self.rng.random(tied.shape), -1.0).argmax(axis=1)
        explored = self.rng.random(len(running)) < [self._exploration(episode.number) for episode in running]
        chosen_or_random = np.where(explored, self.rng.integers(ACTIONS, size=len(running)), greedy)
        # Nothing is learned from an episode without an outcome: the grasp is executed where the moves end.
        last = [len(episode.actions) + 1 == self.config.max_steps for episode in running]
        return np.where(last, EXECUTE, chosen_or_random)

    def _learn_from(self, done: _Running, scene: int, last: NDArray[np.float32], terminated: bool) -> None:
        episode = Episode(
            scene,
            np.stack([*done.grasps, last]),
            np.array(done.actions),
            np.array(done.terms["task"]),
            np.array(done.terms["shaping"]),
            terminated,
        )
        self.replay.add(episode.transitions(self.config.gamma, self.config.n_step))
        if isinstance(self.potential, LearnedPotential):
            left = np.arange(len(done.actions) - 1, -1, -1)
            outcome = np.asarray(done.terms["task"][-1] * self.config.gamma**left, dtype=float)
            self.potential.learn(np.stack(done.rows), outcome, steps=2)

    def _update(self) -> None:
        count = self.config.batch
        if len(self.replay) < count:
            return
        for _ in range(self.config.updates):
            drawn = self.replay.draw(count, self.rng)
            before = self.plain.features(drawn.scene, drawn.before)
            after = self.plain.features(drawn.scene, drawn.after)
            for learner in self.learners:
                learner.update(drawn, before, after)

    def _exploration(self, episode: int) -> float:
        share = max(0.0, 1 - episode / self.config.explore_episodes)
        return self.config.explore_end + (self.config.explore - self.config.explore_end) * share


class _Running:
    """An episode that goes on: its number, who acts, and what has happened."""

    def __init__(self, number: int, arm: int) -> None:
        self.number, self.arm = number, arm
        self.grasps: list[NDArray[np.float32]] = []
        self.rows: list[Array] = []
        self.actions: list[int] = []
        self.terms: dict[str, list[float]] = {"task": [], "shaping": []}

    def note(self, grasp: NDArray[np.float32], row: Array, action: int, terms: dict[str, float]) -> None:
        self.grasps.append(grasp)
        self.rows.append(row)
        self.actions.append(action)
        for name, value in terms.items():
            self.terms[name].append(value)


def _features(observation: dict[str, Any]) -> GraspFeatures:
    tensors = {name: torch.from_numpy(values) for name, values in observation.items()}
    return GraspFeatures(tensors["heights"], tensors["keypoints"], tensors["mask"].bool(), tensors["scalars"])


def _training_scene(name: str) -> Scene:
    return build_scene(SceneSpec(name, "A", 0))


def _model_judge(perceived: list[Perceived]) -> ModelJudge:
    return ModelJudge(Weights.load(default_weights()), perceived, GripperSpec())


def run_online(config: OnlineConfig, on_episode: Callable[[int], None] | None = None) -> OnlineReport:
    """One run, on one thread; ``on_episode`` is told how many episodes are done."""
    torch.set_num_threads(1)
    trainer = OnlineTrainer(config)
    try:
        return trainer.run(on_episode)
    finally:
        trainer.close()
