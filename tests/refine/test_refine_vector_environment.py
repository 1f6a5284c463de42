"""Many refinement episodes side by side: the contract of Gymnasium's vector environments, on a real scene's image."""

import numpy as np
import pytest
from synthetic_views import box, placed, render

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.perception import perceive
from keygrasp.refine.actions import EXECUTE
from keygrasp.refine.symbols import seen_object, with_grasp
from keygrasp.refine.vector_environment import RefinementVectorEnv, Starts
from keygrasp.scene import PlanarGrasp, SymbolicState

COUNT = 3


def low(scene, grasps):
    """A judge for whom low grasps hold."""
    return grasps[:, 2] < 0.03


@pytest.fixture
def env():
    views = [perceive(render(placed(box(0.10, 0.04, height), 0.0, 0.0, 0.0))) for height in (0.04, 0.05)]
    made = RefinementVectorEnv(views, low, COUNT, max_steps=2)
    made.reset(seed=1)
    return made


def test_observations_are_of_the_declared_spaces(env):
    observation, infos = env.reset(seed=5)
    assert env.observation_space.contains(observation)
    observation, rewards, terminated, truncated, infos = env.step(np.zeros(COUNT, dtype=np.int64))
    assert env.observation_space.contains(observation)
    assert rewards.shape == terminated.shape == truncated.shape == (COUNT,)
    assert infos["symbols"].shape[0] == COUNT


def test_symbols_are_those_of_the_seen_object_with_the_gripper_at_the_grasp(env):
    infos = env.infos()
    for row, grasp, scene in zip(infos["symbols"], infos["grasp"].tolist(), infos["scene"], strict=True):
        view = perceive(render(placed(box(0.10, 0.04, (0.04, 0.05)[scene]), 0.0, 0.0, 0.0)))
        expected = with_grasp(seen_object(view, 0), PlanarGrasp(*grasp))
        assert SymbolicState.from_row(row).to_row() == pytest.approx(expected.to_row(), abs=1e-6)


def test_the_judge_is_asked_only_about_executions_and_they_terminate(env):
    heights = env.infos()["grasp"][:, 2]
    actions = np.array([EXECUTE, 0, EXECUTE])
    _, rewards, terminated, truncated, _ = env.step(actions)
    assert terminated.tolist() == [True, False, True]
    assert not truncated.any()
    assert rewards.tolist() == [float(heights[0] < 0.03), 0.0, float(heights[2] < 0.03)]


def test_running_out_of_moves_truncates(env):
    ends = [env.step(np.zeros(COUNT, dtype=np.int64))[2:4] for _ in range(2)]
    assert not ends[0][1].any()
    assert ends[1][1].all()
    assert not ends[1][0].any()


def test_only_masked_episodes_begin_anew_and_an_ended_one_can_not_step(env):
    before = env.infos()["grasp"]
    _, _, terminated, _, _ = env.step(np.array([EXECUTE, 0, 0]))
    with pytest.raises(InputError, match="reset_mask"):
        env.step(np.zeros(COUNT, dtype=np.int64))
    moved = env.infos()["grasp"]
    _, infos = env.reset(options={"reset_mask": terminated})
    assert not np.array_equal(infos["grasp"][0], before[0])
    assert np.array_equal(infos["grasp"][1:], moved[1:])


def test_the_same_seed_begins_the_same_within_the_asked_range(env):
    one, two = env.reset(seed=7)[1]["grasp"], env.reset(seed=7)[1]["grasp"]
    assert np.array_equal(one, two)
    assert np.hypot(one[:, 0], one[:, 1]).max() < env.starts.distance[1] + 0.01
    with pytest.raises(ConfigurationError):
        Starts(distance=(0.02, 0.01))
    with pytest.raises(InputError, match="list of seeds"):
        env.reset(seed=[1, 2, 3])
