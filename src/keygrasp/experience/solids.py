"""True geometry of many scenes as tensors, and what two closing pads would meet in it, for thousands of grasps at once.

A scene is a grid of columns. Each column is a 64-bit integer whose bit k says that the object fills the layer
[k, k + 1) · :data:`LAYER` over that cell, so that undercuts and cavities are kept, which a height map loses. Everything
here is exact geometry up to the grid; friction and weight come in with :mod:`keygrasp.experience.contact_model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import ConvexHull
from torch import Tensor

from keygrasp.geometry.poses import transform_points
from keygrasp.objects import PreparedObject
from keygrasp.scene import GripperSpec

Array = NDArray[np.float64]

#: Edge of a cell and height of a layer in metres; 64 layers reach over the tallest object of KG-1 (0.22 m).
CELL, LAYER, LAYERS = 0.0025, 0.0035, 64
#: Cells along each side of the grid, whose middle is the workspace's origin.
SIDE = 140
#: Rows across a pad and layers up a pad at which its way to the object is measured.
ROWS, PAD_LAYERS = 5, 11
#: Metres between samples along the closing axis, and samples from the middle to the far side of an open finger.
_STEP, _HALF = 0.0025, 22


@dataclass(frozen=True, eq=False)
class SolidScenes:
    """S scenes of one object each; metres, kilograms, workspace frame.

    Attributes:
        columns: (S, SIDE, SIDE) int64, indexed [y, x].
        top: (S, SIDE, SIDE) float32 height of the highest surface, 0 where there is none.
        centre: (S, 3) centre of mass.
        mass: (S,).
    """

    columns: Tensor
    top: Tensor
    centre: Tensor
    mass: Tensor

    def __len__(self) -> int:
        return len(self.mass)

    @classmethod
    def build(cls, objects: Sequence[PreparedObject], poses: Sequence[Array]) -> SolidScenes:
        """Scenes of objects whose body frames have these poses (4, 4) in the workspace frame."""
        made = [_columns(prepared, pose) for prepared, pose in zip(objects, poses, strict=True)]
        return cls(
            columns=torch.from_numpy(np.stack([columns for columns, _ in made])),
            top=torch.from_numpy(np.stack([top for _, top in made])),
            centre=torch.tensor(np.stack([pose[:3, 3] for pose in poses]), dtype=torch.float32),
            mass=torch.tensor([prepared.mass for prepared in objects], dtype=torch.float32),
        )

    @classmethod
    def join(cls, parts: Sequence[SolidScenes]) -> SolidScenes:
        """The scenes of all parts, one after the other."""
        return cls(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    def to(self, device: torch.device) -> SolidScenes:
        """The same scenes on another device."""
        return replace(self, **{f.name: getattr(self, f.name).to(device) for f in fields(self)})


@dataclass(frozen=True, eq=False)
class PadProfiles:
    """What the pads of B grasps would meet; lengths in metres.

    Attributes:
        way: (B, 2, ROWS, PAD_LAYERS) distance from each pad's face (the positive side first) to the object, seen along
            the closing axis from a row across the pad and a layer above the tips; the whole opening where it is free.
        fingers: (B, 2) highest surface beneath each finger, over the tips' height.
        palm: (B,) highest surface beneath the palm, over the palm's height.
        centre: (B, 3) centre of mass in the gripper's frame: along, across, over the tips.
    """

    way: Tensor
    fingers: Tensor
    palm: Tensor
    centre: Tensor


def pad_profiles(scenes: SolidScenes, index: Tensor, grasps: Tensor, gripper: GripperSpec) -> PadProfiles:
    """Measure what lies around grasps.

    Args:
        scenes: S scenes.
        index: (B,) scene of each grasp.
        grasps: (B, 5) as (x, y, z, yaw, width) in the workspace frame.
        gripper: Gives pads, fingers and palm.
    """
    axis = torch.stack([torch.cos(grasps[:, 3]), torch.sin(grasps[:, 3])], dim=1)
    side = torch.stack([-axis[:, 1], axis[:, 0]], dim=1)
    along = torch.arange(-_HALF, _HALF + 1, device=grasps.device) * _STEP
    across = torch.linspace(-1, 1, ROWS, device=grasps.device) * (gripper.pad_width / 2 - 0.001)
    cells = _cells(grasps, axis, side, along, across)
    towards = scenes.centre[index] - grasps[:, :3]
    return PadProfiles(
        way=_ways(scenes.columns.reshape(-1)[_flat(index, cells)], grasps, along),
        fingers=_fingers(scenes.top.reshape(-1)[_flat(index, cells)], grasps, along, gripper),
        palm=_palm(scenes, index, grasps, axis, side, gripper),
        centre=torch.stack(
            [(towards[:, :2] * axis).sum(dim=1), (towards[:, :2] * side).sum(dim=1), towards[:, 2]], dim=1
        ),
    )


def _cells(grasps: Tensor, axis: Tensor, side: Tensor, along: Tensor, across: Tensor) -> Tensor:
    """Cells (B, len(across), len(along)) of samples in the gripper's frame, as y · SIDE + x."""
    x = grasps[:, None, None, 0] + axis[:, None, None, 0] * along + side[:, None, None, 0] * across[:, None]
    y = grasps[:, None, None, 1] + axis[:, None, None, 1] * along + side[:, None, None, 1] * across[:, None]
    column = (x / CELL + SIDE / 2).floor_().clamp_(0, SIDE - 1)
    row = (y / CELL + SIDE / 2).floor_().clamp_(0, SIDE - 1)
    return (row * SIDE + column).long()


def _flat(index: Tensor, cells: Tensor) -> Tensor:
    return cells + (index * SIDE * SIDE)[:, None, None]


def _ways(columns: Tensor, grasps: Tensor, along: Tensor) -> Tensor:
    """(B, 2, ROWS, PAD_LAYERS) from columns (B, ROWS, M)."""
    between = along.abs() <= grasps[:, 4:5] / 2  # (B, M)
    tip = (grasps[:, 2] / LAYER + 0.5).long().clamp(0, LAYERS - 1)
    # The pads' layers alone fit into 16 bits, and a sample's place into 8: a quarter and an eighth of the memory.
    layers = torch.where(between[:, None], (columns >> tip[:, None, None]) & ((1 << PAD_LAYERS) - 1), 0).short()
    bits = (1 << torch.arange(PAD_LAYERS, device=columns.device)).short()
    solid = ((layers[..., None, :] & bits[:, None]) != 0).to(torch.uint8)  # (B, ROWS, PAD_LAYERS, M)
    place = torch.arange(1, len(along) + 1, device=columns.device, dtype=torch.uint8)
    # Places count from 1, so that 0 means a free way.
    right = (solid * place).amax(dim=-1).long()
    left = (solid * place.flip(0)).amax(dim=-1).long()
    width = grasps[:, None, None, 4]
    reach = along[torch.stack([right, left], dim=1).clamp_min(1) - 1]  # outermost solid, on each side from the middle
    ways = (width[:, None] / 2 - reach).clamp_min(0.0)
    return torch.where((right == 0)[:, None], width[:, None], ways)


def _fingers(top: Tensor, grasps: Tensor, along: Tensor, gripper: GripperSpec) -> Tensor:
    inner = grasps[:, 4:5] / 2
    beneath = (along.abs() >= inner) & (along.abs() <= inner + gripper.pad_thickness)
    parts = [torch.where((beneath & (sign * along > 0))[:, None], top, 0.0).amax(dim=(1, 2)) for sign in (1, -1)]
    return torch.stack(parts, dim=1) - grasps[:, 2:3]


def _palm(
    scenes: SolidScenes, index: Tensor, grasps: Tensor, axis: Tensor, side: Tensor, gripper: GripperSpec
) -> Tensor:
    along = torch.linspace(-gripper.palm_along / 2, gripper.palm_along / 2, 9, device=grasps.device)
    across = torch.linspace(-gripper.palm_across / 2, gripper.palm_across / 2, 5, device=grasps.device)
    cells = _cells(grasps, axis, side, along, across)
    return scenes.top.reshape(-1)[_flat(index, cells)].amax(dim=(1, 2)) - grasps[:, 2] - gripper.pad_height


def _columns(prepared: PreparedObject, pose: Array) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Columns and highest surface of one scene: the union of the object's convex pieces."""
    columns = np.zeros((SIDE, SIDE), np.uint64)
    top = np.zeros((SIDE, SIDE), np.float32)
    for piece in prepared.hulls:
        points = transform_points(pose, piece)
        low = np.clip(np.floor(points[:, :2].min(axis=0) / CELL + SIDE / 2), 0, SIDE).astype(int)
        high = np.clip(np.ceil(points[:, :2].max(axis=0) / CELL + SIDE / 2), 0, SIDE).astype(int)
        if np.any(high <= low):
            continue
        bottom, upper = _interval(points, low, high)
        part = (slice(low[1], high[1]), slice(low[0], high[0]))
        filled = upper > bottom
        columns[part] |= np.where(filled, _bits(bottom, upper), np.uint64(0))
        top[part] = np.maximum(top[part], np.where(filled, upper, 0.0))
    return columns.view(np.int64), top


def _interval(points: Array, low: NDArray[np.intp], high: NDArray[np.intp]) -> tuple[Array, Array]:
    """Heights (rows, columns) between which the vertical through each cell's middle is inside of a convex piece."""
    x = (np.arange(low[0], high[0]) + 0.5 - SIDE / 2) * CELL
    y = (np.arange(low[1], high[1]) + 0.5 - SIDE / 2) * CELL
    equations = np.unique(np.round(ConvexHull(points).equations, 9), axis=0)  # n·p + d ≤ 0 inside
    rest = equations[:, 0, None, None] * x + equations[:, 1, None, None] * y[:, None] + equations[:, 3, None, None]
    up, down, wall = equations[:, 2] > 1e-6, equations[:, 2] < -1e-6, np.abs(equations[:, 2]) <= 1e-6
    with np.errstate(divide="ignore"):
        height = -rest / equations[:, 2, None, None]
    upper = np.where(up[:, None, None], height, np.inf).min(axis=0)
    bottom = np.where(down[:, None, None], height, -np.inf).max(axis=0)
    outside = (np.where(wall[:, None, None], rest, -np.inf) > 0).any(axis=0)
    return bottom, np.where(outside, -np.inf, upper)


def _bits(bottom: Array, upper: Array) -> NDArray[np.uint64]:
    """Columns with the bits of all layers whose middle lies between two heights."""
    first = np.clip(np.ceil(np.where(np.isfinite(bottom), bottom, 0.0) / LAYER - 0.5), 0, LAYERS).astype(int)
    end = np.clip(np.ceil(np.where(np.isfinite(upper), upper, 0.0) / LAYER - 0.5), 0, LAYERS).astype(int)
    below = np.array([(1 << k) - 1 for k in range(LAYERS + 1)], dtype=np.uint64)
    return np.asarray(below[end] & ~below[np.minimum(first, end)])
