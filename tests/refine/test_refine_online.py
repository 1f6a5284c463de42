"""Online training with shaping as an option: the options, n-step returns that end where episodes end, logged terms."""

import dataclasses

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.perception import perceive
from keygrasp.protocol import SceneSpec, build_scene
from keygrasp.refine.environment import RefinementEnv
from keygrasp.refine.network import NetworkConfig
from keygrasp.refine.online import OnlineConfig, OnlineTrainer, make_potential, n_step_transitions
from keygrasp.refine.symbols import seen_object, with_grasp
from keygrasp.scene import PlanarGrasp, SymbolicState
from keygrasp.shaping import Stationarity

SMALL = OnlineConfig(
    objects=1, episodes=4, max_steps=3, batch=4, update_every=1,
    network=NetworkConfig(keypoint_hidden=8, channels=(4, 4), hidden=16),
)  # fmt: skip


def scene(number):
    return build_scene(SceneSpec("042", "A", number))


def report_of(**changes):
    trainer = OnlineTrainer(dataclasses.replace(SMALL, **changes), scene)
    try:
        return trainer.run()
    finally:
        trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize("shaping", ["none", "rules", "learned", "adversarial"])
def test_every_option_trains_and_logs_its_terms(shaping):
    report = report_of(shaping=shaping)
    assert report.success.shape == report.length.shape == (4,)
    assert np.all((report.length >= 1) & (report.length <= 3))
    assert set(report.reward_terms) == {"task", "shaping"}
    if shaping == "none":
        assert report.reward_terms["shaping"] == 0
    if shaping in ("rules", "adversarial"):
        assert report.reward_terms["shaping"] != 0


@pytest.mark.slow
def test_the_same_seed_trains_the_same_and_the_scale_scales_the_logged_term():
    one, two = report_of(shaping="rules", explore_end=1.0), report_of(shaping="rules", explore_end=1.0)
    assert one.reward_terms == two.reward_terms
    double = report_of(shaping="rules", explore_end=1.0, scale=2.0)  # all moves are random: the same ones
    assert double.reward_terms["shaping"] == pytest.approx(2 * one.reward_terms["shaping"])


def test_n_step_returns_end_where_the_episode_ends():
    assert n_step_transitions([1.0, 2.0, 4.0], 0.5, 2) == [(2.0, 1, 2), (4.0, 2, 2), (4.0, 2, 1)]
    assert n_step_transitions([1.0], 0.5, 9) == [(1.0, 0, 1)]


def test_the_llm_option_without_an_endpoint_is_the_rules(monkeypatch):
    for name in ("KEYGRASP_LLM_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert make_potential("llm").name == "rules"
    assert make_potential("learned").stationarity is Stationarity.DYNAMIC
    with pytest.raises(ConfigurationError, match="unknown shaping"):
        make_potential("magic")
    with pytest.raises(ConfigurationError):
        OnlineConfig(episodes=0)


def test_the_environment_tells_the_grasps_symbols_and_keeps_its_scenes():
    made = []

    def make(number):
        made.append(number)
        return scene(number)

    env = RefinementEnv(make, max_steps=3, kept=1)
    try:
        for _ in range(3):
            _, info = env.reset(options={"start": (0.01, 0.0, 0.05, 0.2, 0.08), "scene": 0})
        state = SymbolicState.from_row(info["symbols"])
        assert (state.gripper_x, state.gripper_z) == pytest.approx((0.01, 0.05), abs=1e-6)
        _, _, _, _, info = env.step(np.int64(8))  # up by the small step
        assert SymbolicState.from_row(info["symbols"]).gripper_z == pytest.approx(0.0525, abs=1e-6)
        assert made == [0]
    finally:
        env.close()


def test_a_perceived_object_is_near_the_true_one():
    with scene(3) as settled:
        seen = with_grasp(seen_object(perceive(settled.view), 0), PlanarGrasp(0.1, 0.0, 0.02, 0.0, 0.05))
        points = settled.handle.points @ settled.object_pose[:3, :3].T + settled.object_pose[:3, 3]
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    assert (seen.object_x, seen.object_y) == pytest.approx(middle[:2], abs=0.015)
    assert seen.object_height == pytest.approx(points[:, 2].max(), abs=0.01)
    assert seen.gripper_x == 0.1
