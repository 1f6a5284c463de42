"""Values of grasps on one perceived object: the network with everything that it needs at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keygrasp.perception import Perceived
from keygrasp.refine.actions import EXECUTE, ActionSet
from keygrasp.refine.inference import FastNetwork, ObjectView, action_logits
from keygrasp.refine.network import Calibration, QNetwork, load_network
from keygrasp.refine.state import SceneTensors
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
        weights: Weights,
        perceived: Perceived,
        segment_index: int,
        gripper: GripperSpec,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        self.gripper = gripper
        self.evaluations = 0
        self._network = weights.fast
        scene = SceneTensors.build([perceived.height_map], [perceived.keypoints[segment_index]])
        self._view = ObjectView(scene, gripper)
        failed = [(a.grasp.x, a.grasp.y, a.grasp.z, a.grasp.yaw, a.grasp.width) for a in attempts]
        self._failed = torch.tensor(failed, dtype=torch.float32).reshape(-1, 5)

    def logits(self, grasps: Tensor) -> Tensor:
        """Action logits (B, ACTIONS) of grasps (B, 5); near earlier failures *execute* is marked down."""
        self.evaluations += len(grasps)
        logits = torch.from_numpy(action_logits([self._network], self._view, grasps.numpy()))
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


def greedy_rollout(evaluator: Evaluator, starts: Tensor, logits: Tensor, actions: ActionSet, max_steps: int) -> Rollout:
    """Follow the Q-network from every start until its own value says *execute*.

    Args:
        evaluator: Scores the grasps on the way.
        starts: (M, 5) grasps.
        logits: (M, ACTIONS) their logits.
        actions: The moves.
        max_steps: Most moves.
    """
    grasps, values, chosen = starts, logits[:, EXECUTE], logits.argmax(dim=1)
    visited, execute = [grasps], [values]
    for _ in range(max_steps):
        active = torch.nonzero(chosen != EXECUTE)[:, 0]
        if len(active) == 0:
            break
        moved = actions.apply(grasps[active], chosen[active], evaluator.gripper)
        logits = evaluator.logits(moved)
        grasps = grasps.index_copy(0, active, moved)
        values = values.index_copy(0, active, logits[:, EXECUTE])
        chosen = chosen.index_copy(0, active, logits.argmax(dim=1))
        visited.append(grasps)
        execute.append(values)
    return Rollout(torch.stack(visited), torch.stack(execute))


@dataclass(frozen=True, eq=False)
class Weights:
    """A trained network with its calibration.

    Attributes:
        network: The network, in evaluation mode.
        calibration: Turns a chosen grasp's logit into a probability.
        fast: The network as it is run.
    """

    network: QNetwork
    calibration: Calibration
    fast: FastNetwork = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fast", FastNetwork(self.network))

    @classmethod
    def load(cls, path: Path) -> Weights:
        """Read weights (see :func:`keygrasp.refine.network.load_network`)."""
        return cls(*load_network(path))
