"""Weights on disk: what is written is read again, and nothing else is."""

import json

import pytest
import torch
from safetensors.torch import save_file

from keygrasp.errors import InputError
from keygrasp.refine.actions import ACTIONS
from keygrasp.refine.network import Calibration, NetworkConfig, QNetwork, load_network, save_network
from keygrasp.refine.state import (
    GRID_ACROSS,
    GRID_ALONG,
    HEIGHT_CHANNELS,
    KEYPOINT_FEATURES,
    SCALARS,
    GraspFeatures,
)
from keygrasp.scene import TOTAL_ROWS


def random_features(count=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return GraspFeatures(
        torch.randn(count, HEIGHT_CHANNELS, GRID_ACROSS, GRID_ALONG, generator=generator),
        torch.randn(count, TOTAL_ROWS, KEYPOINT_FEATURES, generator=generator),
        torch.rand(count, TOTAL_ROWS, generator=generator) > 0.5,
        torch.randn(count, SCALARS, generator=generator),
    )


def test_round_trip(tmp_path):
    torch.manual_seed(0)
    network = QNetwork(NetworkConfig(keypoint_hidden=16, channels=(4, 8), hidden=32)).eval()
    save_network(tmp_path / "w.safetensors", network, Calibration(0.5, -1.0))
    loaded, calibration = load_network(tmp_path / "w.safetensors")
    features = random_features()
    assert torch.equal(network(features), loaded(features))
    assert network(features).shape == (3, ACTIONS)
    assert calibration == Calibration(0.5, -1.0)


def test_keypoints_are_a_set_and_masked_rows_dont_count():
    torch.manual_seed(0)
    network, features = QNetwork().eval(), random_features(2)
    order = torch.randperm(TOTAL_ROWS, generator=torch.Generator().manual_seed(1))
    turned = GraspFeatures(features.heights, features.keypoints[:, order], features.mask[:, order], features.scalars)
    assert torch.allclose(network(features), network(turned), atol=1e-5)
    changed = torch.where(features.mask[..., None], features.keypoints, 1e3)
    noisy = GraspFeatures(features.heights, changed, features.mask, features.scalars)
    assert torch.allclose(network(features), network(noisy), atol=1e-5)


def test_no_keypoint_at_all_still_gives_values():
    features = random_features(1)
    empty = GraspFeatures(features.heights, features.keypoints, torch.zeros_like(features.mask), features.scalars)
    assert torch.isfinite(QNetwork()(empty)).all()


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.safetensors"):
        load_network(tmp_path / "nothing.safetensors")


def test_a_file_that_is_no_safetensors_is_refused(tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"\x80\x04pickle?")
    with pytest.raises(InputError, match="not a safetensors file"):
        load_network(tmp_path / "w.safetensors")


def test_weights_of_another_layout_are_refused(tmp_path):
    save_file({"a": torch.zeros(1)}, str(tmp_path / "w.safetensors"), {"layout": "older"})
    with pytest.raises(InputError, match="layout 'older'"):
        load_network(tmp_path / "w.safetensors")


def test_weights_that_contradict_their_metadata_are_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    save_network(path, QNetwork(NetworkConfig(hidden=32)))
    metadata = {"layout": "kg-q1", "config": json.dumps({"hidden": 64}), "calibration": "{}"}
    save_file(QNetwork(NetworkConfig(hidden=32)).state_dict(), str(path), metadata)
    with pytest.raises(InputError, match="doesn't hold the weights"):
        load_network(path)


def test_calibration_is_monotone_and_centred():
    calibration = Calibration(2.0, -1.0)
    assert calibration.probability(0.5) == pytest.approx(0.5)
    assert calibration.probability(0.0) < calibration.probability(1.0)
