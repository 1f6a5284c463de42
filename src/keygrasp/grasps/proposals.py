"""Raw proposals: opposite contacts of outlines and inscribed circles, before the gripper is looked at."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, YAW, X, Y
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.perception import trace_outlines
from keygrasp.perception.config import cv2
from keygrasp.scene import HeightMap, KeypointKind, Keypoints, Segment

TOO_WIDE = "too wide"
NOT_ANTIPODAL = "not antipodal"
#: Yaws tried at the centre of mass, whatever the outline says.
_CENTRE_YAWS = 12
#: Outlines that lie less than this many cells apart, on average, give the same pairs.
_SAME_OUTLINE = 0.5
#: Proposals that agree to these steps in x, y (metres), yaw (radians) and width (metres) are nearly the same.
_LIKE = np.array([0.0015, 0.0015, 0.06, 0.002])


def propose(
    heights: NDArray[np.float32],
    height_map: HeightMap,
    segment: Segment,
    keypoints: Keypoints,
    mass_centre: Array,
    max_span: float,
    config: GeneratorConfig,
) -> tuple[Array, Counter[str]]:
    """Contact pairs as grasps (n, 5) whose z is 0 and whose width is the distance between the contacts.

    Outlines are traced at several heights: an object with sloped or rounded sides is narrower at the fingertips'
    depth than its silhouette.

    Args:
        heights: (H, W) smoothed heights.
        height_map: Gives the grid's place.
        segment: The object.
        keypoints: Its keypoints.
        mass_centre: (3,) its centre of mass, as far as it is visible.
        max_span: Largest distance in metres between contacts that the open gripper spans with clearance.
        config: Settings.

    Returns:
        The proposals, and how many pairs were dropped for which reason.
    """
    rejections: Counter[str] = Counter()
    near = cv2.dilate(segment.mask.astype(np.uint8), np.ones((3, 3), np.uint8)).view(np.bool_)
    parts = []
    traced, perimeter = np.zeros_like(segment.mask), 0.0
    for level in _levels(segment, config):
        mask = segment.mask if level is None else near & (heights > level)
        # Where the sides are vertical, all levels have the same outline.
        if np.count_nonzero(mask ^ traced) <= _SAME_OUTLINE * perimeter:
            continue
        outlines = trace_outlines(mask, height_map, config.spacing)
        if outlines:
            points = np.concatenate([o.points for o in outlines])
            normals = np.concatenate([o.normals for o in outlines])
            parts.append(_pairs(points, normals, mass_centre, max_span, config, rejections))
            traced, perimeter = mask, sum(o.length for o in outlines) / height_map.cell
    parts.append(_circle_pairs(keypoints, max_span, rejections))
    parts.append(_central(mass_centre, max_span))
    return np.concatenate(parts), rejections


def different(proposals: Array) -> Array:
    """The proposals (n, 5) without those that are nearly the same as an earlier one."""
    steps = np.rint(proposals[:, [X, Y, YAW, WIDTH]] / _LIKE).astype(np.int64)
    # Steps stay far below 2^15, so one number can hold all four.
    _, first = np.unique(steps @ np.array([1 << 48, 1 << 32, 1 << 16, 1]), return_index=True)
    return proposals[np.sort(first)]


def _levels(segment: Segment, config: GeneratorConfig) -> list[float | None]:
    """Heights at which outlines are traced, the silhouette (``None``) first."""
    shares = np.arange(1, config.levels) / config.levels
    return [None, *(float(share) * segment.top for share in shares)]


def _pairs(
    points: Array,
    normals: Array,
    mass_centre: Array,
    max_span: float,
    config: GeneratorConfig,
    rejections: Counter[str],
) -> Array:
    """Antipodal pairs of one outline: both normals within the friction cone around the line between the points.

    The antipodal condition is Nguyen's (Int. J. Robotics Research 7(3), 1988).
    """
    cone = np.cos(np.arctan(config.friction))
    # behind[i, j]: how far each of i and j lies behind the other at least, seen along the other's outward normal.
    behind = np.einsum("nk,nk->n", normals, points)[:, None] - normals @ points.T
    behind = np.minimum(behind, behind.T)
    squares = np.einsum("nk,nk->n", points, points)
    squares = squares[:, None] + squares - 2 * (points @ points.T)
    first, second = np.nonzero((behind > 1e-6) & (behind * behind >= cone**2 * squares))
    once = first < second
    first, second = first[once], second[once]
    spans, behind = np.sqrt(squares[first, second]), behind[first, second]
    fits = spans <= max_span
    rejections[NOT_ANTIPODAL] += len(points) * (len(points) - 1) // 2 - len(first)
    rejections[TOO_WIDE] += int(np.count_nonzero(~fits))
    first, second, spans, behind = first[fits], second[fits], spans[fits], behind[fits]
    middles = (points[first] + points[second]) / 2
    off_centre = np.hypot(*(middles - mass_centre[:2]).T)
    order = np.argsort(off_centre / 0.03 - behind / spans / (1 - cone) * 0.3, kind="stable")[: config.pairs]
    first, second, spans = first[order], second[order], spans[order]
    # Flat pads turn until they lie on the surface, so the yaw follows the normals as much as the line.
    axes = (points[second] - points[first]) / spans[:, None] + (normals[second] - normals[first]) / 2
    return _grasps(middles[order], axes, spans)


def _circle_pairs(keypoints: Keypoints, max_span: float, rejections: Counter[str]) -> Array:
    """The two tangent contacts of each inscribed circle that lie on opposite sides."""
    rows = keypoints.mask & (keypoints.kind == KeypointKind.SKELETON)
    contacts = keypoints.contacts[rows].astype(float)
    lines = contacts[:, 1] - contacts[:, 0]
    spans = np.linalg.norm(lines, axis=1)
    # Opposite contacts are nearly a diameter apart; at a corner the chord is much shorter.
    opposite = spans >= 1.7 * keypoints.radius[rows]
    fits = spans <= max_span
    rejections[NOT_ANTIPODAL] += int(np.sum(~opposite))
    rejections[TOO_WIDE] += int(np.sum(opposite & ~fits))
    keep = opposite & fits & (spans > 1e-6)
    return _grasps(contacts[keep].mean(axis=1), lines[keep], spans[keep])


def _central(mass_centre: Array, max_span: float) -> Array:
    """Grasps at the centre of mass in all directions, as wide as the gripper opens."""
    yaws = np.arange(_CENTRE_YAWS) * (np.pi / _CENTRE_YAWS) - np.pi / 2
    axes = np.column_stack([np.cos(yaws), np.sin(yaws)])
    return _grasps(np.tile(mass_centre[:2], (_CENTRE_YAWS, 1)), axes, np.full(_CENTRE_YAWS, max_span))


def _grasps(middles: Array, axes: Array, spans: Array) -> Array:
    yaws = (np.arctan2(axes[:, 1], axes[:, 0]) + np.pi / 2) % np.pi - np.pi / 2
    return np.column_stack([middles, np.zeros(len(spans)), yaws, spans])
