"""The frozen geometric baseline of KG-1: contour antipodal pairs, the one nearest to the centroid.

Every "tail" is defined by where this planner fails, so it must never change: it uses nothing of the product's
perception or generator, and a test compares its answers on synthetic views with stored ones. A better baseline gets
a new name.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from keygrasp.extras import require
from keygrasp.geometry.cameras import deproject
from keygrasp.geometry.poses import Array, transform_points
from keygrasp.scene import Attempt, GraspPlan, GripperSpec, OverheadView, PlanarGrasp, ReachFilter

_CELL = 0.0025  # edge of a cell of the height grid
_CELLS = 144  # cells along an edge of the grid, which is centred on the workspace's origin
_STANDS_OUT = 0.008  # what is higher than this above the table belongs to an object
_MIN_CELLS = 12  # a smaller blob is noise
_SPACING = 0.004  # metres between points of the contour
_SMOOTHING = 1.5  # standard deviation in points of the contour's smoothing
_DEPTH = 0.020  # the pads reach this far below the surface between the contacts
_EXTRA_OPENING = 0.016  # the opening is the span plus this
_MIN_SPAN = 0.004
_MAX_CANDIDATES = 32  # how many alternatives are reported


@dataclass(frozen=True)
class _Strictness:
    friction: float
    clearance: float
    padding: float


_STRICT = _Strictness(friction=0.4, clearance=0.005, padding=0.003)
_LENIENT = _Strictness(friction=0.5, clearance=0.003, padding=0.0)


@dataclass(frozen=True)
class _Contour:
    """Evenly spaced outline points (n, 2) in metres with outward unit normals (n, 2)."""

    points: Array
    normals: Array


class ReferencePlanner:
    """Antipodal grasps on the outline of what stands highest out of the table (at z = 0, by the camera's pose).

    Args:
        lenient: Friction 0.5, 3 mm clearance and no padding instead of 0.4, 5 mm and 3 mm.
    """

    def __init__(self, lenient: bool = False) -> None:
        self._strictness = _LENIENT if lenient else _STRICT
        self._name = "reference-lenient" if lenient else "reference"

    @property
    def name(self) -> str:
        """``reference`` or ``reference-lenient``."""
        return self._name

    def plan(
        self,
        view: OverheadView,
        gripper: GripperSpec,
        *,
        rng: np.random.Generator,
        attempts: tuple[Attempt, ...] = (),
        reach: ReachFilter | None = None,
    ) -> GraspPlan:
        """Plan on one image; see :meth:`keygrasp.scene.Planner.plan`. Frozen: attempts and reach are ignored."""
        start = time.perf_counter()
        heights = _height_grid(view)
        mask = _largest_object(heights)
        if mask is None:
            return GraspPlan(None, reason="nothing stands on the table", timings_ms=_elapsed(start))
        contour = _outline(mask)
        pairs, rejections = _antipodal_pairs(contour, gripper, self._strictness)
        grasps = _grasps_of_pairs(contour, pairs, heights, self._strictness)
        clear = _gripper_clear(heights, grasps, gripper, self._strictness)
        rejections["the gripper would collide"] = int(np.count_nonzero(~clear))
        grasps = grasps[clear]
        if len(grasps) == 0:
            reason = max(rejections, key=lambda name: rejections[name])
            return GraspPlan(None, rejections=rejections, reason=reason, timings_ms=_elapsed(start))
        rows, columns = np.nonzero(mask)
        centroid = _xy(rows.mean(), columns.mean())
        distance = np.linalg.norm(grasps[:, :2] - centroid, axis=1)
        order = np.argsort(distance, kind="stable")[:_MAX_CANDIDATES]
        candidates = tuple(_planar(grasps[i], -float(distance[i])) for i in order)
        return GraspPlan(candidates[0], candidates, rejections, timings_ms=_elapsed(start))


def _planar(row: Array, score: float) -> PlanarGrasp:
    x, y, z, yaw, width = row.tolist()
    return PlanarGrasp(x, y, z, yaw, width, score)


def _elapsed(start: float) -> dict[str, float]:
    return {"total": 1e3 * (time.perf_counter() - start)}


def _cv2() -> ModuleType:
    return require("cv2", "grasp")


def _xy(row: float | Array, column: float | Array) -> Array:
    """Workspace x, y of fractional cells."""
    half = (_CELLS - 1) / 2
    return np.stack([(np.asarray(column) - half) * _CELL, (np.asarray(row) - half) * _CELL], axis=-1)


def _height_grid(view: OverheadView) -> Array:
    """Heights (_CELLS, _CELLS) above z = 0: highest pixel of each cell, holes from the nearest, median of 3×3."""
    points = transform_points(view.camera_in_workspace, deproject(view.depth, view.intrinsics)).reshape(-1, 3)
    points = points[np.isfinite(points).all(axis=1)]
    cells = np.rint(points[:, 1::-1] / _CELL + (_CELLS - 1) / 2).astype(np.intp)
    inside = np.all((cells >= 0) & (cells < _CELLS), axis=1)
    heights = np.full((_CELLS, _CELLS), -np.inf)
    np.maximum.at(heights, (cells[inside, 0], cells[inside, 1]), points[inside, 2])
    empty = ~np.isfinite(heights)
    if empty.all():
        return np.zeros_like(heights)
    nearest = ndimage.distance_transform_edt(empty, return_distances=False, return_indices=True)
    return np.asarray(ndimage.median_filter(heights[tuple(nearest)], size=3))


def _largest_object(heights: Array) -> NDArray[np.bool_] | None:
    """Cells (H, W) of the largest connected region that stands out, or ``None``."""
    labels, count = ndimage.label(heights > _STANDS_OUT)
    if count == 0:
        return None
    sizes = np.bincount(labels.ravel())[1:]
    if sizes.max() < _MIN_CELLS:
        return None
    return np.asarray(ndimage.binary_fill_holes(labels == 1 + int(np.argmax(sizes))))


def _outline(mask: NDArray[np.bool_]) -> _Contour:
    cv2 = _cv2()
    found, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    longest = max(found, key=len)[:, 0, :].astype(float)  # (column, row)
    points = _xy(longest[:, 1], longest[:, 0])
    closed = np.vstack([points, points[:1]])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    count = max(8, round(along[-1] / _SPACING))
    at = np.arange(count) * along[-1] / count
    even = np.stack([np.interp(at, along, closed[:, k]) for k in (0, 1)], axis=1)
    smooth = ndimage.gaussian_filter1d(even, _SMOOTHING, axis=0, mode="wrap")
    tangent = np.roll(smooth, -1, axis=0) - np.roll(smooth, 1, axis=0)
    normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    x, y = smooth.T
    turn = float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))  # > 0: counter-clockwise, so normals point out
    # Cell centres lie half a cell inside the true outline.
    normal = normal if turn > 0 else -normal
    return _Contour(smooth + 0.5 * _CELL * normal, normal)


def _antipodal_pairs(
    contour: _Contour, gripper: GripperSpec, strictness: _Strictness
) -> tuple[NDArray[np.intp], dict[str, int]]:
    """Index pairs (m, 2) whose connecting line lies in both friction cones and which fit the gripper."""
    first, second = np.triu_indices(len(contour.points), 1)
    line = contour.points[second] - contour.points[first]
    span = np.linalg.norm(line, axis=1)
    line /= np.maximum(span, 1e-12)[:, None]
    cosine = 1.0 / np.hypot(1.0, strictness.friction)
    outward_first = -np.sum(contour.normals[first] * line, axis=1)
    outward_second = np.sum(contour.normals[second] * line, axis=1)
    antipodal = (outward_first >= cosine) & (outward_second >= cosine) & (span >= _MIN_SPAN)
    fits = span + _EXTRA_OPENING <= gripper.max_opening
    rejections = {
        "no antipodal contacts": int(np.count_nonzero(~antipodal)) if not antipodal.any() else 0,
        "wider than the gripper opens": int(np.count_nonzero(antipodal & ~fits)),
    }
    keep = antipodal & fits
    return np.stack([first[keep], second[keep]], axis=1), rejections


def _grasps_of_pairs(contour: _Contour, pairs: NDArray[np.intp], heights: Array, strictness: _Strictness) -> Array:
    """Grasps (m, 5) as x, y, z, yaw, width of index pairs (m, 2)."""
    a, b = contour.points[pairs[:, 0]], contour.points[pairs[:, 1]]
    line = b - a
    span = np.linalg.norm(line, axis=1)
    share = np.linspace(0.1, 0.9, 9)
    between = a[:, None] + share[None, :, None] * line[:, None]
    top = _sample(heights, between).max(axis=1)
    z = np.maximum(top - _DEPTH, strictness.clearance)
    yaw = np.arctan2(line[:, 1], line[:, 0])
    middle = (a + b) / 2
    return np.column_stack([middle, z, yaw, span + _EXTRA_OPENING])


def _sample(heights: Array, xy: Array) -> Array:
    """Heights (...,) at points (..., 2), nearest cell; 0 outside the grid and where only the table is seen."""
    columns, rows = np.moveaxis(np.rint(xy / _CELL + (_CELLS - 1) / 2).astype(np.intp), -1, 0)
    inside = (rows >= 0) & (rows < _CELLS) & (columns >= 0) & (columns < _CELLS)
    values = heights[np.clip(rows, 0, _CELLS - 1), np.clip(columns, 0, _CELLS - 1)]
    return np.where(inside & (values > _STANDS_OUT), values, 0.0)


def _gripper_clear(heights: Array, grasps: Array, gripper: GripperSpec, strictness: _Strictness) -> NDArray[np.bool_]:
    """Whether all under both padded fingers, and all under the palm, is ``clearance`` lower than these (m,)."""
    half_across = gripper.pad_width / 2 + strictness.padding
    outward = np.linspace(-strictness.padding, gripper.pad_thickness + strictness.padding, 8)
    across = np.linspace(-half_across, half_across, 12)
    reach = grasps[:, 4, None] / 2 + outward[None]
    fingers = _highest(heights, grasps, np.concatenate([reach, -reach], axis=1), across)
    along = np.linspace(-gripper.palm_along / 2, gripper.palm_along / 2, 40)
    across = np.linspace(-gripper.palm_across / 2, gripper.palm_across / 2, 15)
    palm = _highest(heights, grasps, np.broadcast_to(along, (len(grasps), along.size)), across)
    room = grasps[:, 2] - strictness.clearance + 1e-9
    return np.asarray((fingers <= room) & (palm <= room + gripper.pad_height))


def _highest(heights: Array, grasps: Array, along: Array, across: Array) -> Array:
    """Highest surface (m,) on the grid ``along`` (m, a) by ``across`` (b,) in each grasp's own frame."""
    direction = np.stack([np.cos(grasps[:, 3]), np.sin(grasps[:, 3])], axis=1)
    sideways = np.stack([-direction[:, 1], direction[:, 0]], axis=1)
    points = (
        grasps[:, None, None, :2]
        + along[:, :, None, None] * direction[:, None, None, :]
        + across[None, None, :, None] * sideways[:, None, None, :]
    )
    return np.asarray(_sample(heights, points).max(axis=(1, 2)))
