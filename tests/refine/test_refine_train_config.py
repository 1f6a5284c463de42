"""Settings of training that can't work are refused by name, and what diverges ends with a sentence."""

import dataclasses

import numpy as np
import pytest
import torch
from synthetic_views import box, placed, render

from keygrasp.configuration import load_config
from keygrasp.errors import ConfigurationError, InputError, StorageError
from keygrasp.experience.contact_model import ContactConfig
from keygrasp.experience.labels import SceneLabels, write_index, write_shard
from keygrasp.files import sole_writer
from keygrasp.refine.actions import GraspBounds, StepSizes
from keygrasp.refine.network import Calibration, NetworkConfig, QNetwork, load_network, save_network
from keygrasp.refine.outcome_fit import OutcomeFitConfig
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import train
from keygrasp.refine.values import Weights
from keygrasp.scene import GripperSpec
from keygrasp.tensorfiles import write_tensors

SMALL = NetworkConfig(keypoint_hidden=8, channels=(4, 4), hidden=16)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """One box with executed grasps."""
    folder, rng = tmp_path_factory.mktemp("labels"), np.random.default_rng(0)
    view = render(placed(box(0.10, 0.05, 0.03), 0.0, 0.0, 0.0))
    grasps = np.column_stack([rng.uniform(0.01, 0.03, (40, 4)), np.full(40, 0.07)]).astype(np.float32)
    outcome = np.arange(40, dtype=np.uint8) % 2 * 2
    write_index(folder, view, GripperSpec(), {})
    write_shard(
        folder / "shard-00000.npz",
        [SceneLabels("box", 0, np.eye(4), view.depth, grasps, outcome, np.zeros(40, np.uint8))],
    )
    return folder


def config(labels, out, **changes):
    values = {"labels": (labels,), "out": out, "steps": 4, "execute_batch": 8, "device": "cpu", "network": SMALL}
    return TrainConfig(**{**values, **changes})


@pytest.mark.parametrize(
    ("line", "needle"),
    [
        ("weight_decay: -1.0", "weight_decay is -1.0"),
        ("network: {hidden: -5}", "hidden is -5"),
        ("network: {hidden: 0}", "hidden is 0"),
        ("network: {channels: [0, 4]}", "channels is (0, 4)"),
        ("execute_batch: 1000000000000", "Give 1 to 1,000,000"),
        ("learning_rate: 1.0e+30", "learning_rate is 1e+30"),
        ("learning_rate: .nan", "learning_rate is nan"),
        ("noise: [.nan, 0.1, 0.1, 0.1, 0.1]", "noise is (nan"),
        ("label_noise: [0.1, 0.1, -0.1, 0.1, 0.1]", "label_noise is"),
        ("shaping_scale: .inf", "shaping_scale is inf"),
        ("seed: -1", "seed is -1"),
        ("warm_up: -4", "warm_up is -4"),
        ("actions: {steps: {yaw: [.nan, 0.1]}}", "yaw is (nan"),
        ("actions: {bounds: {lowest: 0.3}}", "lowest is 0.3"),
        ("labels: []", "labels names no folder"),
        ("{labels: [a, b], validation: [c, ./a]}", "is in labels and in validation"),
    ],
)
def test_what_can_not_work_is_refused_by_name(line, needle, tmp_path):
    (tmp_path / "train.yaml").write_text(line)
    with pytest.raises(ConfigurationError) as raised:
        load_config(tmp_path / "train.yaml", TrainConfig)
    assert needle in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (OutcomeFitConfig, {"seed": -1}),
        (OutcomeFitConfig, {"learning_rate": float("inf")}),
        (ContactConfig, {"weight_decay": -0.1}),
        (ContactConfig, {"hidden": 10**9}),
        (StepSizes, {"along": (-0.1, 0.1)}),
        (GraspBounds, {"reach": float("nan")}),
        (Calibration, {"slope": float("nan")}),
    ],
)
def test_the_other_models_settings_have_ranges_too(kind, values):
    with pytest.raises(ConfigurationError, match=next(iter(values))):
        kind(**values)


def test_training_that_diverges_stops_at_once_and_writes_nothing(labels, tmp_path):
    seen = []
    with pytest.raises(ConfigurationError, match=r"diverged at step \d+.*smaller learning_rate than 1"):
        train(
            config(labels, tmp_path, steps=200, learning_rate=1.0, weight_decay=100.0, evaluate_every=1000),
            lambda step, figures: seen.append(figures["execute_loss"]),
        )
    assert len(seen) < 100
    assert np.isfinite(seen).all()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_neither_written_nor_read(value, tmp_path):
    path, network = tmp_path / "weights.safetensors", QNetwork(SMALL)
    with torch.no_grad():
        network.value.bias.fill_(value)
    with pytest.raises(InputError, match="not finite"):
        save_network(path, network)
    assert not path.exists()
    save_network(path, QNetwork(SMALL))
    metadata = _metadata(path)
    write_tensors(path, network.state_dict(), metadata)
    with pytest.raises(InputError, match=r"not finite \(value\.bias\)"):
        Weights.load(path)


def _metadata(path):
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        return file.metadata()


def test_a_start_that_is_not_there_speaks_of_start(labels, tmp_path):
    with pytest.raises(InputError, match="'start'") as raised:
        train(config(labels, tmp_path, start=tmp_path / "none.safetensors"))
    assert "--planner" not in str(raised.value)
    with pytest.raises(InputError, match="--planner geometric"):
        load_network(tmp_path / "none.safetensors")


def test_the_folder_is_taken_before_any_label_is_read(tmp_path):
    none = config(tmp_path / "none", tmp_path / "out")
    with sole_writer(tmp_path / "out"), pytest.raises(InputError, match="another run is writing"):
        train(none)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="it is a file"):
        train(dataclasses.replace(none, out=tmp_path / "file"))
