"""Training on small labels of this test's own: it learns, it resumes exactly, and damage is named."""

import dataclasses

import numpy as np
import pytest
import torch
from synthetic_views import box, placed, render

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.labels import SceneLabels, write_index, write_shard
from keygrasp.refine.network import NetworkConfig, load_network
from keygrasp.refine.state import (
    GRID_ACROSS,
    GRID_ALONG,
    HEIGHT,
    HEIGHT_CHANNELS,
    KEYPOINT_FEATURES,
    LENGTH,
    SCALARS,
    GraspFeatures,
    noisy_heights,
)
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import train
from keygrasp.scene import GripperSpec

SMALL = NetworkConfig(keypoint_hidden=8, channels=(4, 4), hidden=16)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Two boxes; grasps succeed where the fingertips are below the boxes' tops."""
    folder = tmp_path_factory.mktemp("labels") / "train"
    scenes, rng = [], np.random.default_rng(0)
    for seed, height in enumerate((0.03, 0.06)):
        view = render(placed(box(0.10, 0.05, height), 0.0, 0.0, 0.3 * seed))
        grasps = np.column_stack(
            [
                *rng.uniform(-0.02, 0.02, (2, 120)),
                rng.uniform(0.005, 0.12, 120),
                rng.uniform(-1.5, 1.5, 120),
                np.full(120, 0.07),
            ]
        ).astype(np.float32)
        outcome = np.where(grasps[:, 2] < height, 0, 2).astype(np.uint8)
        scenes.append(SceneLabels(f"box{seed}", seed, np.eye(4), view.depth, grasps, outcome, np.zeros(120, np.uint8)))
    for path in (folder, folder.parent / "validation"):
        write_index(path, view, GripperSpec(), {})
        write_shard(path / "shard-00000.npz", scenes)
    return folder


def config(labels, out, **changes):
    base = TrainConfig(
        labels=(labels,), validation=(labels.parent / "validation",), out=out, steps=12, warm_up=4, execute_batch=64,
        move_batch=16, evaluate_every=4, device="cpu", network=SMALL,
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


def test_learns_a_rule_that_is_there(labels, tmp_path):
    report = train(config(labels, tmp_path, steps=150, warm_up=140, evaluate_every=75, learning_rate=5e-3))
    assert report["final"]["validation_auroc"] > 0.9
    assert report["labels"] == 240
    assert set(report["seconds"]) == {"rollouts", "credit", "reward", "update"}
    assert sum(report["shares"].values()) == pytest.approx(1.0)
    assert load_network(tmp_path / "weights.safetensors")[0].config == SMALL


@pytest.mark.parametrize("targets", ["n_step", "retrace"])
def test_stopped_and_resumed_is_the_same_as_not_stopped(labels, tmp_path, targets):
    class StopError(Exception):
        pass

    def stop_at_nine(step, figures):
        if step == 9:
            raise StopError

    def run(name, **changes):
        out = tmp_path / name
        train(config(labels, out, targets=targets, **changes))
        state = load_network(out / "weights.safetensors")[0].state_dict()
        return torch.cat([value.flatten() for value in state.values()])

    with pytest.raises(StopError):
        train(config(labels, tmp_path / "parts", targets=targets), stop_at_nine)
    whole, parts = run("whole"), run("parts")
    at_first = run("at_first", steps=1)
    # Same batches, same optimiser state. Sums may differ in their last bits with where memory lies, no more.
    assert (whole - parts).norm() < 0.1 * (whole - at_first).norm()


def test_a_checkpoint_of_another_configuration_is_refused(labels, tmp_path):
    train(config(labels, tmp_path))
    with pytest.raises(InputError, match="another configuration"):
        train(config(labels, tmp_path, gamma=0.9))


def test_a_torn_checkpoint_is_named(labels, tmp_path):
    train(config(labels, tmp_path))
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="can't resume"):
        train(config(labels, tmp_path))


def test_no_labels_are_named(tmp_path):
    with pytest.raises(InputError, match=r"index\.json"):
        train(config(tmp_path / "none", tmp_path / "out"))


def test_cuda_without_a_gpu_is_refused(labels, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigurationError, match="no GPU"):
        train(config(labels, tmp_path, device="cuda"))


def test_moves_are_learned_by_retrace_too(labels, tmp_path):
    settings = {"steps": 200, "warm_up": 100, "evaluate_every": 20, "learning_rate": 3e-3}
    report = train(config(labels, tmp_path, targets="retrace", fresh=8, replay=64, **settings))
    losses = [line["move_loss"] for line in report["history"] if "move_loss" in line]
    assert losses[-1] < 0.6 * losses[0]
    assert report["shares"]["rollouts"] > 0
    assert report["shares"]["credit"] > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0}, {"gamma": 1.5}, {"learning_rate": 0.0}, {"device": "tpu"}, {"targets": "monte-carlo"},
        {"trace": 1.1}, {"fresh": 0}, {"fresh": 9, "replay": 8}, {"explore": -0.1},
        {"targets": "retrace", "shaping": "rules"},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        TrainConfig(**wrong)


def test_noise_on_heights_spares_the_footprint_and_has_the_spread_asked_for():
    features = GraspFeatures(
        torch.zeros(50, HEIGHT_CHANNELS, GRID_ACROSS, GRID_ALONG),
        torch.zeros(50, 1, 1), torch.ones(50, 1), torch.zeros(50, 1),
    )  # fmt: skip
    noisy = noisy_heights(features, 0.002, seed=5).heights
    assert torch.equal(noisy, noisy_heights(features, 0.002, seed=5).heights)
    assert not torch.equal(noisy, noisy_heights(features, 0.002, seed=6).heights)
    assert torch.all(noisy[:, 2] == 0)  # the pads' footprint is no measurement
    assert float(noisy[:, 0].std()) * HEIGHT == pytest.approx(0.002, rel=0.05)
    assert torch.allclose(noisy[:, 0] * HEIGHT, noisy[:, 1] * LENGTH, atol=1e-6)  # one height, seen in two channels


@pytest.mark.parametrize("change", [{"dropout": 1.0}, {"dropout": -0.1}, {"height_noise": -0.001}])
def test_impossible_noise_is_refused(change):
    with pytest.raises(ConfigurationError, match=r"dropout lies in \[0, 1\)"):
        TrainConfig(**change)


def test_dropout_acts_in_training_alone(labels, tmp_path):
    report = train(config(labels, tmp_path / "dropped", dropout=0.5))
    plain = train(config(labels, tmp_path / "plain"))
    assert report["final"]["execute_loss"] != plain["final"]["execute_loss"]
    network = load_network(tmp_path / "dropped" / "weights.safetensors")[0]
    features = GraspFeatures(
        torch.rand(2, HEIGHT_CHANNELS, GRID_ACROSS, GRID_ALONG),
        torch.rand(2, 3, KEYPOINT_FEATURES), torch.ones(2, 3, dtype=torch.bool), torch.rand(2, SCALARS),
    )  # fmt: skip
    assert torch.equal(network(features), network(features))


def test_each_shaping_option_trains_the_same_network_and_logs_its_terms(labels, tmp_path):
    plain = train(config(labels, tmp_path / "none"))
    expected, _ = load_network(tmp_path / "none" / "weights.safetensors")
    for name in ("rules", "learned"):
        report = train(config(labels, tmp_path / name, shaping=name, shaping_scale=2.0))
        network, _ = load_network(tmp_path / name / "weights.safetensors")
        for one, two in zip(network.parameters(), expected.parameters(), strict=True):
            assert torch.allclose(one, two, atol=1e-4)
        assert report["final"]["reward_task"] > 0
        assert report["final"]["reward_shaping"] != 0
    assert "reward_shaping" not in plain["final"]
