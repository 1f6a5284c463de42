"""Keypoints of one object: outline, inscribed circles and surface samples in fixed rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.perception.config import cv2
from keygrasp.perception.heights import sample_linear, smooth_heights
from keygrasp.perception.outlines import Outline, bounding_box, cells_of, padded, trace_outlines
from keygrasp.scene import ROWS, TOTAL_ROWS, HeightMap, KeypointKind, Keypoints, Segment

#: Metres by which the height of an outline point is read inside of it, away from the blurred edge.
_INSET = 0.00375
#: Spacing in metres of the dense outline on which tangent contacts are sought.
_DENSE = 0.00125
#: Circles whose centres are nearer than this share of the larger radius say the same thing.
_CIRCLE_SPACING = 0.35
_MIN_SPACING = 0.004
#: Cells beyond the radius within which an outline point still touches: centres lie on the grid, outlines between.
_TOUCH = 1.6
#: Two contacts oppose each other if seen from the centre they lie at least this cosine apart (about 75°).
_OPPOSED = 0.26


def extract_keypoints(height_map: HeightMap, segment: Segment) -> Keypoints:
    """Keypoints of one segment, in the order that :class:`keygrasp.scene.Keypoints` promises."""
    smooth = smooth_heights(height_map)
    outlines = trace_outlines(segment.mask, height_map, _DENSE)
    points, normals = _spread(outlines, ROWS[KeypointKind.CONTOUR])
    centres, radii, contacts = _circles(segment.mask, height_map, outlines)
    surface = _surface(segment.mask, height_map)
    position = np.zeros((TOTAL_ROWS, 3), np.float32)
    normal = np.zeros((TOTAL_ROWS, 2), np.float32)
    radius = np.zeros(TOTAL_ROWS, np.float32)
    tangent = np.zeros((TOTAL_ROWS, 2, 2), np.float32)
    mask = np.zeros(TOTAL_ROWS, np.bool_)
    kind = np.repeat([int(k) for k in ROWS], list(ROWS.values())).astype(np.int8)
    start = 0
    for name, xy, probe in (
        (KeypointKind.CONTOUR, points, points - _INSET * normals),
        (KeypointKind.SKELETON, centres, centres),
        (KeypointKind.SURFACE, surface, surface),
    ):
        rows = slice(start, start + len(xy))
        position[rows, :2] = xy
        position[rows, 2] = sample_linear(smooth, height_map.cells_of(probe))
        mask[rows] = True
        if name is KeypointKind.CONTOUR:
            normal[rows] = normals
        elif name is KeypointKind.SKELETON:
            radius[rows], tangent[rows] = radii, contacts
        start += ROWS[name]
    return Keypoints(position, normal, radius, tangent, kind, mask)


def _spread(outlines: tuple[Outline, ...], rows: int) -> tuple[Array, Array]:
    """Points (n, 2) and normals (n, 2) over all outlines, n ≤ ``rows``, in proportion to their lengths."""
    if not outlines:
        return np.zeros((0, 2)), np.zeros((0, 2))
    lengths = np.array([o.length for o in outlines])
    shares = np.maximum(1, np.floor(rows * lengths / lengths.sum()).astype(int))
    shares = shares[np.cumsum(shares) <= rows]
    shares[0] += rows - shares.sum()
    points, normals = [], []
    for outline, share in zip(outlines, shares, strict=False):
        count = min(share, len(outline.points))
        picks = (np.arange(count) * len(outline.points)) // count
        points.append(outline.points[picks])
        normals.append(outline.normals[picks])
    return np.concatenate(points), np.concatenate(normals)


def _circles(
    mask: NDArray[np.bool_], height_map: HeightMap, outlines: tuple[Outline, ...]
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Inscribed circles on the medial axis, largest first: centres (n, 2), radii (n,), contacts (n, 2, 2)."""
    rows, columns, inside = _ridge(mask)
    if len(rows) == 0 or not outlines:
        return np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2, 2))
    order = np.argsort(-inside, kind="stable")
    centres = height_map.xy_of(np.column_stack([rows, columns])[order].astype(float))
    boundary = np.concatenate([o.points for o in outlines])
    kept = _suppress(centres, (inside[order] * height_map.cell).astype(float), ROWS[KeypointKind.SKELETON])
    centres = centres[kept]
    offsets = boundary[None] - centres[:, None]
    distances = np.hypot(offsets[..., 0], offsets[..., 1])
    radii = distances.min(axis=1)
    contacts = np.stack(_tangents(offsets, distances, radii, height_map.cell), axis=1) + centres[:, None]
    order = np.argsort(-radii, kind="stable")
    return centres[order], radii[order], contacts[order]


def _ridge(mask: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Cells on the ridge of the distance transform: rows, columns, distance in cells to the outside.

    On the slope beside the ridge the distance grows by one cell a cell; on the ridge it is highest across one of
    the four directions. A ridge found so is at most two cells wide, which the later suppression thins.
    """
    box = bounding_box(mask)
    if box is None:
        return np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0, np.float32)
    crop = mask[box]
    distance = cv2.distanceTransform(padded(crop, 1).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    # Between cells the squares are integers; OpenCV's last bit depends on where its buffer lies in memory.
    distance = np.sqrt(np.rint(distance * distance))
    centre = distance[1:-1, 1:-1]
    ridge = np.zeros(crop.shape, np.bool_)
    height, width = distance.shape
    for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
        ahead = distance[1 + dr : height - 1 + dr, 1 + dc : width - 1 + dc]
        behind = distance[1 - dr : height - 1 - dr, 1 - dc : width - 1 - dc]
        step = np.float32(np.hypot(dr, dc))
        # Both sides must fall, together by at least one cell: a corner's or a noisy edge's ripple does not.
        ridge |= (centre >= ahead) & (centre >= behind) & (2 * centre - ahead - behind >= 0.9 * step)
    rows, columns = np.nonzero(ridge & crop)
    return rows + box[0].start, columns + box[1].start, centre[rows, columns]


def _suppress(centres: Array, radii: Array, limit: int) -> list[int]:
    """Indices of at most ``limit`` circles, in the given order, none near one that was kept before."""
    kept: list[int] = []
    free = np.ones(len(centres), np.bool_)
    x, y = np.ascontiguousarray(centres.T)
    for index in range(len(centres)):
        if not free[index]:
            continue
        kept.append(index)
        if len(kept) == limit:
            break
        reach = max(_MIN_SPACING, _CIRCLE_SPACING * radii[index])
        dx, dy = x - x[index], y - y[index]
        free &= dx * dx + dy * dy > reach**2
    return kept


def _tangents(offsets: Array, distances: Array, radii: Array, cell: float) -> tuple[Array, Array]:
    """Nearest outline point of each circle, and the one that touches it on the far side, relative to its centre.

    Args:
        offsets: (n, b, 2) outline points relative to the centres.
        distances: (n, b) their lengths.
        radii: (n,) the least of them.
        cell: Edge of a cell.
    """
    circles = np.arange(len(radii))
    first = offsets[circles, distances.argmin(axis=1)]
    along = np.einsum("nbk,nk->nb", offsets, first / np.maximum(radii, 1e-9)[:, None])
    opposed = along / np.maximum(distances, 1e-9)
    touching = distances <= (radii + _TOUCH * cell)[:, None]
    # At an outline's end nothing may touch on the far side: then the nearest point there is taken.
    far_side = opposed < _OPPOSED
    cost = np.where(far_side, np.where(touching, opposed, 2.0 + distances), 10.0 + distances)
    return first, offsets[circles, cost.argmin(axis=1)]


def _surface(mask: NDArray[np.bool_], height_map: HeightMap) -> Array:
    """Samples (n, 2): the middle cells of equal strata of the segment's cells in raster order."""
    cells = cells_of(mask)
    count = min(ROWS[KeypointKind.SURFACE], len(cells))
    picks = ((np.arange(count) + 0.5) * len(cells) / max(count, 1)).astype(np.intp)
    return height_map.xy_of(cells[picks].astype(float))
