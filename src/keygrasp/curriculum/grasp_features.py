"""Features of grasp trials: which objects, and which poses of them, are alike for a gripper. Lengths in metres.

A sample graph joins samples by the cosine of their features, so :func:`standardise` them over all samples first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.curriculum.evidence import Array
from keygrasp.scene import KeypointKind, Keypoints

if TYPE_CHECKING:
    from keygrasp.objects import PreparedObject

#: Lengths are divided by it, metres.
_LENGTH = 0.1
#: Bins of a shape distribution, and the pairs that fill it.
_BINS = 8
_PAIRS = 2048


def pose_features(keypoints: Keypoints) -> Array:
    """Features (D,) of an object as it lies: outline, widths and heights from its keypoints."""
    skeleton = keypoints.mask & (keypoints.kind == KeypointKind.SKELETON)
    return _pose(keypoints.of(KeypointKind.CONTOUR), keypoints.radius[skeleton], keypoints.of(KeypointKind.SURFACE))


def pose_features_of_rows(rows: NDArray[np.float32], mask: NDArray[np.bool_]) -> Array:
    """The same from rows (K, 6 + kinds) as the refiner stores them: x, y, z, normal, radius, one column a kind."""
    kind = rows[:, 6:].argmax(axis=1)
    contour, skeleton, surface = (
        rows[mask & (kind == k)] for k in (KeypointKind.CONTOUR, KeypointKind.SKELETON, KeypointKind.SURFACE)
    )
    return _pose(contour[:, :3], skeleton[:, 5], surface[:, :3])


def object_features(vertices: Array, extents: Array, volume: float) -> Array:
    """Features (D,) of an object in any pose: its box, how much of it is filled, and its shape distribution.

    Args:
        vertices: (V, 3) of its surface.
        extents: (3,) sides of its box, ascending.
        volume: Cubic metres.
    """
    box = np.maximum(np.asarray(extents, dtype=float), 1e-6)
    return np.concatenate([box / _LENGTH, box[:2] / box[2], [volume / box.prod()], _distances(vertices, box[2])])


def features_of_objects(objects: Iterable[PreparedObject]) -> Array:
    """Standardised :func:`object_features` (N, D) of prepared objects."""
    return standardise([object_features(o.vertices, o.extents, o.volume) for o in objects])


def standardise(features: ArrayLike) -> Array:
    """Columns with mean 0 and deviation 1 over all samples (N, D); constant ones become 0."""
    rows = np.asarray(features, dtype=np.float64)
    spread = rows.std(axis=0)
    centred = rows - rows.mean(axis=0)
    return np.asarray(np.where(spread > 1e-9, centred / np.where(spread > 1e-9, spread, 1), 0))


def _pose(contour: NDArray[np.floating], radius: NDArray[np.floating], surface: NDArray[np.floating]) -> Array:
    if len(contour) < 3:
        return np.zeros(5 + _BINS + 4 + 3)
    flat = contour[:, :2] - contour[:, :2].mean(axis=0)
    _, axes = np.linalg.eigh(flat.T @ flat)
    sides = np.ptp(flat @ axes, axis=0)  # short axis first
    width = 2 * radius if len(radius) else np.zeros(1)
    height = surface[:, 2] if len(surface) else contour[:, 2]
    around = np.linalg.norm(np.diff(contour[:, :2], axis=0, append=contour[:1, :2]), axis=1).sum()
    outline = [*sides / _LENGTH, sides[0] / max(sides[1], 1e-6), around / max(sides.sum(), 1e-6), len(radius) / 10]
    widths = np.quantile(width, [0.1, 0.5, 0.9, 1.0]) / _LENGTH
    heights = np.quantile(height, [0.1, 0.5, 1.0]) / _LENGTH
    return np.concatenate([outline, _distances(flat, float(np.linalg.norm(sides))), widths, heights])


def _distances(points: NDArray[np.floating], longest: float) -> Array:
    """Histogram of distances between random pairs of points (D2 of Osada et al., ACM TOG 2002), which sums to 1."""
    first, second = np.random.default_rng(0).integers(len(points), size=(2, _PAIRS))
    share = np.linalg.norm(points[first] - points[second], axis=1) / max(longest, 1e-6)
    return np.histogram(np.clip(share, 0, 1), bins=_BINS, range=(0, 1))[0] / _PAIRS
