"""Learning speed with different potentials: tabular Q-learning on the symbolic grasp MDP, many seeds in lockstep.

Preserved optima say nothing about speed. Measured per potential and seed: episodes to the first success, episodes
until the greedy policy is worth 95% of V*, regret, and the success at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.scene.tasks import Task
from keygrasp.shaping.campaign import ADVERSARIAL_SCALE
from keygrasp.shaping.exact import solve
from keygrasp.shaping.grasp_mdp import GraspMDP, grasp_mdp
from keygrasp.shaping.learned import LearnedConfig, LearnedPotential
from keygrasp.shaping.potential import Potential, TablePotential, ZeroPotential
from keygrasp.shaping.rules import RulePotential
from keygrasp.shaping.term import ShapingTerm

#: Potentials that can be compared here; ``llm`` needs an endpoint.
LEARNERS = ("none", "rules", "learned", "adversarial", "llm")
#: Episodes after which the learned potential is fitted anew.
_LEARNED_TOGETHER = 10
#: Share of V*, and of the final success without shaping, that counts as learned.
_ENOUGH = 0.95
#: Share of the episodes at the end that counts as the final success.
_FINAL = 0.1


@dataclass(frozen=True)
class LearningConfig:
    """How the learners learn.

    Attributes:
        episodes: Episodes of each seed.
        seeds: Learners side by side.
        max_steps: Steps after which an episode is cut off.
        step_size: Q-learning's step size.
        exploration: Probability of a random action.
        evaluate_every: Episodes between looks at the greedy policy's value.
        seed: Seed of all draws.
    """

    episodes: int = 2000
    seeds: int = 10
    max_steps: int = 60
    step_size: float = 0.2
    exploration: float = 0.1
    evaluate_every: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.episodes, self.seeds, self.max_steps, self.evaluate_every) < 1:
            raise ConfigurationError("learning: episodes, seeds, max_steps and evaluate_every must be at least 1")
        if not (0 < self.step_size <= 1 and 0 <= self.exploration <= 1):
            raise ConfigurationError("learning: step_size lies in (0, 1], exploration in [0, 1]")


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """What one potential's learners did.

    Attributes:
        potential: Name of the potential.
        success: (seeds, episodes) bool, whether each episode of learning ended with a stable lift.
        worth: (seeds, looks) the greedy policy's value over V*, in the starting states.
        first_success: (seeds,) number of the first successful episode; infinite where there was none.
        to_enough: (seeds,) episodes until the greedy policy was worth 95% of V*; infinite where it never was.
        regret: (seeds,) V* minus the discounted return, added up over the episodes.
        reward_terms: Mean of each term of the reward a step, by name; ``shaping`` is already times its scale.
    """

    potential: str
    success: NDArray[np.bool_]
    worth: Array
    first_success: Array
    to_enough: Array
    regret: Array
    reward_terms: dict[str, float] = field(default_factory=dict)

    def smoothed(self, window: int) -> Array:
        """(episodes,) success of the last ``window`` episodes, mean of the seeds."""
        return moving_mean(self.success.mean(axis=0), window)

    @property
    def final_success_by_seed(self) -> Array:
        """Success (seeds,) in the last tenth of the episodes."""
        tail = max(1, round(_FINAL * self.success.shape[1]))
        return np.asarray(self.success[:, -tail:].mean(axis=1))

    @property
    def final_success(self) -> float:
        """Its mean over the seeds."""
        return float(self.final_success_by_seed.mean())


def moving_mean(values: Array, window: int) -> Array:
    """Mean of the last ``window`` values at each place; of fewer at the beginning."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    return np.asarray((total[ends] - total[begins]) / (ends - begins))


def episodes_to(curve: Array, level: float) -> float:
    """Number of the first episode at which a smoothed curve reaches ``level``; infinite where it never does."""
    reached = np.flatnonzero(curve >= level)
    return float(reached[0] + 1) if len(reached) else float("inf")


def build_potential(name: str, grasp: GraspMDP, seed: int = 0) -> Potential:
    """One of :data:`LEARNERS` over row numbers of the grasp MDP.

    Raises:
        ConfigurationError: If the name is unknown.
    """
    if name == "none":
        return ZeroPotential()
    if name == "learned":
        return _LearnedTable(grasp, LearnedConfig(seed=seed))
    if name in ("rules", "adversarial"):
        scores = RulePotential().values(grasp.rows, Task())
        return TablePotential(scores if name == "rules" else -ADVERSARIAL_SCALE * scores, name)
    if name == "llm":
        from keygrasp.shaping.llm import language_model_potential

        return TablePotential(language_model_potential().values(grasp.rows, Task()), name)
    raise ConfigurationError(f"unknown potential '{name}'", f"Known: {', '.join(LEARNERS)}")


def learn(name: str, config: LearningConfig, on_episode: Callable[[int], None] | None = None) -> LearningCurve:
    """Q-learning with one potential, all seeds in lockstep; ``on_episode`` is told how many the slowest seed has."""
    return _Learners(name, config).run(on_episode)


def smoothing_window(episodes: int) -> int:
    """Episodes over which success is averaged in a run of so many."""
    return max(1, min(100, episodes // 10))


def speed_up(base: LearningCurve, other: LearningCurve) -> float:
    """Episodes that ``other`` needs to reach 95% of the final success of ``base``, over those that ``base`` needs.

    Reaching means that the mean over seeds and over the last episodes does; infinite where ``other`` never does.
    """
    window = smoothing_window(base.success.shape[1])
    level = _ENOUGH * base.final_success
    return episodes_to(other.smoothed(window), level) / episodes_to(base.smoothed(window), level)


class _LearnedTable(LearnedPotential):
    """The learned potential over row numbers of the grasp MDP; learns from a few episodes at a time."""

    def __init__(self, grasp: GraspMDP, config: LearnedConfig) -> None:
        super().__init__(config)
        self._rows = grasp.rows
        self._table = np.zeros(len(grasp.rows))
        self._waiting: list[tuple[list[int], Array]] = []

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        return np.asarray(self._table[states[:, 0].astype(np.intp)])

    def learn_episode(self, visited: list[int], outcome: float, gamma: float) -> None:
        """Learn from the states of an episode that ended with ``outcome``."""
        left = np.arange(len(visited) - 1, -1, -1)
        self._waiting.append((visited, outcome * np.power(gamma, left)))
        if len(self._waiting) == _LEARNED_TOGETHER:
            states = [state for episode, _ in self._waiting for state in episode]
            self.learn(self._rows[states], np.concatenate([returns for _, returns in self._waiting]), _LEARNED_TOGETHER)
            self._table = super().evaluate(self._rows, Task())
            self._waiting = []


class _Learners:
    """Q-learners of one potential, one a seed, that step together."""

    def __init__(self, name: str, config: LearningConfig) -> None:
        self.name, self.config = name, config
        self.grasp = grasp_mdp()
        self.mdp = self.grasp.mdp
        self.gamma = float(self.mdp.gamma)
        self._tabulate()
        values = np.array([float(v) for v in solve(self.mdp).values])
        self.best = float(values[list(self.grasp.starts)].mean())
        self.potential = build_potential(name, self.grasp, config.seed)
        # One term for all seeds; a learned potential is shared by them, as its value is.
        self.term = ShapingTerm(self.potential, self.gamma, count=config.seeds)
        self.rng = np.random.default_rng(config.seed)
        n, e = config.seeds, config.episodes
        self.q = np.zeros((n, self.mdp.states, self.actions))
        self.success = np.zeros((n, e), dtype=bool)
        self.returns = np.zeros((n, e))
        self.worth = np.zeros((n, -(-e // config.evaluate_every)))
        self.episode = np.zeros(n, dtype=np.intp)
        self.terms = np.zeros(2)
        self.steps = 0

    def _tabulate(self) -> None:
        """Outcomes as arrays (S, A, K): cumulated probabilities, next states, rewards, ends."""
        transitions = self.mdp.transitions
        self.actions = max(len(actions) for actions in transitions)
        most = max(len(o) for actions in transitions for o in actions)
        shape = (self.mdp.states, self.actions, most)
        self.share, self.next = np.zeros(shape), np.zeros(shape, dtype=np.intp)
        self.reward, self.ends = np.zeros(shape), np.zeros(shape, dtype=bool)
        for state, actions in enumerate(transitions):
            for action, outcomes in enumerate(actions):
                for k, o in enumerate(outcomes):
                    at = state, action, k
                    self.share[at], self.next[at] = float(o.probability), o.state
                    self.reward[at], self.ends[at] = float(o.reward), o.terminated
        self.cumulated = np.cumsum(self.share, axis=2)

    def run(self, on_episode: Callable[[int], None] | None) -> LearningCurve:
        """Learn until each seed has its episodes."""
        n, config = self.config.seeds, self.config
        goals, everyone = [Task()] * n, np.arange(n)
        state = self.rng.choice(self.grasp.starts, n)
        self.term.reset(state[:, None].astype(float), goals)
        age, gained = np.zeros(n, dtype=np.intp), np.zeros(n)
        visited: list[list[int]] = [[s] for s in state.tolist()]
        while self.episode.min() < config.episodes:
            action = self._act(state, everyone)
            drawn = self.rng.random(n)[:, None] > self.cumulated[state, action]
            k = np.minimum(drawn.sum(axis=1), self.cumulated.shape[2] - 1)
            following, reward = self.next[state, action, k], self.reward[state, action, k]
            terminated = self.ends[state, action, k]
            age += 1
            truncated = ~terminated & (age >= config.max_steps)
            shaped = self.term.step(following[:, None].astype(float), terminated, truncated)
            total = reward + shaped.shaping
            # Where cut off, the value bootstraps and Φ stays; where terminated, neither.
            target = total + np.where(terminated, 0.0, self.gamma * self.q[everyone, following].max(axis=1))
            self.q[everyone, state, action] += config.step_size * (target - self.q[everyone, state, action])
            self.terms += [reward.sum(), shaped.shaping.sum()]
            self.steps += n
            gained += self.gamma ** (age - 1) * reward
            state = following.copy()
            for i, s in enumerate(state.tolist()):
                visited[i].append(s)
            done = terminated | truncated
            if done.any():
                for i in np.flatnonzero(done).tolist():
                    self._finish(i, bool(reward[i] > 0), float(gained[i]), visited[i])
                    visited[i] = []
                state[done] = self.rng.choice(self.grasp.starts, int(done.sum()))
                for i in np.flatnonzero(done).tolist():
                    visited[i] = [int(state[i])]
                age[done], gained[done] = 0, 0.0
                self.term.reset(state[:, None].astype(float), goals, done)
                if on_episode is not None:
                    on_episode(int(self.episode.min()))
        return self._curve()

    def _act(self, state: NDArray[np.intp], everyone: NDArray[np.intp]) -> NDArray[np.intp]:
        """Greedy with random ties, or random."""
        q = self.q[everyone, state]
        ties = (q >= q.max(axis=1, keepdims=True) - 1e-12) * self.rng.random(q.shape)
        greedy = ties.argmax(axis=1)
        explores = self.rng.random(len(state)) < self.config.exploration
        return np.where(explores, self.rng.integers(0, self.actions, len(state)), greedy)

    def _finish(self, seed: int, success: bool, gained: float, visited: list[int]) -> None:
        episode = int(self.episode[seed])
        self.episode[seed] += 1
        if episode >= self.config.episodes:
            return
        self.success[seed, episode], self.returns[seed, episode] = success, gained
        if episode % self.config.evaluate_every == 0:
            self.worth[seed, episode // self.config.evaluate_every] = self._greedy_value(seed) / self.best
        if isinstance(self.potential, _LearnedTable):
            self.potential.learn_episode(visited[:-1], float(success), self.gamma)

    def _greedy_value(self, seed: int) -> float:
        """Value in the starting states of the policy that is greedy now."""
        policy = self.q[seed].argmax(axis=1)
        rows = np.arange(self.mdp.states)
        share, following = self.share[rows, policy], self.next[rows, policy]
        matrix = np.eye(self.mdp.states)
        alive = np.where(self.ends[rows, policy], 0.0, share)
        for k in range(share.shape[1]):
            np.add.at(matrix, (rows, following[:, k]), -self.gamma * alive[:, k])
        values = np.linalg.solve(matrix, (share * self.reward[rows, policy]).sum(axis=1))
        return float(values[list(self.grasp.starts)].mean())

    def _curve(self) -> LearningCurve:
        enough = self.worth >= _ENOUGH
        looks = np.where(enough.any(axis=1), enough.argmax(axis=1) * self.config.evaluate_every, np.inf)
        first = np.where(self.success.any(axis=1), self.success.argmax(axis=1) + 1.0, np.inf)
        task, shaping = (self.terms / self.steps).tolist()
        return LearningCurve(
            self.name,
            self.success,
            self.worth,
            first,
            looks,
            (self.best - self.returns).sum(axis=1),
            {"task": task, "shaping": shaping},
        )
