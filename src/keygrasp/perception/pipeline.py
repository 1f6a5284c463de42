"""All steps from an overhead view to keypoints."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from keygrasp.perception.config import PerceptionConfig
from keygrasp.perception.heights import map_of_points
from keygrasp.perception.keypoints import extract_keypoints
from keygrasp.perception.segments import in_workspace, segment, with_unseen_parts
from keygrasp.perception.table import Plane, table_of_points, workspace_points
from keygrasp.scene import HeightMap, Keypoints, OverheadView, Segment


@dataclass(frozen=True, eq=False)
class Perceived:
    """What a view shows.

    Attributes:
        table: The table's plane in the workspace frame.
        height_map: Heights above it; objects that the image's edge cuts off go on beyond it.
        segments: Objects, largest first; empty where nothing stands on the table.
        keypoints: Keypoints of each segment, in the same order.
        timings_ms: Milliseconds by step.
        note: Where ``segments`` is empty, the reason in words.
    """

    table: Plane
    height_map: HeightMap
    segments: tuple[Segment, ...]
    keypoints: tuple[Keypoints, ...]
    timings_ms: dict[str, float] = field(default_factory=dict)
    note: str = ""


def perceive(view: OverheadView, config: PerceptionConfig | None = None) -> Perceived:
    """Find the table, the objects on it and their keypoints.

    Nothing on the table is an answer with empty ``segments``, not an error.

    Raises:
        ImageError: If the image shows no table; see :func:`keygrasp.perception.estimate_table`.
    """
    config = config or PerceptionConfig()
    clock = _Clock()
    points = workspace_points(view)
    clock.lap("points")
    table = table_of_points(points, view.depth.size, config)
    clock.lap("table")
    height_map = map_of_points(points, table, config)
    clock.lap("height_map")
    found = segment(height_map, config)
    kept = in_workspace(found, config)
    clock.lap("segments")
    keypoints = tuple(extract_keypoints(height_map, s) for s in kept)
    clock.lap("keypoints")
    whole = with_unseen_parts(height_map, found)
    clock.lap("unseen")
    return Perceived(table, whole, kept, keypoints, clock.laps, _note(found, kept, config))


def _note(found: tuple[Segment, ...], kept: tuple[Segment, ...], config: PerceptionConfig) -> str:
    if kept:
        return ""
    if not found:
        return f"nothing stands on the table that is higher than {config.min_height * 1000:.0f} mm"
    (x_low, x_high), (y_low, y_high) = config.workspace_x, config.workspace_y
    return (
        f"{len(found)} object(s) stand on the table, but none in the workspace "
        f"x {x_low:g}–{x_high:g} m, y {y_low:g}–{y_high:g} m"
    )


class _Clock:
    """Milliseconds since the last lap."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = (now - self._last) * 1000
        self._last = now
