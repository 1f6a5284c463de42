"""Random feasible grasps: for controls, and for collecting experience."""

from __future__ import annotations

import numpy as np

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, YAW, Z
from keygrasp.grasps.collision import FootprintModel
from keygrasp.grasps.contact import predict_contacts
from keygrasp.grasps.quality import check_segment
from keygrasp.perception import Perceived
from keygrasp.scene import GripperSpec

_MAX_COUNT = 100_000
_ROUNDS = 12
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
    perceived: Perceived, segment_index: int, gripper: GripperSpec, rng: np.random.Generator, count: int
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

    Returns:
        (m, 5) x, y, z, yaw, width with m ≤ count: fewer where the object leaves little or no room.

    Raises:
        InputError: If the segment doesn't exist or ``count`` is out of range.
    """
    if not 0 <= count <= _MAX_COUNT:
        raise InputError(f"count must lie in 0–{_MAX_COUNT}, not {count}")
    segment = perceived.segments[check_segment(perceived, segment_index)]
    model = FootprintModel(perceived.height_map, gripper)
    places = perceived.height_map.xy_of(np.argwhere(segment.mask).astype(float))
    found: list[Array] = []
    total = 0
    for _ in range(_ROUNDS):
        if total >= count:
            break
        batch = int(np.clip(2 * (count - total), 64, 4096))
        drawn = _draw(perceived, model, gripper, places, rng, batch)
        found.append(drawn)
        total += len(drawn)
    return np.concatenate(found)[:count] if found else np.zeros((0, 5))


def _draw(
    perceived: Perceived,
    model: FootprintModel,
    gripper: GripperSpec,
    places: Array,
    rng: np.random.Generator,
    batch: int,
) -> Array:
    """Draw ``batch`` grasps and keep the feasible ones."""
    grasps = np.zeros((batch, 5))
    grasps[:, :2] = places[rng.integers(0, len(places), batch)] + rng.normal(0, _SPREAD, (batch, 2))
    grasps[:, YAW] = rng.uniform(-np.pi / 2, np.pi / 2, batch)
    share, room = rng.uniform(size=batch), rng.uniform(*_ROOM, size=batch)
    # From the palm's limit upwards, the first look is at full opening, which tells what lies between the fingers.
    grasps[:, WIDTH] = gripper.max_opening
    palm = np.maximum(model.palm_heights(grasps) - gripper.pad_height + _PALM_ROOM, _TABLE).astype(float)
    tops = perceived.height_map.sample(grasps[:, :2]).astype(float)
    grasps[:, Z] = palm + share * np.maximum(tops - _MIN_GRIP - palm, 0.0)
    contacts = predict_contacts(model.heights, perceived.height_map, grasps, gripper)
    reach = 2 * np.maximum(np.abs(contacts.right), np.abs(contacts.left))
    grasps[:, WIDTH] = np.minimum(reach + room, gripper.max_opening)
    wide_enough = (reach + _ROOM[0] <= gripper.max_opening) & (grasps[:, WIDTH] >= gripper.min_opening)
    held = contacts.found & (tops - grasps[:, Z] >= _MIN_GRIP - 1e-9)
    clear = model.clear(grasps, model.below(grasps))
    return grasps[wide_enough & held & clear]
