"""Outcomes predicted from images: learned from labels, silent where nothing was measured, heard where asked."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from synthetic_views import box, placed, render

from keygrasp.cli.outcomes import run
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.labels import OUTCOMES, SceneLabels, write_index, write_shard
from keygrasp.perception import perceive
from keygrasp.refine.dataset import load_dataset
from keygrasp.refine.network import NetworkConfig, QNetwork, default_weights, save_network
from keygrasp.refine.outcome_fit import OutcomeFitConfig, expect_all, fit_outcomes, measure, train_outcomes
from keygrasp.refine.outcomes import (
    CAUSES,
    Expectation,
    OutcomeConfig,
    OutcomePredictor,
    default_outcomes,
    load_outcomes,
    save_outcomes,
)
from keygrasp.refine.planners import build
from keygrasp.refine.refiner import Refiner, RefinerConfig
from keygrasp.refine.state import featurise
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import train
from keygrasp.refine.values import Weights
from keygrasp.scene import GripperSpec, Outcome

SIZES = NetworkConfig(keypoint_hidden=8, channels=(4, 4), hidden=16)
SMALL = OutcomeConfig(members=3, head=16, network=SIZES)
GRIPPER = GripperSpec()


def label_scene(seed, height, count=120):
    """A box. Above its top a grasp is empty and moves nothing; below, it holds, and pushes by how far off it is."""
    rng = np.random.default_rng(seed)
    view = render(placed(box(0.10, 0.05, height), 0.0, 0.0, 0.3 * seed))
    z = rng.uniform(0.005, 0.12, count)
    columns = [*rng.uniform(-0.02, 0.02, (2, count)), z, rng.uniform(-1.5, 1.5, count), np.full(count, 0.07)]
    grasps = np.column_stack(columns).astype(np.float32)
    held = z < height
    outcome = np.where(held, OUTCOMES.index(Outcome.SUCCESS), OUTCOMES.index(Outcome.EMPTY)).astype(np.uint8)
    moved = np.where(held, 0.02, 0.0).astype(np.float32)
    force = np.where(z < 0.02, 50.0, 0.0).astype(np.float32)
    pose, proposal = np.eye(4), np.zeros(count, np.uint8)
    labels = SceneLabels(f"box{seed}", seed, pose, view.depth, grasps, outcome, proposal, force=force, moved=moved)
    return view, labels


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    (view, first), (_, second) = label_scene(0, 0.03), label_scene(1, 0.06)
    write_index(folder, view, GRIPPER, {})
    write_shard(folder / "shard-00000.npz", [first, second])
    return folder


@pytest.fixture(scope="module")
def perceived():
    return perceive(render(placed(box(0.12, 0.05, 0.05), 0.01, -0.02, 0.4)))


def fit_config(labels, **changes):
    sizes = {"steps": 120, "batch": 64, "learning_rate": 5e-3, "dropout": 0.0, "device": "cpu", "model": SMALL}
    return OutcomeFitConfig(labels=(labels,), **sizes | changes)


@pytest.fixture(scope="module")
def fitted(labels):
    return train_outcomes(fit_config(labels), load_dataset([labels]))


@pytest.fixture(scope="module")
def model(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "outcomes.safetensors"
    save_outcomes(path, fitted)
    return path


def test_it_learns_how_executions_end_and_what_they_move(fitted, labels):
    found = measure(expect_all(fitted, load_dataset([labels])), load_dataset([labels]).ends)
    assert found["success"]["auroc"] > 0.9
    assert found["cause_accuracy"] > found["most_frequent_cause"]
    assert found["moved"]["mean_absolute_error"] < found["moved"]["error_of_median"]
    assert found["moved"]["rank_correlation"] > 0.5
    assert found["force"]["rank_correlation"] > 0.2


def test_what_was_not_measured_is_neither_learned_nor_counted(labels):
    data = load_dataset([labels])
    ends = dataclasses.replace(data.ends, force=torch.full_like(data.ends.force, torch.nan))
    network = train_outcomes(fit_config(labels, steps=2), dataclasses.replace(data, ends=ends))
    assert all(torch.isfinite(p).all() for p in network.parameters())
    found = measure(expect_all(network, data), ends)
    assert "force" not in found
    assert found["moved"]["measured"] == 240


def test_executions_that_say_nothing_about_a_grasp_are_left_out(labels):
    data = load_dataset([labels])
    fault = torch.full_like(data.ends.outcome, OUTCOMES.index(Outcome.ROBOT_FAULT))
    with pytest.raises(InputError, match="Collect labels"):
        train_outcomes(
            fit_config(labels, steps=1), dataclasses.replace(data, ends=dataclasses.replace(data.ends, outcome=fault))
        )


def test_predictions_are_probabilities_with_spreads_and_the_same_for_the_same_grasp(model, perceived):
    predict = OutcomePredictor.load(model)
    grasps = np.array([[0.0, 0.0, 0.02, 0.1, 0.07], [0.05, 0.0, 0.1, 0.1, 0.07]])
    expected = predict(perceived, 0, grasps, GRIPPER)
    assert expected.causes.shape == (2, len(CAUSES))
    assert np.allclose(expected.causes.sum(axis=1), 1.0)
    assert np.array_equal(expected.success, expected.causes[:, CAUSES.index(Outcome.SUCCESS)])
    for name in ("force", "moved", "success_deviation", "force_deviation", "moved_deviation"):
        assert (getattr(expected, name) >= 0).all(), name
    assert np.allclose(predict(perceived, 0, grasps[1:], GRIPPER).causes, expected.causes[1:], atol=1e-6)
    assert len(predict(perceived, 0, np.empty((0, 5)), GRIPPER).moved) == 0


def test_impossible_requests_are_named(model, perceived):
    predict = OutcomePredictor.load(model)
    with pytest.raises(InputError, match="object 3"):
        predict(perceived, 3, np.zeros((1, 5)), GRIPPER)
    with pytest.raises(InputError, match="finite"):
        predict(perceived, 0, np.full((1, 5), np.nan), GRIPPER)
    with pytest.raises(InputError, match="finite"):
        predict(perceived, 0, np.zeros((1, 4)), GRIPPER)


def test_a_damaged_file_or_another_model_is_refused(model, tmp_path):
    with pytest.raises(InputError, match="keygrasp outcomes"):
        load_outcomes(tmp_path / "nowhere.safetensors")
    with pytest.raises(InputError, match="has format None"):
        load_outcomes(default_weights())
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(model.read_bytes()[:-50])
    with pytest.raises(InputError, match="can't read the outcome model"):
        load_outcomes(torn)


class Told:
    """A predictor that says what a test wants: more push the further right a grasp is."""

    def __call__(self, perceived, index, grasps, gripper):
        nothing = np.zeros(len(grasps))
        causes = np.tile([0.9, 0.1, 0, 0, 0], (len(grasps), 1))
        return Expectation(causes, nothing, np.maximum(grasps[:, 0] + 0.2, 0), nothing, nothing, nothing)


def test_in_the_refiner_it_has_a_say_only_where_it_is_asked(perceived):
    weights = Weights.load(default_weights())

    def chosen(config, outcomes=None):
        refiner = Refiner(weights, config, outcomes)
        return refiner.refine(perceived, 0, (), GRIPPER, rng=np.random.default_rng(0)).path

    plain = chosen(RefinerConfig())
    assert chosen(RefinerConfig(), Told()) == plain
    pushed = chosen(RefinerConfig(push_cost=100.0), Told())
    assert pushed[-1].x < plain[-1].x
    assert 0 < pushed[-1].score <= 1  # the stated probability is still the network's, which was calibrated
    with pytest.raises(InputError, match="need an outcome model"):
        Refiner(weights, RefinerConfig(outcome_weight=0.5))
    with pytest.raises(InputError, match="lie in"):
        RefinerConfig(push_cost=-1.0)


def test_a_planner_is_given_the_model_by_its_path(model, tmp_path):
    planner = build("refined", outcomes=str(model), outcome_weight=0.5)
    view = render(placed(box(0.12, 0.05, 0.05), 0.01, -0.02, 0.4))
    assert planner.plan(view, GRIPPER, rng=np.random.default_rng(0)).grasp is not None
    with pytest.raises(InputError, match="outcome model"):
        build("refined", outcomes=str(tmp_path / "nowhere.safetensors"))


def test_it_labels_further_grasps_in_training_where_it_is_asked(model, labels, tmp_path):
    settings = TrainConfig(
        labels=(labels,), out=tmp_path, steps=6, warm_up=5, execute_batch=32, move_batch=8, evaluate_every=3,
        device="cpu", network=SIZES, outcome_model=model, virtual_batch=32,
    )  # fmt: skip
    report = train(settings)
    assert report["final"]["virtual_loss"] > 0
    with pytest.raises(ConfigurationError, match="virtual_batch"):
        dataclasses.replace(settings, virtual_batch=0)
    with pytest.raises(ConfigurationError, match="virtual_batch"):
        dataclasses.replace(settings, contact_model=model)


def test_a_refiners_trunk_is_taken_as_it_is(labels, tmp_path):
    network = QNetwork(SIZES).eval()
    save_network(tmp_path / "weights.safetensors", network)
    data = load_dataset([labels])
    made = train_outcomes(fit_config(labels, start=tmp_path / "weights.safetensors", steps=3), data)
    features = featurise(data.scenes, data.scene[:5], data.grasps[:5], data.gripper)
    assert torch.equal(made.base.hidden(features), network.hidden(features))


def test_the_shipped_trunk_is_not_written_again_and_must_be_the_same(labels, tmp_path, monkeypatch):
    config = fit_config(labels, start=default_weights(), steps=2, out=tmp_path)
    fit_outcomes(config)
    path = tmp_path / "outcomes.safetensors"
    assert path.stat().st_size < 500_000
    model, data = load_outcomes(path), load_dataset([labels])
    features = featurise(data.scenes, data.scene[:5], data.grasps[:5], data.gripper)
    assert torch.equal(model.base.hidden(features), Weights.load(default_weights()).network.hidden(features))
    other = tmp_path / "other.safetensors"
    save_network(other, QNetwork(Weights.load(default_weights()).network.config))
    monkeypatch.setattr("keygrasp.refine.outcomes.default_weights", lambda: other)
    with pytest.raises(InputError, match="another refiner"):
        load_outcomes(path)


def test_the_command_fits_measures_and_writes(labels, tmp_path, capfd):
    settings = tmp_path / "settings.yaml"
    sizes = "{members: 2, head: 8, network: {keypoint_hidden: 8, channels: [4, 4], hidden: 16}}"
    others = shutil.copytree(labels, tmp_path / "others")
    folders = f"labels: [{labels}], validation: [{others}]"
    settings.write_text(f"{{{folders}, steps: 3, batch: 16, device: cpu, model: {sizes}}}")
    figures = tmp_path / "figures.json"
    assert run([str(settings), "--out", str(tmp_path / "out"), "--json", str(figures)]) == 0
    assert "rank correlation" in capfd.readouterr().out
    report = json.loads(figures.read_text())
    assert report["validation_labels"] == 240
    assert fit_outcomes.__doc__
    assert load_outcomes(tmp_path / "out/outcomes.safetensors").config.members == 2


@pytest.mark.parametrize("change", [{"share": 0.0}, {"steps": 0}, {"dropout": 1.0}, {"device": "tpu"}])
def test_impossible_settings_are_named(change):
    with pytest.raises(ConfigurationError, match="outcomes"):
        OutcomeFitConfig(**change)


def test_the_shipped_model_tells_a_grasp_from_a_miss_and_a_collision(perceived):
    predict = OutcomePredictor.load(default_outcomes())
    across = 0.4 + np.pi / 2
    good, beside = [0.01, -0.02, 0.02, across, 0.075], [0.16, 0.15, 0.02, across, 0.075]
    on_top = [0.01, -0.02, 0.02, 0.4, 0.04]  # along the long side, too narrow: the fingers come down on the box
    expected = predict(perceived, 0, np.array([good, beside, on_top]), GRIPPER)
    assert expected.success[0] > 0.7
    assert expected.success[1] < 0.1
    assert CAUSES[int(expected.causes[2].argmax())] is Outcome.CONTACT_TOO_EARLY
    assert expected.force[2] > max(expected.force[:2])
