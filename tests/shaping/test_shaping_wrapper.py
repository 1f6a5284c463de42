"""Shaping around Gymnasium environments: every way to reset, and nothing counted twice or lost."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from keygrasp.errors import InputError
from keygrasp.shaping import Potential, ShapingTerm, Stationarity, TablePotential
from keygrasp.shaping.conditions import EpisodeEndError
from keygrasp.shaping.wrapper import ShapedReward, ShapedVectorReward

GAMMA, PHI = 0.9, np.array([0.1, 0.2, 0.4, 0.8])


class Walk(gymnasium.Env):
    """0 → 1 → 2 → 3; terminates at 3, is cut off after ``limit`` steps; an action of 0 stays."""

    action_space, observation_space = spaces.Discrete(2), spaces.Box(0, 3, (1,), np.float64)

    def __init__(self, limit=10):
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.age = 0, 0
        return self._see(), {"symbols": self._see()}

    def step(self, action):
        self.at, self.age = self.at + int(action), self.age + 1
        terminated = self.at == 3
        info = {"symbols": self._see(), "task": self.age}
        return self._see(), float(terminated), terminated, not terminated and self.age >= self.limit, info

    def _see(self):
        return np.array([float(self.at)])


def shaped(limit=10, **options):
    env = ShapedReward(Walk(limit), ShapingTerm(TablePotential(PHI), GAMMA), **options)
    env.reset(seed=0)
    return env


def test_an_episode_to_the_terminal_state():
    env = shaped()
    steps = [env.step(1) for _ in range(3)]
    rewards = [reward for _, reward, *_ in steps]
    assert rewards == pytest.approx([0.9 * 0.2 - 0.1, 0.9 * 0.4 - 0.2, 1 + 0 - 0.4])
    info = steps[-1][4]
    assert sum(info["reward_terms"].values()) == pytest.approx(rewards[-1])
    assert info["reward_terms"]["task"] == 1.0
    assert (info["potential"], info["next_potential"]) == (0.4, 0.0)


def test_truncation_keeps_the_potential_of_the_last_observation():
    env = shaped(limit=2)
    env.step(1)
    _, reward, terminated, truncated, info = env.step(1)
    assert (terminated, truncated) == (False, True)
    assert info["next_potential"] == 0.4
    assert reward == pytest.approx(0.9 * 0.4 - 0.2)
    with pytest.raises(EpisodeEndError):
        env.step(1)


def test_a_function_reads_the_symbols_from_observations_too():
    env = shaped(symbols=lambda observation, info: 3 - observation)
    assert env.step(1)[1] == pytest.approx(0.9 * 0.4 - 0.8)


def test_an_environment_without_symbols_is_told_so():
    env = ShapedReward(gymnasium.make("FrozenLake-v1"), ShapingTerm(TablePotential(PHI), GAMMA))
    with pytest.raises(InputError, match="no 'symbols'"):
        env.reset()


class GoalNumber(Potential):
    name, stationarity, high = "goal", Stationarity.STATIC, 10.0

    def evaluate(self, states, goal):
        return np.full(len(states), float(goal))


def test_a_goal_that_changes_counts_from_the_next_state_on():
    env = ShapedReward(Walk(), ShapingTerm(GoalNumber(), GAMMA), goal=lambda info: info.get("task", 7))
    env.reset()
    assert env.step(0)[1] == pytest.approx(0.9 * 1 - 7)
    assert env.step(0)[1] == pytest.approx(0.9 * 2 - 1)


def vector(mode, limits, count=None):
    envs = SyncVectorEnv([lambda limit=limit: Walk(limit) for limit in limits], autoreset_mode=mode)
    env = ShapedVectorReward(envs, ShapingTerm(TablePotential(PHI), GAMMA, count=count or len(limits)))
    env.reset(seed=0)
    return env


LIMITS = (2, 10)  # the first is cut off at 2, the second terminates at 3


def walked(env, steps, reset=None):
    rewards = []
    for _ in range(steps):
        _, reward, terminated, truncated, infos = env.step(np.array([1, 1]))
        assert infos["reward_terms"]["task"] + infos["reward_terms"]["shaping"] == pytest.approx(reward)
        rewards.append(reward.tolist())
        if reset is not None and np.any(terminated | truncated):
            env.reset(options={"reset_mask": terminated | truncated})
    return np.array(rewards).T.tolist()


A, B, END = 0.9 * 0.2 - 0.1, 0.9 * 0.4 - 0.2, 1 - 0.4


def test_reset_at_the_next_step_earns_nothing():
    first, second = walked(vector(AutoresetMode.NEXT_STEP, LIMITS), 6)
    assert first == pytest.approx([A, B, 0, A, B, 0])
    assert second == pytest.approx([A, B, END, 0, A, B])


def test_reset_in_the_same_step_uses_the_last_observation():
    first, second = walked(vector(AutoresetMode.SAME_STEP, LIMITS), 6)
    assert first == pytest.approx([A, B, A, B, A, B])
    assert second == pytest.approx([A, B, END, A, B, END])


def test_reset_by_the_learner():
    first, second = walked(vector(AutoresetMode.DISABLED, LIMITS), 6, reset=True)
    assert first == pytest.approx([A, B, A, B, A, B])
    assert second == pytest.approx([A, B, END, A, B, END])


def test_a_lost_last_observation_is_an_error():
    env = vector(AutoresetMode.SAME_STEP, LIMITS)
    step = env.env.step

    def forgetful(actions):
        *rest, infos = step(actions)
        infos.pop("final_obs", None)
        return *rest, infos

    env.env.step = forgetful
    env.step(np.array([1, 1]))
    with pytest.raises(EpisodeEndError, match="final_obs"):
        env.step(np.array([1, 1]))


def test_the_batched_form_is_the_single_one():
    env = vector(AutoresetMode.NEXT_STEP, (10, 10))
    single = shaped()
    rng = np.random.default_rng(0)
    for _ in range(40):
        action = int(rng.integers(2))
        reward = env.step(np.array([action, action]))
        _, alone, terminated, truncated, _ = single.step(action)
        assert reward[1].tolist() == pytest.approx([alone] * 2)
        if terminated or truncated:
            single.reset()
            env.step(np.array([0, 0]))


def test_another_number_of_environments_is_refused():
    with pytest.raises(InputError, match="3 environments, there are 2"):
        vector(AutoresetMode.NEXT_STEP, LIMITS, count=3)
    with pytest.raises(InputError, match="count=1"):
        ShapedReward(Walk(), ShapingTerm(TablePotential(PHI), GAMMA, count=2))
