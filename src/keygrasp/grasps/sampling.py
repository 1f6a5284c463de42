"""Random feasible grasps: for controls, and for collecting experience."""

from __future__ import annotations

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, YAW, Z
from keygrasp.grasps.collision import Footprint, FootprintModel, footprint_model
from keygrasp.grasps.contact import predict_reach, stays_within
from keygrasp.grasps.quality import check_segment
from keygrasp.perception import Perceived, cells_of
from keygrasp.scene import GripperSpec, ReachFilter

_MAX_COUNT = 100_000
#: Draws for each wanted grasp after which the object counts as having little room, and the least number of draws.
_DRAWS, _LEAST_DRAWS = 24, 768
#: Draws at once; and the weight, in draws, of what is expected before any were made.
_BATCH = (64, 4096)
_PRIOR_DRAWS = 64
#: Standard deviation in metres of the position around a cell of the object.
_SPREAD = 0.004
#: Least height in metres of object between the pads, and least height of the tips above the table.
_MIN_GRIP = 0.004
_TABLE = 0.003
#: Metres between palm and surface at the deepest.
_PALM_ROOM = 0.005
#: Room in metres beyond the contacts, on both sides together.
_ROOM = (0.006, 0.024)


def random_feasible(
    perceived: Perceived,
    segment_index: int,
    gripper: GripperSpec,
    rng: np.random.Generator,
    count: int,
    reach: ReachFilter | None = None,
) -> Array:
    """Random collision-free grasps on one object.

    Position: a uniformly drawn cell of the segment, and a few millimetres around it; yaw: uniform; z: uniform from
    the deepest clear height to where little is left between the pads; width: what lies between the pads and some room.

    Args:
        perceived: What the view shows.
        segment_index: The object.
        gripper: The gripper.
        rng: Source of randomness; the same state gives the same grasps.
        count: Wanted number, at most 100,000.
        reach: Which grasps the robot can make.

    Returns:
        (m, 5) x, y, z, yaw, width with m ≤ count: fewer where the object leaves little or no room.

    Raises:
        InputError: If the segment doesn't exist or ``count`` is out of range.
    """
    if not 0 <= count <= _MAX_COUNT:
        raise InputError(f"count must lie in 0–{_MAX_COUNT}, not {count}")
    segment = perceived.segments[check_segment(perceived, segment_index)]
    model = footprint_model(perceived.height_map, gripper)
    places = perceived.height_map.xy_of(cells_of(segment.mask).astype(float))
    found: list[Array] = []
    drawn = total = 0
    while total < count and drawn < max(_LEAST_DRAWS, _DRAWS * count):
        # As many as the share of feasible ones so far lets expect; at first it is taken for one in eight.
        expected = (count - total) * (drawn + _PRIOR_DRAWS) / (total + _PRIOR_DRAWS / 8)
        batch = int(np.clip(1.2 * expected, *_BATCH))
        feasible = _draw(perceived, model, gripper, places, rng, batch)
        if reach is not None:
            feasible = feasible[reach(feasible)]
        found.append(feasible)
        drawn += batch
        total += len(feasible)
    return np.concatenate(found)[:count] if found else np.zeros((0, 5))


def _draw(
    perceived: Perceived,
    model: FootprintModel,
    gripper: GripperSpec,
    places: Array,
    rng: np.random.Generator,
    batch: int,
) -> Array:
    """Draw ``batch`` grasps and keep the feasible ones; the cheap checks come first, so that few need the others."""
    grasps = np.zeros((batch, 5))
    grasps[:, :2] = places[rng.integers(0, len(places), batch)] + rng.normal(0, _SPREAD, (batch, 2))
    grasps[:, YAW] = rng.uniform(-np.pi / 2, np.pi / 2, batch)
    # From the palm's limit upwards, the first look is at full opening, which tells what lies between the fingers.
    grasps[:, WIDTH] = gripper.max_opening
    share, room = rng.uniform(size=batch), rng.uniform(*_ROOM, size=batch)
    tops = perceived.height_map.sample(grasps[:, :2]).astype(float)
    high = np.flatnonzero(tops >= _TABLE + _MIN_GRIP - 1e-9)
    grasps, share, room, tops = grasps[high], share[high], room[high], tops[high]
    palm = model.palm_heights(grasps)
    deepest = np.maximum(palm - gripper.pad_height + _PALM_ROOM, _TABLE).astype(float)
    grasps[:, Z] = deepest + share * np.maximum(tops - _MIN_GRIP - deepest, 0.0)
    limit = (gripper.max_opening - _ROOM[0]) / 2
    held = np.flatnonzero(tops - grasps[:, Z] >= _MIN_GRIP - 1e-9)
    held = held[stays_within(model.heights, perceived.height_map, grasps[held], gripper, limit)]
    grasps, room, palm = grasps[held], room[held], palm[held]
    reach = predict_reach(model.heights, perceived.height_map, grasps, gripper)
    farthest = 2 * np.maximum(np.abs(reach.right), np.abs(reach.left))
    grasps[:, WIDTH] = np.minimum(farthest + room, gripper.max_opening)
    fits = (farthest + _ROOM[0] <= gripper.max_opening) & (grasps[:, WIDTH] >= gripper.min_opening)
    kept = reach.found & fits
    grasps = grasps[kept]
    return grasps[model.clear(grasps, Footprint(model.finger_heights(grasps), palm[kept]))]
