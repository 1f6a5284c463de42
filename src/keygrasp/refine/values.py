"""Values of grasps on one perceived object: the network with everything that it needs at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keygrasp.perception import Perceived
from keygrasp.refine.actions import EXECUTE, ActionSet
from keygrasp.refine.network import Calibration, QNetwork, load_network
from keygrasp.refine.state import SceneTensors, featurise
from keygrasp.scene import Attempt, GripperSpec

Array = NDArray[np.float64]

#: A failed grasp lowers the values of its neighbours: by this much in logits at the same pose …
_FAILED_PENALTY = 3.0
#: … falling off over these distances in (x, y, z, yaw, width).
_FAILED_REACH = (0.010, 0.010, 0.010, 0.30, 0.030)


class Evaluator:
    """Scores grasps on one object of one image, and counts how many it scored."""

    def __init__(
        self,
        network: QNetwork,
        perceived: Perceived,
        segment_index: int,
        gripper: GripperSpec,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        self.network = network
        self.gripper = gripper
        self.evaluations = 0
        self._scene = SceneTensors.build([perceived.height_map], [perceived.keypoints[segment_index]])
        failed = [(a.grasp.x, a.grasp.y, a.grasp.z, a.grasp.yaw, a.grasp.width) for a in attempts]
        self._failed = torch.tensor(failed, dtype=torch.float32).reshape(-1, 5)

    @torch.inference_mode()
    def logits(self, grasps: Tensor) -> Tensor:
        """Action logits (B, ACTIONS) of grasps (B, 5); near earlier failures *execute* is marked down."""
        self.evaluations += len(grasps)
        index = torch.zeros(len(grasps), dtype=torch.long)
        logits: Tensor = self.network(featurise(self._scene, index, grasps, self.gripper))
        if len(self._failed):
            logits[:, EXECUTE] -= self._penalty(grasps)
        return logits

    def execute_logits(self, grasps: Array) -> Array:
        """Logits (B,) of success of grasps (B, 5)."""
        values = self.logits(torch.as_tensor(grasps, dtype=torch.float32))[:, EXECUTE]
        return np.asarray(values.double().numpy())

    def _penalty(self, grasps: Tensor) -> Tensor:
        difference = grasps[:, None] - self._failed[None]
        yaw = torch.remainder(difference[..., 3] + torch.pi / 2, torch.pi) - torch.pi / 2
        difference = torch.cat([difference[..., :3], yaw[..., None], difference[..., 4:]], dim=2)
        distance = (difference / difference.new_tensor(_FAILED_REACH)).square().sum(dim=2)
        return _FAILED_PENALTY * torch.exp(-distance / 2).sum(dim=1)


@dataclass(frozen=True, eq=False)
class Rollout:
    """Grasps visited by the greedy policy.

    Attributes:
        visited: (T, M, 5) poses, T steps of M starts; a start that has stopped keeps its last pose.
        execute: (T, M) logits of success there.
    """

    visited: Tensor
    execute: Tensor


@torch.inference_mode()
def greedy_rollout(evaluator: Evaluator, starts: Array, actions: ActionSet, max_steps: int) -> Rollout:
    """Follow the Q-network from every start (M, 5) until its own value says *execute*, at most ``max_steps`` moves."""
    grasps = torch.as_tensor(starts, dtype=torch.float32)
    active = torch.ones(len(grasps), dtype=torch.bool)
    visited, execute = [grasps], []
    values = torch.full((len(grasps),), -torch.inf)
    for step in range(max_steps + 1):
        logits = evaluator.logits(grasps[active])
        values = values.clone()
        values[active] = logits[:, EXECUTE]
        execute.append(values)
        chosen = torch.full((len(grasps),), EXECUTE, dtype=torch.long)
        chosen[active] = logits.argmax(dim=1)
        active = chosen != EXECUTE
        if step == max_steps or not bool(active.any()):
            break
        grasps = torch.where(active[:, None], actions.apply(grasps, chosen, evaluator.gripper), grasps)
        visited.append(grasps)
    return Rollout(torch.stack(visited), torch.stack(execute))


@dataclass(frozen=True, eq=False)
class Weights:
    """A trained network with its calibration."""

    network: QNetwork
    calibration: Calibration

    @classmethod
    def load(cls, path: Path) -> Weights:
        """Read weights (see :func:`keygrasp.refine.network.load_network`)."""
        return cls(*load_network(path))
