"""The table's plane: a deterministic random-sample search, then a robust least-squares refinement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ImageError
from keygrasp.geometry.cameras import Intrinsics, deproject
from keygrasp.geometry.poses import Array
from keygrasp.perception.config import PerceptionConfig
from keygrasp.scene import OverheadView

_MIN_VALID = 200
_SEARCH_POINTS = 1000
_REFINE_POINTS = 4_000
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
    normal, offset = _search(_thin(points, _SEARCH_POINTS), config)
    plane = _refine(_thin(points, _REFINE_POINTS), normal, offset, config)
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


def _thin(points: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """At most ``count`` of the points (3, N), spread evenly over the image."""
    total = points.shape[1]
    if total <= count:
        return points
    # The golden ratio's multiples fill [0, 1) evenly and never fall into step with the image's rows.
    picks = (np.arange(count) * 0.6180339887498949) % 1.0 * total
    return np.asarray(points.take(picks.astype(np.intp), axis=1))


def _search(points: NDArray[np.float32], config: PerceptionConfig) -> tuple[Array, float]:
    """Best plane through three points, or z = 0; RANSAC (Fischler and Bolles, CACM 24(6), 1981) with a fixed seed."""
    triples = np.random.default_rng(0).integers(0, points.shape[1], (config.hypotheses, 3))
    a, b, c = np.moveaxis(points.T[triples].astype(float), 1, 0)
    normals = np.cross(b - a, c - a)
    lengths = np.linalg.norm(normals, axis=1)
    good = lengths > 1e-6
    normals = normals[good] / lengths[good, None]
    normals *= np.where(normals[:, 2:] < 0, -1.0, 1.0)
    offsets = np.sum(normals * a[good], axis=1)
    level = normals[:, 2] >= math.cos(_SEARCH_TILT)
    normals = np.vstack([[0.0, 0.0, 1.0], normals[level]])
    offsets = np.append(0.0, offsets[level])
    heights = normals.astype(np.float32) @ points - offsets.astype(np.float32)[:, None]
    support = np.count_nonzero(np.abs(heights) < config.plane_tolerance, axis=1) / points.shape[1]
    below = np.count_nonzero(heights < -3 * config.plane_tolerance, axis=1) / points.shape[1]
    score = np.where(below <= config.max_below, support, 0.0)
    best = int(np.argmax(score))
    # Three noisy points fit worse than the refined plane will, so the search asks for less support than the result.
    if score[best] < 0.5 * config.min_support:
        raise _no_table(float(support.max()), config)
    return normals[best], float(offsets[best])


def _refine(points: NDArray[np.float32], normal: Array, offset: float, config: PerceptionConfig) -> Plane:
    """Total least squares on the inliers, repeated; the noise is read below the plane, where no object can be."""
    low, high = -1.5 * config.plane_tolerance, 1.5 * config.plane_tolerance
    noise = config.plane_tolerance / 3
    for _ in range(_ROUNDS):
        heights = normal.astype(np.float32) @ points - np.float32(offset)
        inliers = points[:, (heights > low) & (heights < high)].astype(float)
        if inliers.shape[1] < 3:
            raise _no_table(0.0, config)
        centre = inliers.mean(axis=1, keepdims=True)
        centred = inliers - centre
        _, vectors = np.linalg.eigh(centred @ centred.T)
        normal = vectors[:, 0] * (1.0 if vectors[2, 0] >= 0 else -1.0)
        offset = float(normal @ centre[:, 0])
        residuals = normal @ centred
        noise = max(1.4826 * float(np.median(-residuals[residuals <= 0])), 1e-4)
        # Thin objects hide in the upper tail, so that side is cut closer.
        low, high = -max(3.0 * noise, 5e-4), max(2.0 * noise, 5e-4)
    support = float(np.mean(np.abs(normal @ points - offset) < max(3 * noise, config.plane_tolerance)))
    if support < config.min_support:
        raise _no_table(support, config)
    return Plane(normal, offset, math.acos(min(1.0, float(normal[2]))), noise, support)


def _no_table(support: float, config: PerceptionConfig) -> ImageError:
    return ImageError(
        f"no table plane: the best flat region holds {support:.0%} of the valid depth pixels and "
        f"must hold {config.min_support:.0%} with almost nothing beneath it",
        "Point the camera at the table, and check the intrinsics",
    )
