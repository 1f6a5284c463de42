"""The table's plane: a deterministic random-sample search, then a robust least-squares refinement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ImageError
from keygrasp.geometry.cameras import Intrinsics, deproject
from keygrasp.geometry.poses import Array
from keygrasp.perception.config import PerceptionConfig
from keygrasp.scene import OverheadView

_MIN_VALID = 200
_POINTS = 4_000
#: Every how-many-th of those points the search counts, and of these the first look at all planes.
_SEARCH_THIN = 4
#: Planes that are left after the first look.
_FINALISTS = 16
_ROUNDS = 4
#: Hypotheses steeper than this against z = 0 aren't tables in any setting; they would be walls.
_SEARCH_TILT = math.radians(60.0)


@dataclass(frozen=True, eq=False)
class Plane:
    """The table in the workspace frame: points p with ``normal · p = offset``.

    Attributes:
        normal: (3,) unit normal, pointing up.
        offset: Metres from the workspace's origin along ``normal``.
        tilt: Angle in radians between ``normal`` and the workspace's z.
        noise: Standard deviation in metres of the depth noise, measured across the plane.
        support: Share of the valid pixels that lie on it.
    """

    normal: Array
    offset: float
    tilt: float
    noise: float
    support: float

    def heights_of(self, points: Array) -> Array:
        """Signed heights (...,) in metres above the plane of workspace points (..., 3)."""
        return np.asarray(points @ self.normal - self.offset)


@lru_cache(maxsize=4)
def _rays(intrinsics: Intrinsics, rotation: bytes) -> NDArray[np.float32]:
    """Workspace directions (3, H·W) of the pixels at depth 1 m; cached, as a camera rarely moves."""
    rays = deproject(np.ones((intrinsics.height, intrinsics.width)), intrinsics).reshape(-1, 3)
    turned = (np.frombuffer(rotation).reshape(3, 3) @ rays.T).astype(np.float32)
    turned.setflags(write=False)
    return turned


def workspace_points(view: OverheadView) -> NDArray[np.float32]:
    """Valid pixels as workspace points (3, N) in metres, in raster order; one row a coordinate, for speed."""
    pose = view.camera_in_workspace.astype(np.float64)
    rays = _rays(view.intrinsics, pose[:3, :3].tobytes())
    depth = view.depth.ravel()
    valid = np.flatnonzero(np.isfinite(depth))
    points = rays.take(valid, axis=1)
    points *= depth.take(valid)
    points += pose[:3, 3:].astype(np.float32)
    return points


def estimate_table(view: OverheadView, config: PerceptionConfig | None = None) -> Plane:
    """Find the table's plane.

    The table is the plane with the most support that has almost nothing beneath it: so the flat top of an object
    that covers half of the image isn't taken for it. The same image gives the same plane.

    Raises:
        ImageError: If there are too few valid pixels, no such plane, or it lies far from the workspace's z = 0.
    """
    return table_of_points(workspace_points(view), view.depth.size, config or PerceptionConfig())


def table_of_points(points: NDArray[np.float32], pixels: int, config: PerceptionConfig) -> Plane:
    """Find the table among workspace points (3, N) of an image with ``pixels`` pixels; see :func:`estimate_table`."""
    valid = points.shape[1]
    if valid < max(_MIN_VALID, 0.05 * pixels):
        raise ImageError(
            f"only {valid} of {pixels} depth pixels are valid, too few to find the table",
            "Check the camera's range and exposure",
        )
    thinned = _thin(points, _POINTS)
    normal, offset = _search(np.ascontiguousarray(thinned[:, ::_SEARCH_THIN]), config)
    plane = _refine(thinned, normal, offset, config)
    if plane.tilt > config.max_tilt:
        raise ImageError(
            f"the table is tilted by {math.degrees(plane.tilt):.1f}° against the workspace's z = 0 plane",
            "Check camera_in_workspace, or raise max_tilt",
        )
    if abs(plane.offset) > config.max_offset:
        raise ImageError(
            f"the table lies {plane.offset * 1000:.0f} mm from the workspace's z = 0 plane",
            "Check camera_in_workspace and the depth's unit, or raise max_offset",
        )
    return plane


@lru_cache(maxsize=4)
def _golden(count: int) -> Array:
    """Multiples (count,) of the golden ratio modulo 1: they fill [0, 1) evenly, and so does every n-th of them."""
    return np.asarray((np.arange(count) * 0.6180339887498949) % 1.0, dtype=float)


def _thin(points: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """At most ``count`` of the points (3, N), spread evenly over the image and never in step with its rows."""
    total = points.shape[1]
    if total <= count:
        return points
    return np.asarray(points.take((_golden(count) * total).astype(np.intp), axis=1))


@lru_cache(maxsize=4)
def _triples(points: int, hypotheses: int) -> NDArray[np.int64]:
    """Triples (3, hypotheses) of points, the same every time."""
    return np.random.default_rng(0).integers(0, points, (hypotheses, 3)).T


def _search(points: NDArray[np.float32], config: PerceptionConfig) -> tuple[Array, float]:
    """Best plane through three points, or z = 0; RANSAC (Fischler and Bolles, CACM 24(6), 1981) with a fixed seed.

    A quarter of the points tells which few planes are worth counting all of them.
    """
    a, b, c = (points.take(picks, axis=1).astype(float) for picks in _triples(points.shape[1], config.hypotheses))
    (ux, uy, uz), (vx, vy, vz) = b - a, c - a
    normals = np.stack([uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx])
    lengths = np.sqrt(np.einsum("kn,kn->n", normals, normals))
    normals *= np.where(normals[2] < 0, -1.0, 1.0) / np.maximum(lengths, 1e-12)
    level = (lengths > 1e-6) & (normals[2] >= math.cos(_SEARCH_TILT))
    normals = np.column_stack([[0.0, 0.0, 1.0], normals[:, level]]).T
    offsets = np.append(0.0, np.einsum("kn,kn->n", normals[1:].T, a[:, level]))
    if len(normals) > _FINALISTS:
        support, below = _shares(points[:, ::_SEARCH_THIN], normals, offsets, config)
        rough = np.where(below <= 2 * config.max_below, support, 0.0)
        finalists = np.sort(np.argsort(-rough, kind="stable")[:_FINALISTS])
        normals, offsets = normals[finalists], offsets[finalists]
    support, below = _shares(points, normals, offsets, config)
    score = np.where(below <= config.max_below, support, 0.0)
    best = int(np.argmax(score))
    # Three noisy points fit worse than the refined plane will, so the search asks for less support than the result.
    if score[best] < 0.5 * config.min_support:
        raise _no_table(float(support.max()), config)
    return normals[best], float(offsets[best])


def _shares(
    points: NDArray[np.float32], normals: Array, offsets: Array, config: PerceptionConfig
) -> tuple[Array, Array]:
    """Shares (n,) of the points (3, N) on each plane, and well below it."""
    heights = normals.astype(np.float32) @ points
    heights -= offsets.astype(np.float32)[:, None]
    below = (heights < -3 * config.plane_tolerance).mean(axis=1)
    support = (np.abs(heights, out=heights) < config.plane_tolerance).mean(axis=1)
    return support, below


def _refine(points: NDArray[np.float32], normal: Array, offset: float, config: PerceptionConfig) -> Plane:
    """Total least squares on the inliers, repeated; the noise is read below the plane, where no object can be."""
    low, high = -1.5 * config.plane_tolerance, 1.5 * config.plane_tolerance
    noise = config.plane_tolerance / 3
    # About their middle, sums of squares of double precision lose nothing that matters.
    middle = points.mean(axis=1, dtype=float)
    centred = points - middle[:, None]
    offset -= float(normal @ middle)
    heights = normal @ centred - offset
    for _ in range(_ROUNDS):
        inlier = (heights > low) & (heights < high)
        count = np.count_nonzero(inlier)
        if count < 3:
            raise _no_table(0.0, config)
        inliers = centred * inlier
        centre = inliers.sum(axis=1) / count
        _, vectors = np.linalg.eigh(inliers @ centred.T - count * np.outer(centre, centre))
        normal = vectors[:, 0] * (1.0 if vectors[2, 0] >= 0 else -1.0)
        offset = float(normal @ centre)
        heights = normal @ centred - offset
        # Rounding lifts even a perfect plane's points by less than this.
        noise = max(-1.4826 * median(heights[inlier & (heights < 1e-9)]), 1e-4)
        # Thin objects hide in the upper tail, so that side is cut closer.
        low, high = -max(3.0 * noise, 5e-4), max(2.0 * noise, 5e-4)
    support = float(np.mean(np.abs(heights) < max(3 * noise, config.plane_tolerance)))
    if support < config.min_support:
        raise _no_table(support, config)
    return Plane(normal, offset + float(normal @ middle), math.acos(min(1.0, float(normal[2]))), noise, support)


def median(values: NDArray[np.floating[Any]]) -> float:
    """Median of values (n,), NaN without any: NumPy's own costs several times as much for so few."""
    if values.size == 0:
        return math.nan
    half = values.size // 2
    if values.size % 2:
        return float(np.partition(values, half)[half])
    low, high = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float((low + high) / 2)


def _no_table(support: float, config: PerceptionConfig) -> ImageError:
    return ImageError(
        f"no table plane: the best flat region holds {support:.0%} of the valid depth pixels and "
        f"must hold {config.min_support:.0%} with almost nothing beneath it",
        "Point the camera at the table, and check the intrinsics",
    )
