"""The refiner's actions: small and large moves of the grasp in the gripper's own frame, and *execute*."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from keygrasp.configuration import check_ranges
from keygrasp.scene import GripperSpec

#: Index of the action that ends an episode by executing the grasp.
EXECUTE = 20
#: Number of actions: two directions × five axes × two step sizes, and execute.
ACTIONS = 21


@dataclass(frozen=True)
class StepSizes:
    """Lengths of one move; each axis has a small and a large one.

    Attributes:
        along: Metres along the closing axis.
        across: Metres across it.
        height: Metres in z.
        yaw: Radians.
        width: Metres of opening.
    """

    along: tuple[float, float] = (0.0025, 0.010)
    across: tuple[float, float] = (0.0025, 0.010)
    height: tuple[float, float] = (0.0025, 0.010)
    yaw: tuple[float, float] = (0.0873, 0.3491)
    width: tuple[float, float] = (0.004, 0.016)

    def __post_init__(self) -> None:
        check_ranges(self, "steps", dict.fromkeys(("along", "across", "height", "width"), (0, 1)) | {"yaw": (0, 3.2)})


@dataclass(frozen=True)
class GraspBounds:
    """Where moves may take a grasp.

    Attributes:
        reach: Largest |x| and |y| in metres in the workspace frame.
        lowest: Lowest fingertip height in metres.
        highest: Highest fingertip height in metres.
    """

    reach: float = 0.17
    lowest: float = 0.002
    highest: float = 0.25

    def __post_init__(self) -> None:
        check_ranges(self, "bounds", {"reach": (0, 10), "highest": (0, 10), "lowest": (0, self.highest)})


@lru_cache(maxsize=8)
def _deltas(steps: StepSizes, device: torch.device | None) -> Tensor:
    """See :meth:`ActionSet.deltas`; made once, as every step of every rollout asks for it."""
    table = torch.zeros(ACTIONS, 5)
    for axis, pair in enumerate((steps.along, steps.across, steps.height, steps.yaw, steps.width)):
        for size, length in enumerate(pair):
            row = axis * 4 + size * 2
            table[row, axis] = length
            table[row + 1, axis] = -length
    return table.to(device) if device is not None else table


@dataclass(frozen=True)
class ActionSet:
    """Applies actions to batches of grasps."""

    steps: StepSizes = field(default_factory=StepSizes)
    bounds: GraspBounds = field(default_factory=GraspBounds)

    def deltas(self, device: torch.device | None = None) -> Tensor:
        """(ACTIONS, 5) changes of (along, across, z, yaw, width); the last row (execute) is zero."""
        return _deltas(self.steps, device)

    def apply(self, grasps: Tensor, actions: Tensor, gripper: GripperSpec) -> Tensor:
        """Move grasps (B, 5) as (x, y, z, yaw, width) by actions (B,); results stay within the bounds."""
        delta = self.deltas(grasps.device)[actions]
        cos, sin = torch.cos(grasps[:, 3]), torch.sin(grasps[:, 3])
        bounds = self.bounds
        x = grasps[:, 0] + cos * delta[:, 0] - sin * delta[:, 1]
        y = grasps[:, 1] + sin * delta[:, 0] + cos * delta[:, 1]
        z = grasps[:, 2] + delta[:, 2]
        half = torch.pi / 2
        yaw = torch.remainder(grasps[:, 3] + delta[:, 3] + half, torch.pi) - half
        width = grasps[:, 4] + delta[:, 4]
        return torch.stack(
            [
                x.clamp(-bounds.reach, bounds.reach),
                y.clamp(-bounds.reach, bounds.reach),
                z.clamp(bounds.lowest, bounds.highest),
                yaw,
                width.clamp(gripper.min_opening, gripper.max_opening),
            ],
            dim=1,
        )
