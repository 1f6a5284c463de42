"""The depth camera's noise under KG-1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ImageError
from keygrasp.protocol.constants import KG1, PROTOCOL


def camera_noise(
    depth: NDArray[np.floating], rng: np.random.Generator, protocol: KG1 = PROTOCOL
) -> NDArray[np.float32]:
    """Make a rendered depth image look measured.

    In this order: each pixel takes the depth of a neighbour (jitter), gets smooth and independent Gaussian noise,
    and is dropped with a probability that depends on whether a depth edge of the *true* image runs through it.

    Args:
        depth: (H, W) true depth in metres; NaN where there is nothing, which stays NaN.
        rng: Source of all randomness.
        protocol: Standard deviations and probabilities.

    Returns:
        (H, W) float32 metres, NaN where the camera has no value.

    Raises:
        ImageError: If ``depth`` has not two axes.
    """
    if depth.ndim != 2:
        raise ImageError(f"a depth image has two axes, this one has shape {depth.shape}", "Give one channel")
    true = np.asarray(depth, dtype=np.float64)
    noisy = _jittered(true, rng, protocol.jitter_pixels)
    noisy += _smooth_noise(true.shape, rng, protocol)
    noisy += rng.normal(0.0, protocol.iid_noise, true.shape)
    probability = np.where(depth_edges(true, protocol.edge_step), protocol.edge_dropout, protocol.dropout)
    noisy[rng.random(true.shape) < probability] = np.nan
    return noisy.astype(np.float32)


def depth_edges(depth: NDArray[np.floating], step: float) -> NDArray[np.bool_]:
    """Pixels (H, W) that differ from one of their four neighbours by more than ``step`` metres."""
    edges = np.zeros(depth.shape, dtype=bool)
    with np.errstate(invalid="ignore"):
        vertical = np.abs(np.diff(depth, axis=0)) > step
        horizontal = np.abs(np.diff(depth, axis=1)) > step
    edges[:-1] |= vertical
    edges[1:] |= vertical
    edges[:, :-1] |= horizontal
    edges[:, 1:] |= horizontal
    return edges


def _jittered(depth: NDArray[np.float64], rng: np.random.Generator, reach: int) -> NDArray[np.float64]:
    rows, columns = np.indices(depth.shape)
    shift = rng.integers(-reach, reach + 1, size=(2, *depth.shape))
    rows = np.clip(rows + shift[0], 0, depth.shape[0] - 1)
    columns = np.clip(columns + shift[1], 0, depth.shape[1] - 1)
    return np.asarray(depth[rows, columns])


def _smooth_noise(shape: tuple[int, int], rng: np.random.Generator, protocol: KG1) -> NDArray[np.float64]:
    """Gaussian noise on a coarse grid, bilinearly interpolated to ``shape`` (the grid's corners are the image's)."""
    grid = rng.normal(0.0, protocol.correlated_noise, (protocol.correlated_grid, protocol.correlated_grid))
    along_rows = _interpolation(shape[0], protocol.correlated_grid)
    along_columns = _interpolation(shape[1], protocol.correlated_grid)
    return np.asarray(along_rows @ grid @ along_columns.T)


def _interpolation(size: int, knots: int) -> NDArray[np.float64]:
    """(size, knots) matrix of linear interpolation weights from ``knots`` evenly spaced values to ``size``."""
    position = np.linspace(0.0, knots - 1.0, size)
    return np.maximum(0.0, 1.0 - np.abs(position[:, None] - np.arange(knots)[None, :]))
