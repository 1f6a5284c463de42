"""Objects on the table: connected regions of a height map that rise above the noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from keygrasp.perception.config import PerceptionConfig, cv2
from keygrasp.perception.heights import smooth_heights
from keygrasp.perception.table import median
from keygrasp.scene import HeightMap, Segment

_SQUARE = np.ones((3, 3), np.uint8)
#: Cells without a pixel that lie farther than this from any pixel are outside of the camera's view.
_SEEN_REACH = 5
_SEEN_SQUARE = np.ones((_SEEN_REACH, _SEEN_REACH), np.uint8)
#: Metres by which an object that the image's edge cuts off is taken to go on: more than a finger with its opening.
_UNSEEN_REACH = 0.10
#: Share of an object's cells that may lie above the height that is reported as its top.
_TOP_QUANTILE = 0.98
#: The top must clear the noise by more than the outline: among thousands of cells some patch always rises by 3 sigma.
_TOP_FACTOR = 4.0 / 3.0


def segment(height_map: HeightMap, config: PerceptionConfig | None = None) -> tuple[Segment, ...]:
    """Find what stands on the table.

    Args:
        height_map: Heights above the table.
        config: Thresholds; its workspace range isn't applied here, see :func:`in_workspace`.

    Returns:
        Objects, largest area first; empty where nothing stands on the table.
    """
    config = config or PerceptionConfig()
    smooth = smooth_heights(height_map)
    noise = config.noise_factor * _table_noise(smooth)
    threshold = max(config.min_height, noise)
    raised = (smooth > threshold).astype(np.uint8)
    raised = cv2.morphologyEx(raised, cv2.MORPH_CLOSE, _SQUARE)
    count, labels, stats, centres = cv2.connectedComponentsWithStats(raised, connectivity=8)
    seen = _seen(height_map)
    cell_area = height_map.cell**2
    found = []
    for label in range(1, count):
        area = float(stats[label, cv2.CC_STAT_AREA]) * cell_area
        if area < config.min_area:
            continue
        mask = labels == label
        values = smooth[mask]
        rank = round(_TOP_QUANTILE * (len(values) - 1))
        top = float(np.partition(values, rank)[rank])
        if top < _TOP_FACTOR * noise:
            continue
        found.append(
            Segment(
                mask=mask,
                centroid=height_map.xy_of(centres[label][::-1]),
                area=area,
                top=top,
                touches_border=_touches_border(mask, seen),
            )
        )
    # Equal areas keep their raster order, so that the same map always gives the same order.
    return tuple(sorted(found, key=lambda s: -s.area))


def in_workspace(segments: tuple[Segment, ...], config: PerceptionConfig) -> tuple[Segment, ...]:
    """Segments whose centroid lies in the configured ranges of x and y."""
    (x_low, x_high), (y_low, y_high) = config.workspace_x, config.workspace_y
    return tuple(s for s in segments if x_low <= s.centroid[0] <= x_high and y_low <= s.centroid[1] <= y_high)


def with_unseen_parts(height_map: HeightMap, segments: tuple[Segment, ...]) -> HeightMap:
    """The map with objects that the edge of the image cuts off going on beyond it, as high as at the edge.

    Where the camera sees nothing, a map holds the table; behind the edge of a cut object that is a guess in the wrong
    direction: a finger that goes down there meets the object.

    Args:
        height_map: Heights above the table.
        segments: Objects in it.

    Returns:
        The same map where nothing is cut off.
    """
    cut = [segment.mask for segment in segments if segment.touches_border]
    if not cut:
        return height_map
    unseen = (cv2.dilate(_unseen(height_map), _SEEN_SQUARE) > 0) & ~height_map.measured
    grown = np.where(np.any(cut, axis=0), smooth_heights(height_map), np.float32(0.0))
    for _ in range(round(_UNSEEN_REACH / height_map.cell)):
        grown = np.where(unseen, cv2.dilate(grown, _SQUARE), grown)
    heights = np.where(unseen, np.maximum(height_map.heights, grown), height_map.heights)
    return replace(height_map, heights=heights)


def _table_noise(smooth: NDArray[np.float32]) -> float:
    """Standard deviation in metres of the table's heights, read from the cells below 0, where no object can be."""
    below = smooth[smooth < 0]
    return 1.4826 * median(-below) if below.size >= 32 else 0.0


def _seen(height_map: HeightMap) -> NDArray[np.uint8]:
    """(H, W) 1 where the camera sees the table or an object, 0 outside of its view and just inside of its edge."""
    return np.asarray(1 - cv2.dilate(_unseen(height_map), _SEEN_SQUARE), dtype=np.uint8)


def _unseen(height_map: HeightMap) -> NDArray[np.uint8]:
    """(H, W) 1 outside of the camera's view, farther than a few cells from any pixel."""
    near = cv2.dilate(height_map.measured.astype(np.uint8), _SEEN_SQUARE)
    # The outermost unseen region, not an unmeasured patch in the middle, is where an object may go on unseen: what
    # a flood from outside of the map reaches.
    flooded = cv2.copyMakeBorder(near, 1, 1, 1, 1, cv2.BORDER_CONSTANT, value=0)
    cv2.floodFill(flooded, None, (0, 0), 2)
    return np.asarray(flooded[1:-1, 1:-1] == 2, dtype=np.uint8)


def _touches_border(mask: NDArray[np.bool_], seen: NDArray[np.uint8]) -> bool:
    """Whether the object reaches the map's edge, or the edge of what the camera sees."""
    if mask[0].any() or mask[-1].any() or mask[:, 0].any() or mask[:, -1].any():
        return True
    return bool(np.any(seen[cv2.dilate(mask.astype(np.uint8), _SQUARE) > 0] == 0))
