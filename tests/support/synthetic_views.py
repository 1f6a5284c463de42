"""Depth images of exactly known scenes, ray-marched in numpy: no simulator, no renderer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.ndimage import zoom

from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.geometry.poses import make_pose
from keygrasp.scene import OverheadView

KG1 = Intrinsics(128, 128, 256.0, 256.0, 63.5, 63.5)
#: Height in metres of the surface at workspace x, y.
Surface = Callable[[np.ndarray, np.ndarray], np.ndarray]


def placed(surface: Surface, x: float = 0.0, y: float = 0.0, yaw: float = 0.0) -> Surface:
    """The surface moved to (x, y) and turned by yaw."""
    c, s = np.cos(yaw), np.sin(yaw)
    return lambda u, v: surface(c * (u - x) + s * (v - y), -s * (u - x) + c * (v - y))


def box(length: float, width: float, height: float) -> Surface:
    return lambda u, v: np.where((np.abs(u) < length / 2) & (np.abs(v) < width / 2), height, 0.0)


def cylinder(radius: float, height: float) -> Surface:
    return lambda u, v: np.where(u**2 + v**2 < radius**2, height, 0.0)


def ring(outer: float, inner: float, height: float) -> Surface:
    return lambda u, v: np.where((u**2 + v**2 < outer**2) & (u**2 + v**2 > inner**2), height, 0.0)


def l_shape(size: float, arm: float, height: float) -> Surface:
    def surface(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, b = u + size / 2, v + size / 2
        inside = (a > 0) & (b > 0) & (a < size) & (b < size) & ((a < arm) | (b < arm))
        return np.where(inside, height, 0.0)

    return surface


def dome(radius: float) -> Surface:
    return lambda u, v: np.sqrt(np.maximum(radius**2 - u**2 - v**2, 0.0))


def pyramid(base: float, height: float) -> Surface:
    return lambda u, v: np.maximum(0.0, height * (1 - 2 * np.maximum(np.abs(u), np.abs(v)) / base))


def union(*surfaces: Surface) -> Surface:
    return lambda u, v: np.max([s(u, v) for s in surfaces], axis=0)


def nothing() -> Surface:
    return lambda u, v: np.zeros_like(u)


def tilted_overhead(angle: float, height: float = 0.70) -> np.ndarray:
    """Camera pose that looks at the workspace's origin from ``angle`` beside the vertical."""
    tilt = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    return make_pose(tilt @ [0, 0, height], tilt @ np.diag([1.0, -1.0, -1.0]))


def render(
    surface: Surface,
    *,
    intrinsics: Intrinsics = KG1,
    pose: np.ndarray | None = None,
    noise: np.random.Generator | None = None,
    reported_pose: np.ndarray | None = None,
) -> OverheadView:
    """Depth image of a surface over the plane z = 0; ``reported_pose`` is what the view claims as its pose."""
    pose = overhead_pose(0.70) if pose is None else pose
    rows, columns = np.indices((intrinsics.height, intrinsics.width), dtype=float)
    rays = np.stack(
        [(columns - intrinsics.cx) / intrinsics.fx, (rows - intrinsics.cy) / intrinsics.fy, np.ones_like(rows)], -1
    )
    rays = rays @ pose[:3, :3].T
    origin = pose[:3, 3]
    levels = np.arange(0.16, -0.0005, -0.001)
    depth = np.full(rows.shape, np.nan)
    above = np.full(rows.shape, np.nan)
    for level in levels:
        t = (level - origin[2]) / rays[..., 2]
        gap = level - surface(origin[0] + t * rays[..., 0], origin[1] + t * rays[..., 1])
        hit = np.isnan(depth) & (gap <= 0)
        share = np.where(np.isnan(above), 0.0, above / np.maximum(above - gap, 1e-12))
        before = (level + 0.001 - origin[2]) / rays[..., 2]
        steep = gap < -0.002
        depth[hit] = np.where(steep, t, before + share * (t - before))[hit]
        above = np.where(np.isnan(depth), gap, above)
    depth[np.isnan(depth)] = (-origin[2] / rays[..., 2])[np.isnan(depth)]
    image = depth if noise is None else noisy(depth, noise)
    return OverheadView(image.astype(np.float32), intrinsics, pose if reported_pose is None else reported_pose)


def noisy(depth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise like a cheap camera's: independent 1 mm, correlated 1.5 mm, ±1 px jitter, dropouts at depth edges."""
    height, width = depth.shape
    rows, columns = np.indices(depth.shape)
    rows = np.clip(rows + rng.integers(-1, 2, depth.shape), 0, height - 1)
    columns = np.clip(columns + rng.integers(-1, 2, depth.shape), 0, width - 1)
    jittered = depth[rows, columns]
    coarse = rng.normal(0, 0.0015, (16, 16))
    slow = zoom(coarse, (height / 16, width / 16), order=1)
    result = jittered + slow + rng.normal(0, 0.001, depth.shape)
    edge = np.hypot(*np.gradient(depth)) > 0.005
    drop = rng.random(depth.shape) < np.where(edge, 0.15, 0.002)
    result[drop] = np.nan
    return result
