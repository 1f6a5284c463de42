"""n-step double-Q targets for moves of the grasp.

Moving a grasp over an image needs no physics: the next state is the same image seen from the next pose, and the
reward is 0 until *execute*. So targets for any move on any recorded scene are computed by following the policy for
n steps inside the image and bootstrapping from the target network (double Q-learning: van Hasselt et al., AAAI 2016;
n-step returns: Sutton & Barto 2018, ch. 7). Physics enters through the *execute* labels alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from keygrasp.refine.actions import EXECUTE, ActionSet
from keygrasp.refine.label_shaping import LabelShaping
from keygrasp.refine.network import QNetwork
from keygrasp.refine.state import SceneTensors, featurise
from keygrasp.scene import GripperSpec


@torch.no_grad()
def n_step_targets(
    online: QNetwork,
    target: QNetwork,
    scenes: SceneTensors,
    index: Tensor,
    grasps: Tensor,
    first: Tensor,
    gripper: GripperSpec,
    *,
    actions: ActionSet,
    gamma: float,
    n_step: int,
    shaping: LabelShaping | None = None,
) -> Tensor:
    """Targets in [0, 1] for moves ``first`` (B,) from ``grasps`` (B, 5) in scenes ``index`` (B,).

    After the first move the online network's greedy action is followed. A state in which it chooses *execute* ends
    the return there, with the target network's success probability as the value; the last state bootstraps from the
    target network's value of the online network's choice. Each move costs a factor γ. ``shaping`` logs its term, which
    cancels.
    """
    value = torch.zeros(len(grasps), device=grasps.device)
    discount = torch.full_like(value, gamma)
    running = torch.ones(len(grasps), dtype=torch.bool, device=grasps.device)
    path, length = [grasps], torch.zeros_like(index)
    grasps = actions.apply(grasps, first, gripper)
    for step in range(1, n_step + 1):
        path.append(grasps)
        length = length + running
        features = featurise(scenes, index, grasps, gripper)
        choice = online(features).argmax(dim=1)
        bootstrap = torch.sigmoid(target(features).gather(1, choice[:, None])[:, 0])
        ends = running & ((choice == EXECUTE) | (step == n_step))
        value = torch.where(ends, discount * bootstrap, value)
        running = running & ~ends
        grasps = torch.where(running[:, None], actions.apply(grasps, choice, gripper), grasps)
        discount = torch.where(running, discount * gamma, discount)
    return value if shaping is None else shaping.targets(index, torch.stack(path), length, value)
