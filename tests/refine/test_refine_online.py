"""Online training with shaping as an option: who judges, who acts, logged terms, and a comparison that resumes."""

import dataclasses
import json

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.perception import perceive
from keygrasp.protocol import SceneSpec, build_scene
from keygrasp.refine.comparison import compare_potentials, physics_check
from keygrasp.refine.judges import ModelJudge, PhysicsJudge
from keygrasp.refine.network import NetworkConfig, default_weights
from keygrasp.refine.online import OnlineConfig, OnlineTrainer
from keygrasp.refine.symbols import seen_object, with_grasp
from keygrasp.refine.values import Weights
from keygrasp.scene import GripperSpec, PlanarGrasp

SMALL = OnlineConfig(
    objects=("132",), episodes=8, parallel=4, max_steps=3, batch=4,
    network=NetworkConfig(keypoint_hidden=8, channels=(4, 4), hidden=16),
)  # fmt: skip


@pytest.fixture(scope="module")
def settled():
    with build_scene(SceneSpec("132", "A", 0)) as scene:
        yield scene, perceive(scene.view)


def over_the_object(settled, **changes):
    """A grasp (1, 5) across the middle of a long thin object, which holds; changed as asked for."""
    seen = seen_object(settled[1], 0)
    values = {"x": seen.object_x, "y": seen.object_y, "z": 0.005, "yaw": seen.object_yaw + np.pi / 2, "width": 0.085}
    return np.array([list({**values, **changes}.values())])


def report_of(**changes):
    trainer = OnlineTrainer(dataclasses.replace(SMALL, **changes))
    try:
        return trainer.run()
    finally:
        trainer.close()


def test_physics_and_its_model_agree_where_the_case_is_clear(settled):
    scene, perceived = settled
    model = ModelJudge(Weights.load(default_weights()), [perceived], GripperSpec())
    physics = PhysicsJudge([scene])
    good, bad = over_the_object(settled), over_the_object(settled, z=0.20)
    assert model(0, np.concatenate([good, bad])).tolist() == physics(0, np.concatenate([good, bad])).tolist()
    assert model(0, good)[0]


def test_a_judge_that_is_harder_to_convince_accepts_less(settled):
    rng = np.random.default_rng(0)
    grasps = np.repeat(over_the_object(settled), 60, axis=0) + rng.normal(0, 0.02, (60, 5))
    lax, strict = (
        ModelJudge(Weights.load(default_weights()), [settled[1]], GripperSpec(), sure)(0, grasps) for sure in (0.2, 0.8)
    )
    assert np.all(lax | ~strict)
    assert lax.sum() > strict.sum()
    with pytest.raises(ConfigurationError, match="sure"):
        ModelJudge(Weights.load(default_weights()), [settled[1]], GripperSpec(), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("shaping", ["none", "rules", "learned", "adversarial"])
def test_every_option_trains_and_logs_its_terms(shaping):
    report = report_of(shaping=shaping)
    assert report.success.shape == report.length.shape == (8,)
    assert np.all((report.length >= 1) & (report.length <= 3))
    assert not report.guarded.any()
    assert set(report.reward_terms) == {"task", "shaping"}
    assert (report.reward_terms["shaping"] != 0) == (shaping in ("rules", "adversarial"))


def test_the_same_seed_trains_the_same_and_the_scale_scales_the_logged_term():
    settings = {"shaping": "rules", "explore": 1.0, "explore_end": 1.0}
    one, two = report_of(**settings), report_of(**settings)
    assert one.reward_terms == two.reward_terms
    double = report_of(**settings, scale=2.0)  # all actions are random: the same ones
    assert double.reward_terms["shaping"] == pytest.approx(2 * one.reward_terms["shaping"])


def test_with_a_guard_both_networks_act_and_learn_apart():
    trainer = OnlineTrainer(dataclasses.replace(SMALL, shaping="adversarial", guard=True, episodes=24))
    try:
        report = trainer.run()
        features = trainer.plain.features(np.zeros(1, dtype=np.int64), over_trainer(trainer))
        shaped, plain = (learner.values(features)[0] for learner in trainer.learners)
    finally:
        trainer.close()
    assert 0 < report.guarded.sum() < 24
    assert shaped.max() > 5 * max(plain.max(), 0.1)  # Q′ = Q − Φ is large where Φ is very negative


def over_trainer(trainer):
    _, infos = trainer.plain.reset(seed=3)
    return infos["grasp"][:1]


def test_bad_settings_are_named():
    for change in ({"episodes": 0}, {"objects": ()}, {"explore": 1.5}, {"learning_rate": 0.0}):
        with pytest.raises(ConfigurationError, match="online training"):
            dataclasses.replace(SMALL, **change)


@pytest.mark.slow
def test_a_comparison_goes_on_from_the_runs_that_ended(tmp_path):
    done = []
    names, arguments = ("none", "adversarial+guard"), {"executions": 2, "workers": 1}
    curves, held = compare_potentials(names, SMALL, 1, tmp_path, on_run=lambda n, of: done.append((n, of)), **arguments)
    assert done == [(1, 2), (2, 2)]
    assert [curve.potential for curve in curves] == list(names)
    assert curves[0].success.shape == (1, 8)
    assert all(0 <= share <= 1 for share in held.values())
    again, _ = compare_potentials(names, SMALL, 1, tmp_path, on_run=lambda *_: done.append("made anew"), **arguments)
    assert "made anew" not in done
    assert np.array_equal(again[1].success, curves[1].success)
    with pytest.raises(InputError, match="other settings"):
        compare_potentials(names, dataclasses.replace(SMALL, scale=2.0), 1, tmp_path, **arguments)
    path = tmp_path / "none-0.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "success": [1]}))
    with pytest.raises(InputError, match="8 episodes"):
        compare_potentials(names, SMALL, 1, tmp_path, **arguments)


def test_final_policies_are_checked_by_physics(settled):
    trainer = OnlineTrainer(SMALL)
    try:
        assert 0 <= physics_check(trainer, 3) <= 3
    finally:
        trainer.close()


def test_a_perceived_object_is_near_the_true_one(settled):
    scene, perceived = settled
    seen = with_grasp(seen_object(perceived, 0), PlanarGrasp(0.1, 0.0, 0.02, 0.0, 0.05))
    points = scene.handle.points @ scene.object_pose[:3, :3].T + scene.object_pose[:3, 3]
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    assert (seen.object_x, seen.object_y) == pytest.approx(middle[:2], abs=0.015)
    assert seen.object_height == pytest.approx(points[:, 2].max(), abs=0.01)
    assert seen.gripper_x == 0.1
