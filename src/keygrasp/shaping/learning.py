"""Learning speed with different potentials: tabular Q-learning on the symbolic grasp MDP, several seeds.

Preserved optima say nothing about speed. Measured per potential and seed: episodes to the first success, episodes
until the greedy policy is worth 95% of V*, regret, and the success at the end.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.scene.tasks import Task
from keygrasp.shaping.exact import solve
from keygrasp.shaping.grasp_mdp import GraspMDP, grasp_mdp
from keygrasp.shaping.guard import Guard, split_guard
from keygrasp.shaping.learned import LearnedConfig, LearnedPotential
from keygrasp.shaping.mdp import Transition
from keygrasp.shaping.options import make_potential
from keygrasp.shaping.potential import Potential, Stationarity, TablePotential
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
        seeds: Learners.
        max_steps: Steps after which an episode is cut off.
        step_size: Q-learning's step size at first; it falls evenly to a twentieth of that.
        exploration: Probability of a random action.
        exploring_starts: Share of the episodes that begin in any state instead of far from the object.
        evaluate_every: Episodes between looks at the greedy policy's value.
        seed: Seed of all draws.
    """

    episodes: int = 2000
    seeds: int = 10
    max_steps: int = 60
    step_size: float = 0.2
    exploration: float = 0.1
    exploring_starts: float = 0.0
    evaluate_every: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.episodes, self.seeds, self.max_steps, self.evaluate_every) < 1:
            raise ConfigurationError("learning: episodes, seeds, max_steps and evaluate_every must be at least 1")
        if not (0 < self.step_size <= 1 and 0 <= self.exploration <= 1 and 0 <= self.exploring_starts <= 1):
            raise ConfigurationError("learning: step_size lies in (0, 1], exploration and exploring_starts in [0, 1]")


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
    def final_worth(self) -> float | None:
        """The greedy policy's value over V* in the last tenth of the looks, mean of the seeds; ``None`` without any."""
        looks = self.worth.shape[1]
        return float(self.worth[:, -max(1, round(_FINAL * looks)) :].mean()) if looks else None

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
    if name == "learned":
        return _LearnedTable(grasp, LearnedConfig(seed=seed))
    potential = make_potential(name)
    return potential if name == "none" else TablePotential(potential.values(grasp.rows, Task()), name)


def learn(name: str, config: LearningConfig, on_episode: Callable[[int], None] | None = None) -> LearningCurve:
    """Q-learning with one potential, seed after seed; ``on_episode`` is told how many a seed has, mean of all.

    With ``+guard`` behind its name, a second table learns the same transitions without shaping, and acts where it does
    better (:mod:`keygrasp.shaping.guard`).
    """
    learners = []
    for seed in range(config.seeds):
        learners.append(_Learner(name, config, config.seed + seed))
        for episode in range(config.episodes):
            learners[-1].episode(episode)
            if on_episode is not None:
                on_episode((seed * config.episodes + episode + 1) // config.seeds)
    success = np.array([learner.success for learner in learners], dtype=bool)
    worth = np.array([learner.worth for learner in learners])
    enough = worth >= _ENOUGH
    steps = sum(learner.steps for learner in learners)
    return LearningCurve(
        name,
        success,
        worth,
        np.where(success.any(axis=1), success.argmax(axis=1) + 1.0, np.inf),
        np.where(enough.any(axis=1), enough.argmax(axis=1) * float(config.evaluate_every), np.inf),
        np.array([learner.regret for learner in learners]),
        {term: sum(learner.terms[term] for learner in learners) / steps for term in ("task", "shaping")},
    )


def smoothing_window(episodes: int) -> int:
    """Episodes over which success is averaged in a run of so many."""
    return max(1, min(100, episodes // 10))


def speed_up(base: LearningCurve, other: LearningCurve) -> float:
    """Episodes that ``other`` needs to reach 95% of the final success of ``base``, over those that ``base`` needs.

    Reaching means that the mean over seeds and over the last episodes does, of a whole window of them: a single early
    success by chance is none. Infinite where ``other`` never does.
    """
    window = smoothing_window(base.success.shape[1])
    level = _ENOUGH * base.final_success
    needed = [window - 1 + episodes_to(one.smoothed(window)[window - 1 :], level) for one in (other, base)]
    return needed[0] / needed[1]


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


class _Learner:
    """One Q-learner."""

    def __init__(self, name: str, config: LearningConfig, seed: int) -> None:
        self._config = config
        self._grasp = grasp_mdp()
        mdp = self._grasp.mdp
        self._gamma = float(mdp.gamma)
        values = solve(mdp).values
        self._best = float(sum(values[s] for s in self._grasp.starts) / len(self._grasp.starts))
        self._rng = random.Random(seed)
        name, guarded = split_guard(name)
        self._potential = build_potential(name, self._grasp, seed)
        self._term = ShapingTerm(self._potential, self._gamma)
        self._outcomes = [[_outcomes(outcomes) for outcomes in actions] for actions in mdp.transitions]
        # The term of a static potential is one number a transition: asked for once.
        static = self._potential.stationarity is Stationarity.STATIC
        self._shaping = self._tabulate() if static else None
        self._acting = [state for state in range(mdp.states) if mdp.actions(state)]
        # With a guard, the second table learns without shaping.
        self._tables = [[[0.0] * len(actions) for actions in mdp.transitions] for _ in range(1 + guarded)]
        self._guard = Guard(len(self._tables))
        self._lots = np.random.default_rng(seed)
        self.success: list[bool] = []
        self.worth: list[float] = []
        self.regret = 0.0
        self.steps = 0
        self.terms = {"task": 0.0, "shaping": 0.0}

    def _tabulate(self) -> dict[tuple[int, int, bool], float]:
        """Shaping by state, next state and whether that is terminal."""
        table = {}
        for state, actions in enumerate(self._outcomes):
            for _, following, _, terminated in (o for outcomes in actions for o in outcomes):
                self._term.reset(_row(state), [None])
                step = self._term.step(_row(following), [terminated], [False])
                table[state, following, terminated] = float(step.shaping[0])
        return table

    def episode(self, number: int) -> None:
        """Learn through one episode."""
        config, gamma = self._config, self._gamma
        anywhere = self._rng.random() < config.exploring_starts
        state = self._rng.choice(self._acting if anywhere else self._grasp.starts)
        visited, gained, terminated = [state], 0.0, False
        step_size = config.step_size * (1 - 0.95 * number / config.episodes)
        arm = self._guard.choose(self._lots)
        if self._shaping is None:
            self._term.reset(_row(state), [None])
        for age in range(config.max_steps):
            action = self._act(self._tables[arm][state])
            following, reward, terminated = self._draw(state, action)
            truncated = not terminated and age + 1 == config.max_steps
            shaping = self._shaped(state, following, terminated, truncated)
            # Where cut off, the value bootstraps and Φ stays; where terminated, neither.
            for q, added in zip(self._tables, (shaping, 0.0), strict=False):
                target = reward + added + (0.0 if terminated else gamma * max(q[following]))
                q[state][action] += step_size * (target - q[state][action])
            self.terms["task"] += reward
            self.terms["shaping"] += shaping
            self.steps += 1
            gained += gamma**age * reward
            if terminated:
                break
            state = following
            visited.append(state)
        self._guard.note(arm, gained)
        self.success.append(gained > 0)
        self.regret += self._best - gained
        if number % config.evaluate_every == 0:
            self.worth.append(self._greedy_value() / self._best)
        if isinstance(self._potential, _LearnedTable):
            self._potential.learn_episode(visited, float(gained > 0), gamma)

    def _act(self, q: list[float]) -> int:
        """Greedy with random ties, or random."""
        if self._rng.random() < self._config.exploration:
            return self._rng.randrange(len(q))
        best = max(q)
        return self._rng.choice([action for action, value in enumerate(q) if value == best])

    def _draw(self, state: int, action: int) -> tuple[int, float, bool]:
        share = self._rng.random()
        outcomes = self._outcomes[state][action]
        for cumulated, following, reward, terminated in outcomes:
            if share < cumulated:
                return following, reward, terminated
        return outcomes[-1][1:]

    def _shaped(self, state: int, following: int, terminated: bool, truncated: bool) -> float:
        if self._shaping is not None:
            return self._shaping[state, following, terminated]
        return float(self._term.step(_row(following), [terminated], [truncated]).shaping[0])

    def _greedy_value(self) -> float:
        """Value in the starting states of the policy that is greedy now."""
        table = self._tables[self._guard.best]
        matrix, rewards = np.eye(len(table)), np.zeros(len(table))
        for state, q in enumerate(table):
            before = 0.0
            for cumulated, following, reward, terminated in self._outcomes[state][q.index(max(q))] if q else ():
                rewards[state] += (cumulated - before) * reward
                if not terminated:
                    matrix[state, following] -= self._gamma * (cumulated - before)
                before = cumulated
        return float(np.linalg.solve(matrix, rewards)[list(self._grasp.starts)].mean())


#: Cumulated probability, next state, reward, whether it is terminal.
_Outcome = tuple[float, int, float, bool]


def _outcomes(outcomes: tuple[Transition, ...]) -> list[_Outcome]:
    shares = itertools.accumulate(float(o.probability) for o in outcomes)
    return [(share, o.state, float(o.reward), o.terminated) for share, o in zip(shares, outcomes, strict=True)]


def _row(state: int) -> Array:
    return np.array([[float(state)]])
