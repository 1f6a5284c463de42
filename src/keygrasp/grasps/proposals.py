"""Raw proposals: opposite contacts of outlines and inscribed circles, before the gripper is looked at."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.perception import trace_outlines
from keygrasp.perception.config import cv2
from keygrasp.scene import HeightMap, KeypointKind, Keypoints, Segment

TOO_WIDE = "too wide"
NOT_ANTIPODAL = "not antipodal"
#: Yaws tried at the centre of mass, whatever the outline says.
_CENTRE_YAWS = 12


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
    near = cv2.dilate(segment.mask.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    parts = []
    for level in _levels(segment, config):
        mask = segment.mask if level is None else near & (heights > level)
        outlines = trace_outlines(mask, height_map, config.spacing)
        if outlines:
            points = np.concatenate([o.points for o in outlines])
            normals = np.concatenate([o.normals for o in outlines])
            parts.append(_pairs(points, normals, mass_centre, max_span, config, rejections))
    parts.append(_circle_pairs(keypoints, max_span, rejections))
    parts.append(_central(mass_centre, max_span))
    return np.concatenate(parts), rejections


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
    first, second = np.triu_indices(len(points), 1)
    lines = points[second] - points[first]
    spans = np.linalg.norm(lines, axis=1)
    directions = lines / np.maximum(spans, 1e-9)[:, None]
    cone = np.cos(np.arctan(config.friction))
    alignment = np.minimum(-np.sum(normals[first] * directions, axis=1), np.sum(normals[second] * directions, axis=1))
    antipodal = alignment >= cone
    fits = spans <= max_span
    rejections[NOT_ANTIPODAL] += int(np.sum(~antipodal))
    rejections[TOO_WIDE] += int(np.sum(antipodal & ~fits))
    keep = np.flatnonzero(antipodal & fits)
    middles = (points[first[keep]] + points[second[keep]]) / 2
    off_centre = np.linalg.norm(middles - mass_centre[:2], axis=1)
    order = keep[np.argsort(off_centre / 0.03 - alignment[keep] / (1 - cone) * 0.3, kind="stable")][: config.pairs]
    # Flat pads turn until they lie on the surface, so the yaw follows the normals as much as the line.
    axes = directions[order] + (normals[second[order]] - normals[first[order]]) / 2
    return _grasps((points[first[order]] + points[second[order]]) / 2, axes, spans[order])


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
