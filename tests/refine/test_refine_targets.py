"""n-step targets by hand: a stub network with known values walks a known path."""

import pytest
import torch
from test_refine_state import box_scene

from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet
from keygrasp.refine.targets import n_step_targets
from keygrasp.scene import GripperSpec

GAMMA = 0.9


class Stub(torch.nn.Module):
    """Wants to execute once the fingertips are below ``goal``, else to move down; values are fixed logits."""

    def __init__(self, goal, execute, move):
        super().__init__()
        self.goal, self.execute, self.move = goal, execute, move

    def forward(self, features):
        z = features.scalars[:, 0] * 0.10
        logits = torch.full((len(z), ACTIONS), -9.0)
        low = z < self.goal
        logits[:, EXECUTE] = torch.where(low, self.execute, -5.0)
        logits[:, DOWN] = torch.where(low, -5.0, self.move)
        return logits


DOWN = 11  # z, large, negative


def targets(online, target, z, n_step):
    grasp = torch.tensor([[0.0, 0.0, z, 0.0, 0.06]])
    index = torch.zeros(1, dtype=torch.long)
    value = n_step_targets(
        online, target, box_scene(), index, grasp, torch.tensor([DOWN]), GripperSpec(),
        actions=ActionSet(), gamma=GAMMA, n_step=n_step,
    )  # fmt: skip
    return float(value[0])


def sigmoid(value):
    return float(torch.sigmoid(torch.tensor(value)))


def test_down_is_down():
    assert ActionSet().deltas()[DOWN].tolist() == pytest.approx([0, 0, -0.010, 0, 0])


def test_one_step_bootstraps_from_the_target_networks_value_of_the_online_choice():
    online, target = Stub(0.02, 2.0, 1.0), Stub(0.02, 0.5, -1.0)
    # From z = 0.06 to 0.05: online still moves down, whose value the target network gives as sigmoid(-1).
    assert targets(online, target, 0.06, 1) == pytest.approx(GAMMA * sigmoid(-1.0))


def test_execution_ends_the_return_with_one_discount_a_move():
    online, target = Stub(0.035, 2.0, 1.0), Stub(0.035, 0.5, -1.0)
    # 0.06 → 0.05 → 0.04 → 0.03: the third move reaches the goal, there execute is worth sigmoid(0.5).
    assert targets(online, target, 0.06, 5) == pytest.approx(GAMMA**3 * sigmoid(0.5))


def test_a_start_that_reaches_the_goal_at_once_is_discounted_once():
    online, target = Stub(0.055, 2.0, 1.0), Stub(0.055, 0.5, -1.0)
    assert targets(online, target, 0.06, 3) == pytest.approx(GAMMA * sigmoid(0.5))


def test_double_q_uses_the_online_choice_not_the_targets_best():
    online = Stub(1.0, 2.0, 1.0)  # would execute at once
    target = Stub(0.0, -4.0, 3.0)  # values moving far higher, and executing at its floor of -5
    assert targets(online, target, 0.06, 3) == pytest.approx(GAMMA * sigmoid(-5.0))
