"""Grasps as (n, 5) arrays of x, y, z, yaw, width, and the surface seen from each grasp's own frame."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.perception.config import cv2
from keygrasp.scene import HeightMap, PlanarGrasp

#: Columns of a grasp array.
X, Y, Z, YAW, WIDTH = range(5)
#: OpenCV's remap takes fewer than 32768 rows.
_CHUNK = 8192


def grasp_array(grasps: Iterable[PlanarGrasp]) -> Array:
    """Grasps as an array (n, 5) of x, y, z, yaw, width in metres and radians."""
    return np.array([[g.x, g.y, g.z, g.yaw, g.width] for g in grasps], dtype=float).reshape(-1, 5)


def grasps_from_array(array: Array, scores: Array | None = None) -> tuple[PlanarGrasp, ...]:
    """Grasps of an array (n, 5), with scores (n,) where given."""
    rows = check_grasps(array)
    values = np.zeros(len(rows)) if scores is None else np.asarray(scores, dtype=float)
    if values.shape != (len(rows),):
        raise InputError(f"{len(rows)} grasps need as many scores, not an array of shape {values.shape}")
    return tuple(
        PlanarGrasp(float(x), float(y), float(z), float(yaw), float(width), float(score))
        for (x, y, z, yaw, width), score in zip(rows, values, strict=True)
    )


def check_grasps(array: Array) -> Array:
    """The array as float64 of shape (n, 5).

    Raises:
        InputError: If its shape is another or a value isn't finite.
    """
    rows = np.asarray(array, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != 5:
        raise InputError(f"a grasp array has shape (n, 5), this one has {rows.shape}", "Columns: x, y, z, yaw, width")
    if not np.all(np.isfinite(rows)):
        raise InputError("a grasp array must be finite")
    return rows


def local_samples(along: Array, across: Array, halves: Array | float = 0.0) -> NDArray[np.float32]:
    """Points in a grasp's own frame, for :func:`sample_local`.

    Args:
        along: (m,) metres along the closing axis.
        across: (m,) metres at a right angle to it (counter-clockwise).
        halves: (m,) how many times half of the grasp's width is added along the closing axis.

    Returns:
        (4, m) these, and a row of 1 for the grasp's place.
    """
    samples = np.ones((4, len(along)), np.float32)
    samples[0], samples[1], samples[2] = along, across, halves
    return samples


def sample_local(
    image: NDArray[np.float32],
    height_map: HeightMap,
    grasps: Array,
    samples: NDArray[np.float32],
    *,
    linear: bool = False,
    repeat_edge: bool = False,
) -> NDArray[np.float32]:
    """Values of an image (H, W) on the map's grid at points given in each grasp's frame.

    Args:
        image: Heights or another quantity on the map's grid.
        height_map: Gives the grid's place.
        grasps: (n, 5) grasps.
        samples: (4, m) as :func:`local_samples` gives them.
        linear: Interpolate, instead of taking the nearest cell.
        repeat_edge: Let the image go on outside of the map as it is at its edge, instead of with 0.

    Returns:
        (n, m) values.
    """
    scale = 1.0 / height_map.cell
    # Cells are linear in the samples: one product each. Single precision is exact to a thousandth of a cell here.
    factors = np.empty((2, len(grasps), 4), np.float32)
    cos, sin = scale * np.cos(grasps[:, YAW]), scale * np.sin(grasps[:, YAW])
    half = grasps[:, WIDTH] / 2
    for axis, (along, across) in enumerate(((cos, -sin), (sin, cos))):
        factors[axis, :, 0], factors[axis, :, 1], factors[axis, :, 2] = along, across, along * half
        factors[axis, :, 3] = (grasps[:, axis] - height_map.origin[axis]) * scale
    columns, rows = factors @ samples
    mode = cv2.INTER_LINEAR if linear else cv2.INTER_NEAREST
    border = cv2.BORDER_REPLICATE if repeat_edge else cv2.BORDER_CONSTANT
    values = np.empty(columns.shape, np.float32)
    for start in range(0, len(grasps), _CHUNK):
        part = slice(start, start + _CHUNK)
        values[part] = cv2.remap(image, columns[part], rows[part], mode, borderMode=border, borderValue=0.0)
    return values
