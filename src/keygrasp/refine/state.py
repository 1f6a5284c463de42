"""What the Q-network sees of a grasp: keypoints and height samples in the gripper's frame, and the gripper itself.

The gripper's frame has u along the closing axis, v across it, and z measured from the fingertips, so that the state
doesn't depend on where the object lies or how it is turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from keygrasp.scene import TOTAL_ROWS, GripperSpec, HeightMap, KeypointKind, Keypoints

#: Height samples: along the closing axis (covers the open fingers and the palm) and across it.
GRID_ALONG, GRID_ACROSS = 40, 12
_STEP_ALONG, _STEP_ACROSS = 0.00375, 0.004
#: Lengths are divided by these to bring features near ±1.
LENGTH, HEIGHT = 0.10, 0.04
#: Columns of the stored keypoints: x, y, z, normal x, normal y, radius, one column a kind.
STORED = 6 + len(KeypointKind)
#: Columns of the features of one keypoint.
KEYPOINT_FEATURES = 8 + len(KeypointKind)
#: Channels of the height samples: height over the fingertips, height over the table, pads' footprint.
HEIGHT_CHANNELS = 3
#: Scalars: z, width, surface under the centre, gripper's four lengths.
SCALARS = 7


@dataclass(frozen=True, eq=False)
class SceneTensors:
    """Perceived scenes as tensors, batch first.

    Attributes:
        heights: (S, H + 2, W + 2) metres above the table, with a border of table around the map.
        keypoints: (S, K, columns) stored keypoints in the workspace frame.
        mask: (S, K) bool, true where a keypoint is used.
        origin: (2,) x, y of cell [0, 0], the same for all scenes.
        cell: Edge of a cell in metres.
    """

    heights: Tensor
    keypoints: Tensor
    mask: Tensor
    origin: Tensor
    cell: float

    @classmethod
    def build(cls, maps: Sequence[HeightMap], keypoints: Sequence[Keypoints]) -> SceneTensors:
        """Stack height maps that share one grid with the keypoints of one object each."""
        rows = np.stack([_stored_keypoints(k) for k in keypoints])
        return cls(
            heights=torch.from_numpy(np.stack([np.pad(m.heights, 1) for m in maps])),
            keypoints=torch.from_numpy(rows),
            mask=torch.from_numpy(np.stack([k.mask for k in keypoints])),
            origin=torch.tensor(maps[0].origin, dtype=torch.float32),
            cell=maps[0].cell,
        )

    def to(self, device: torch.device) -> SceneTensors:
        """The same scenes on another device."""
        return SceneTensors(
            self.heights.to(device), self.keypoints.to(device), self.mask.to(device), self.origin.to(device), self.cell
        )


@dataclass(frozen=True, eq=False)
class GraspFeatures:
    """Network inputs of B grasps.

    Attributes:
        heights: (B, HEIGHT_CHANNELS, GRID_ACROSS, GRID_ALONG).
        keypoints: (B, K, KEYPOINT_FEATURES).
        mask: (B, K) bool.
        scalars: (B, SCALARS).
    """

    heights: Tensor
    keypoints: Tensor
    mask: Tensor
    scalars: Tensor


def featurise(
    scenes: SceneTensors, index: Tensor, grasps: Tensor, gripper: GripperSpec, flip: Tensor | None = None
) -> GraspFeatures:
    """Features of grasps in their scenes.

    Args:
        scenes: S scenes.
        index: (B,) scene of each grasp.
        grasps: (B, 5) as (x, y, z, yaw, width) in the workspace frame.
        gripper: The gripper, part of the state.
        flip: (B, 2) of ±1: mirrors u and v. A parallel grasp's verdict doesn't change under either mirror, so
            training draws them at random.
    """
    axes = torch.stack([torch.cos(grasps[:, 3]), torch.sin(grasps[:, 3])], dim=1)
    across = torch.stack([-axes[:, 1], axes[:, 0]], dim=1)
    if flip is not None:
        axes, across = axes * flip[:, :1], across * flip[:, 1:]
    heights, centre = _height_samples(scenes, index, grasps, axes, across, gripper)
    features = _keypoint_features(scenes, index, grasps, axes, across)
    lengths = grasps.new_tensor([gripper.max_opening, gripper.pad_width, gripper.pad_thickness, gripper.pad_height])
    scalars = torch.cat(
        [
            (grasps[:, 2:3] / LENGTH),
            (grasps[:, 4:5] / LENGTH),
            ((centre - grasps[:, 2]) / HEIGHT).clamp(-2, 2)[:, None],
            (lengths / LENGTH).expand(len(grasps), 4),
        ],
        dim=1,
    )
    return GraspFeatures(heights, features, scenes.mask[index], scalars)


def noisy_heights(features: GraspFeatures, spread: float, seed: int) -> GraspFeatures:
    """The same features with normal noise of ``spread`` metres on every height sample, drawn by ``seed``."""
    heights = features.heights
    generator = torch.Generator(heights.device).manual_seed(seed)
    noise = spread * torch.randn(heights[:, :1].shape, generator=generator, device=heights.device)
    scales = heights.new_tensor([1 / HEIGHT, 1 / LENGTH, 0.0])[:, None, None]
    return replace(features, heights=heights + noise * scales)


def grid_axes() -> tuple[Tensor, Tensor]:
    """Metres along (GRID_ALONG,) and across (GRID_ACROSS,) the closing axis of the height samples."""
    along = (torch.arange(GRID_ALONG) - (GRID_ALONG - 1) / 2) * _STEP_ALONG
    across = (torch.arange(GRID_ACROSS) - (GRID_ACROSS - 1) / 2) * _STEP_ACROSS
    return along, across


def _stored_keypoints(keypoints: Keypoints) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    stored = np.zeros((TOTAL_ROWS, STORED), dtype=np.float32)
    stored[:, :3] = keypoints.position
    stored[:, 3:5] = keypoints.normal
    stored[:, 5] = keypoints.radius
    stored[np.arange(TOTAL_ROWS), 6 + keypoints.kind.astype(np.intp)] = 1.0
    return stored


def _height_samples(
    scenes: SceneTensors, index: Tensor, grasps: Tensor, axes: Tensor, across: Tensor, gripper: GripperSpec
) -> tuple[Tensor, Tensor]:
    """Sample heights on the gripper's grid; also the height (B,) under its centre."""
    u, v = (axis.to(grasps.device) for axis in grid_axes())
    offset = u[None, None, :, None] * axes[:, None, None, :] + v[None, :, None, None] * across[:, None, None, :]
    values = _lookup(scenes, index, grasps[:, None, None, :2] + offset)
    centre = _lookup(scenes, index, grasps[:, None, None, :2])[:, 0, 0]
    inner = grasps[:, 4, None, None] / 2
    distance = u.abs()[None, None, :]
    pads = (distance >= inner) & (distance <= inner + gripper.pad_thickness)
    pads = pads & (v.abs() <= gripper.pad_width / 2)[None, :, None]
    over_tips = ((values - grasps[:, 2, None, None]) / HEIGHT).clamp(-2, 2)
    return torch.stack([over_tips, (values / LENGTH).clamp(-1, 2.5), pads.to(values.dtype)], dim=1), centre


def _lookup(scenes: SceneTensors, index: Tensor, xy: Tensor) -> Tensor:
    """Nearest heights at workspace points (B, …, 2); the table (0) outside the map, as in HeightMap.sample."""
    height, width = scenes.heights.shape[1:]
    cells = ((xy - scenes.origin) / scenes.cell).round_().long()
    # Index 0 of the padded map is one cell before the first; whatever lies further out is read off the border.
    column = (cells[..., 0] + 1).clamp_(0, width - 1)
    row = (cells[..., 1] + 1).clamp_(0, height - 1)
    return scenes.heights.reshape(-1)[(index[:, None, None] * height + row) * width + column]


def _keypoint_features(scenes: SceneTensors, index: Tensor, grasps: Tensor, axes: Tensor, across: Tensor) -> Tensor:
    rows = scenes.keypoints[index]
    frame = torch.stack([axes, across], dim=2)  # (B, 2, 2): columns are u and v
    position = torch.bmm(rows[..., :2] - grasps[:, None, :2], frame)
    normal = torch.bmm(rows[..., 3:5], frame)
    # How far a point lies outside the open pads' inner faces: what decides contact, easier given than learned.
    outside = position[..., :1].abs() - grasps[:, None, 4:5] / 2
    return torch.cat(
        [
            position / LENGTH,
            (rows[..., 2:3] - grasps[:, None, 2:3]) / HEIGHT,
            normal,
            rows[..., 5:6] / HEIGHT,
            outside / LENGTH,
            rows[..., 2:3] / LENGTH,
            rows[..., 6:],
        ],
        dim=2,
    )
