"""Refinement as a Gymnasium environment, on real physics."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from keygrasp.errors import InputError
from keygrasp.protocol import SceneSpec, build_scene
from keygrasp.refine.actions import EXECUTE
from keygrasp.refine.environment import RefinementEnv


@pytest.fixture
def env():
    made = RefinementEnv(lambda seed: build_scene(SceneSpec("042", "E", seed % 1000)), max_steps=3)
    yield made
    made.close()


def test_keeps_gymnasiums_contract(env):
    check_env(env, skip_render_check=True)


def test_execute_asks_physics_and_terminates(env):
    env.reset(seed=1)
    _, reward, terminated, truncated, info = env.step(np.int64(EXECUTE))
    assert terminated
    assert not truncated
    assert reward == float(info["outcome"].success)


def test_running_out_of_steps_truncates_and_doesnt_terminate(env):
    env.reset(seed=1)
    ends = [env.step(np.int64(0))[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_given_start_is_used(env):
    start = (0.01, 0.02, 0.05, 0.3, 0.06)
    _, info = env.reset(seed=1, options={"start": start})
    grasp = info["grasp"]
    assert (grasp.x, grasp.y, grasp.z, grasp.yaw, grasp.width) == pytest.approx(start, abs=1e-6)


def test_step_before_reset_is_refused(env):
    with pytest.raises(InputError, match="reset"):
        env.step(np.int64(0))
