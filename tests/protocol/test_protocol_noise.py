"""The camera's noise has the standard deviations, the smoothness and the dropout that KG-1 states."""

import dataclasses

import numpy as np
import pytest

from keygrasp.errors import ImageError
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.noise import camera_noise, depth_edges

_QUIET = dataclasses.replace(
    PROTOCOL, iid_noise=0.0, correlated_noise=0.0, jitter_pixels=0, edge_dropout=0.0, dropout=0.0
)


def _flat(value=0.7, size=128):
    return np.full((size, size), value)


def _many(protocol, depth, count=60):
    rng = np.random.default_rng(0)
    return np.stack([camera_noise(depth, rng, protocol) for _ in range(count)])


def test_without_noise_the_image_is_the_true_one():
    depth = np.random.default_rng(0).uniform(0.5, 0.7, (128, 128)).astype(np.float32)
    np.testing.assert_array_equal(camera_noise(depth, np.random.default_rng(1), _QUIET), depth)


def test_independent_noise_is_1_mm():
    images = _many(dataclasses.replace(_QUIET, iid_noise=PROTOCOL.iid_noise), _flat())
    assert np.std(images) == pytest.approx(0.001, rel=0.02)
    neighbours = np.corrcoef(images[:, :, :-1].ravel(), images[:, :, 1:].ravel())[0, 1]
    assert abs(neighbours) < 0.02


def test_correlated_noise_is_one_and_a_half_mm_at_its_knots_and_smooth():
    images = _many(dataclasses.replace(_QUIET, correlated_noise=PROTOCOL.correlated_noise), _flat(), 200) - 0.7
    corners = images[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert np.std(corners) == pytest.approx(0.0015, rel=0.1)
    neighbours = np.corrcoef(images[:, :, :-1].ravel(), images[:, :, 1:].ravel())[0, 1]
    assert neighbours > 0.98
    far = np.corrcoef(images[:, :, :-32].ravel(), images[:, :, 32:].ravel())[0, 1]
    assert abs(far) < 0.05


def test_jitter_takes_values_from_at_most_one_pixel_away():
    depth = np.add.outer(np.arange(128) * 1e-3, np.arange(128) * 1e-6) + 0.5
    image = camera_noise(depth, np.random.default_rng(0), dataclasses.replace(_QUIET, jitter_pixels=1))
    shift = (image - depth)[1:-1, 1:-1]
    assert np.abs(shift).max() <= 1.002e-3
    assert {-1, 0, 1} == set(np.unique(np.rint(shift / 1e-3).astype(int)))


def test_dropout_is_15_percent_at_edges_and_2_per_mille_elsewhere():
    depth = _flat()
    depth[:, 64:] = 0.6
    images = _many(PROTOCOL, depth, 200)
    missing = np.isnan(images)
    assert missing[:, :, 63:65].mean() == pytest.approx(0.15, abs=0.01)
    assert np.delete(missing, [63, 64], axis=2).mean() == pytest.approx(0.002, rel=0.1)


def test_edges_are_the_pixels_on_both_sides_of_a_step():
    depth = _flat(size=8)
    depth[2, 3] = 0.68
    expected = np.zeros((8, 8), dtype=bool)
    expected[[2, 1, 3, 2, 2], [3, 3, 3, 2, 4]] = True
    np.testing.assert_array_equal(depth_edges(depth, 0.01), expected)
    assert not depth_edges(depth, 0.05).any()


def test_background_stays_invalid_and_the_seed_decides():
    depth = _flat()
    depth[:10] = np.nan
    image = camera_noise(depth, np.random.default_rng(5), dataclasses.replace(PROTOCOL, jitter_pixels=0))
    assert np.isnan(image[:10]).all()
    assert image.dtype == np.float32
    again = camera_noise(depth, np.random.default_rng(5), dataclasses.replace(PROTOCOL, jitter_pixels=0))
    np.testing.assert_array_equal(image, again)
    with pytest.raises(ImageError):
        camera_noise(np.zeros(4), np.random.default_rng(0))
