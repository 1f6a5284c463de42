"""What two flat pads would touch: contacts, their slopes and the load they carry, for many grasps at once.

The pads are planes of ``pad_width`` × ``pad_height``. While they close, each first meets the outermost surface that
is higher than the fingertips within its width. That patch decides the grasp: how wide it is, how steep, how much of
the pad it covers, and where it lies against the other pad's patch and the object's centre of mass.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, YAW, X, Y, Z, local_samples, sample_local
from keygrasp.perception import cells_of
from keygrasp.scene import GripperSpec, HeightMap, Segment

_STEP = 0.0015
_ROWS = 5
#: Surface this many metres above the fingertips counts as between the pads.
_ABOVE_TIPS = 0.001
#: Outline within this many metres of the outermost point is touched too (the noise of one cell).
_TOUCH = 0.0025
#: The slope at a contact is read over this part of the height above the fingertips, at most over _CLIMB metres.
_CLIMB_SHARE = 0.6
_CLIMB = 0.010
#: Metres inside of the contact within which the surface's top is sought.
_INSIDE = 0.015
#: Horizontal metres by which pixels and filters blur a vertical wall.
_BLUR = 0.0025


@dataclass(frozen=True, eq=False)
class Contacts:
    """Predicted contacts of n grasps; lengths in metres.

    Attributes:
        found: (n,) whether there is anything between the pads.
        right: (n,) position along the closing axis where the positive pad touches, relative to the grasp's centre.
        left: (n,) the same of the negative pad.
        patch: (n, 2) share of the pad's width that each pad (positive, negative) touches.
        lateral: (n, 2) middle across of each patch, relative to the grasp's centre.
        slope: (n, 2) horizontal run over rise of each contact's surface: 0 is a vertical wall.
        grip: (n, 2) height of surface above the fingertips just inside each contact, at most the pad's height.
    """

    found: NDArray[np.bool_]
    right: Array
    left: Array
    patch: Array
    lateral: Array
    slope: Array
    grip: Array

    def take(self, rows: NDArray[np.bool_]) -> Contacts:
        """Only those grasps for which ``rows`` (n,) holds."""
        return Contacts(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def predict_contacts(
    heights: NDArray[np.float32], height_map: HeightMap, grasps: Array, gripper: GripperSpec
) -> Contacts:
    """Predict where pads that start at each grasp's width would touch.

    Args:
        heights: (H, W) heights on the map's grid, smoothed as wanted.
        height_map: Gives the grid's place.
        grasps: (n, 5) grasps.
        gripper: Gives the pads' size.
    """
    surface, solid, along, across = _between(heights, height_map, grasps, gripper)
    filled = np.asarray(solid.any(axis=2))
    last = len(along) - 1
    right_at = last - np.argmax(solid[:, :, ::-1], axis=2)
    left_at = np.argmax(solid, axis=2)
    sides = [
        _side(surface, np.where(filled, right_at, -1), -1, grasps[:, Z], across),
        _side(surface[:, :, ::-1], np.where(filled, last - left_at, -1), -1, grasps[:, Z], across),
    ]
    return Contacts(
        found=np.asarray(filled.any(axis=1)),
        right=along[np.maximum(sides[0].outermost, 0)],
        left=-along[np.maximum(sides[1].outermost, 0)],
        patch=np.stack([s.touched.mean(axis=1) for s in sides], axis=1),
        lateral=np.stack([s.lateral for s in sides], axis=1),
        slope=np.stack([s.slope for s in sides], axis=1),
        grip=np.minimum(np.stack([s.grip for s in sides], axis=1), gripper.pad_height),
    )


@dataclass(frozen=True, eq=False)
class Reach:
    """Where the pads of n grasps would touch first; the first three attributes of :class:`Contacts`."""

    found: NDArray[np.bool_]
    right: Array
    left: Array

    @property
    def span(self) -> Array:
        """(n,) distance between the two contacts."""
        return self.right - self.left


def predict_reach(heights: NDArray[np.float32], height_map: HeightMap, grasps: Array, gripper: GripperSpec) -> Reach:
    """What :func:`predict_contacts` says about the contacts' positions, in less time."""
    _, solid, along, _ = _between(heights, height_map, grasps, gripper)
    occupied = np.asarray(solid.any(axis=1))
    found = occupied.any(axis=1)
    right = np.where(found, along[len(along) - 1 - np.argmax(occupied[:, ::-1], axis=1)], along[0])
    left = np.where(found, along[np.argmax(occupied, axis=1)], -along[0])
    return Reach(np.asarray(found), right, left)


def stays_within(
    heights: NDArray[np.float32], height_map: HeightMap, grasps: Array, gripper: GripperSpec, reach: float
) -> NDArray[np.bool_]:
    """(n,) whether nothing between the fully opened pads would touch farther than ``reach`` metres from the middle.

    A cheap look at the outermost of the samples that :func:`predict_reach` takes.
    """
    surface = sample_local(heights, height_map, grasps, _outer_samples(gripper, reach), linear=True)
    return np.asarray(surface.max(axis=1, initial=0.0) <= grasps[:, Z].astype(np.float32) + np.float32(_ABOVE_TIPS))


@lru_cache(maxsize=4)
def _samples(gripper: GripperSpec) -> tuple[Array, Array, NDArray[np.float32]]:
    """Where the surface is read: coordinates (m,) along the closing axis and (rows,) across it, and their grid."""
    half = int(np.ceil(gripper.max_opening / 2 / _STEP))
    along: Array = np.arange(-half, half + 1, dtype=float) * _STEP
    across = np.linspace(-gripper.pad_width / 2, gripper.pad_width / 2, _ROWS)
    return along, across, _grid(along, across)


@lru_cache(maxsize=4)
def _outer_samples(gripper: GripperSpec, reach: float) -> NDArray[np.float32]:
    """Those farther than ``reach`` metres from the middle, but not farther than the gripper opens."""
    along, across, _ = _samples(gripper)
    return _grid(along[(np.abs(along) > reach) & (np.abs(along) <= gripper.max_opening / 2)], across)


def _grid(along: Array, across: Array) -> NDArray[np.float32]:
    """Samples (4, rows · m), one row across after the other."""
    return local_samples(np.tile(along, len(across)), np.repeat(across, len(along)))


def _between(
    heights: NDArray[np.float32], height_map: HeightMap, grasps: Array, gripper: GripperSpec
) -> tuple[NDArray[np.float32], NDArray[np.bool_], Array, Array]:
    """Surface (n, rows, m) over the pads' way, whether it lies between them, and where its samples are."""
    along, across, samples = _samples(gripper)
    surface = sample_local(heights, height_map, grasps, samples, linear=True)
    surface = surface.reshape(len(grasps), _ROWS, len(along))
    tips = grasps[:, Z].astype(np.float32)[:, None, None]
    between = np.abs(along)[None] <= grasps[:, WIDTH : WIDTH + 1] / 2
    solid = (surface > tips + np.float32(_ABOVE_TIPS)) & between[:, None, :]
    return surface, solid, along, across


@dataclass(frozen=True, eq=False)
class _Side:
    outermost: NDArray[np.intp]
    touched: NDArray[np.bool_]
    lateral: Array
    slope: Array
    grip: Array


def _side(surface: NDArray[np.float32], at: NDArray[np.intp], inward: int, tips: Array, across: Array) -> _Side:
    """Contact of the pad that comes from the end of the last axis.

    Args:
        surface: (n, rows, m) heights.
        at: (n, rows) index of the outermost solid sample of each row, -1 where there is none.
        inward: Step of the index towards the object.
        tips: (n,) height of the fingertips.
        across: (rows,) metres across.
    """
    outermost = at.max(axis=1)
    touched = (at >= (outermost - round(_TOUCH / _STEP))[:, None]) & (at >= 0)
    weight = touched / np.maximum(touched.sum(axis=1, keepdims=True), 1)
    depth = round(_INSIDE / _STEP)
    inside = outermost[:, None] + inward * np.arange(depth + 1)[None]
    inside = np.clip(inside, 0, surface.shape[2] - 1)
    # Mean profile of the touched rows, from the contact inwards: (n, depth + 1).
    profile = np.einsum("nr,nrd->nd", weight.astype(np.float32), np.take_along_axis(surface, inside[:, None, :], 2))
    rise = profile - tips.astype(np.float32)[:, None]
    top = rise.max(axis=1)
    climb = np.clip(_CLIMB_SHARE * top, 0.001, _CLIMB)
    run = np.argmax(rise >= climb[:, None], axis=1) * _STEP
    slope = np.maximum(run - _BLUR, 0.0) / climb
    return _Side(outermost, touched, weight @ across, slope.astype(float), np.maximum(top, 0.0).astype(float))


def recentred(grasps: Array, contacts: Reach) -> Array:
    """Grasps (n, 5) moved along their closing axis so that both pads touch at the same time."""
    shift = (contacts.right + contacts.left) / 2
    moved = grasps.copy()
    moved[:, X] += shift * np.cos(grasps[:, YAW])
    moved[:, Y] += shift * np.sin(grasps[:, YAW])
    return moved


def centre_of_mass(heights: NDArray[np.float32], height_map: HeightMap, segment: Segment) -> Array:
    """(3,) workspace point: centre of the volume between the table and the visible surface of a segment."""
    cells = cells_of(segment.mask)
    weights = np.maximum(heights[segment.mask], 1e-4).astype(float)
    xy = height_map.xy_of((weights @ cells / weights.sum()).astype(float))
    return np.append(xy, 0.5 * float(weights @ weights / weights.sum()))
