"""Double-Q targets for moves of the grasp: by n steps of the policy, or by Retrace over sequences that were kept.

Moving a grasp over an image needs no physics: the next state is the same image seen from the next pose, and the
reward is 0 until *execute*. So targets for any move on any recorded scene are computed by following the policy for
n steps inside the image and bootstrapping from the target network (double Q-learning: van Hasselt et al., AAAI 2016;
n-step returns: Sutton & Barto 2018, ch. 7). Physics enters through the *execute* labels alone.

Retrace (Munos et al., NeurIPS 2016) learns from sequences that an earlier, exploring policy made. The target policy is
greedy, so that a trace goes on as long as the actions taken are those that the online network would take now, and
gives a target for each action on the way.
"""

from __future__ import annotations

import torch
from torch import Tensor

from keygrasp.credit import retrace
from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet
from keygrasp.refine.label_shaping import LabelShaping
from keygrasp.refine.network import QNetwork
from keygrasp.refine.sequences import Sequences
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


@torch.no_grad()
def retrace_targets(
    online: QNetwork,
    target: QNetwork,
    scenes: SceneTensors,
    sequences: Sequences,
    gripper: GripperSpec,
    *,
    gamma: float,
    trace: float,
) -> Tensor:
    """Targets (B, T) of every action of sequences, by :func:`keygrasp.credit.retrace`.

    *Execute* is worth the target network's success probability, as in :func:`n_step_targets`, and ends its episode;
    what follows it has the target 0. Where all actions after the first are the online network's choices, the first
    one's target is the T-step target for ``trace`` 1 and the one-step target for 0.

    Args:
        online: Whose choices are the target policy.
        target: Gives their values.
        scenes: The images.
        sequences: B sequences of T actions.
        gripper: The gripper.
        gamma: Discount a move.
        trace: Retrace's λ.
    """
    steps = sequences.actions.shape[1]
    grasps = sequences.grasps.reshape(-1, 5)
    features = featurise(scenes, sequences.index.repeat_interleave(steps + 1), grasps, gripper)
    values = torch.sigmoid(target(features)).reshape(-1, steps + 1, ACTIONS)
    greedy = online(features).argmax(dim=1).reshape(-1, steps + 1)
    taken, counts = sequences.actions, sequences.counts
    executed = taken == EXECUTE
    own = values[:, :-1].gather(2, taken[..., None])[..., 0]
    follows = (taken == greedy[:, :-1]).to(own.dtype)
    return retrace(
        torch.where(executed, own, 0.0),
        own,
        values.gather(2, greedy[..., None])[:, 1:, 0],
        torch.log(follows),
        sequences.log_probs,
        executed,
        gamma=gamma,
        lam=trace,
        mask=counts,
        time_dim=1,
        advantages=False,
    ).targets
