"""n-step targets by hand: a stub network with known values walks a known path."""

import numpy as np
import pytest
import torch
from test_refine_state import box_scene

from keygrasp.errors import InputError
from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet
from keygrasp.refine.label_shaping import LabelShaping
from keygrasp.refine.targets import n_step_targets
from keygrasp.scene import GripperSpec, SymbolicState, Task
from keygrasp.shaping import RulePotential

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


def targets(online, target, z, n_step, shaping=None):
    grasp = torch.tensor([[0.0, 0.0, z, 0.0, 0.06]])
    index = torch.zeros(1, dtype=torch.long)
    value = n_step_targets(
        online, target, box_scene(), index, grasp, torch.tensor([DOWN]), GripperSpec(),
        actions=ActionSet(), gamma=GAMMA, n_step=n_step, shaping=shaping,
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


#: A box on the table as seen from above, the gripper elsewhere.
SEEN = SymbolicState(
    object_x=0.0, object_y=0.0, object_z=0.02, object_yaw=1.57, object_length=0.1, object_width=0.05,
    object_height=0.04, object_shape="other", object_colour="unknown", gripper_x=0.5, gripper_y=0.5, gripper_z=0.5,
    gripper_yaw=0.0, gripper_width=0.0,
)  # fmt: skip


def shaping_by(name, scale=1.0):
    return LabelShaping(name, SEEN.to_row()[None], GAMMA, scale=scale)


@pytest.mark.parametrize("name", ["none", "rules", "learned", "adversarial"])
def test_shaping_cancels_in_targets_from_labels(name):
    online, target = Stub(0.035, 2.0, 1.0), Stub(0.035, 0.5, -1.0)
    for z, n_step in ((0.06, 5), (0.06, 1), (0.02, 3), (0.20, 4)):
        plain = targets(online, target, z, n_step)
        assert targets(online, target, z, n_step, shaping_by(name, scale=3.0)) == pytest.approx(plain, abs=1e-5)


def test_the_logged_terms_are_those_of_the_moves_up_to_the_end_of_the_return():
    online, target = Stub(0.035, 2.0, 1.0), Stub(0.035, 0.5, -1.0)
    shaping = shaping_by("rules", scale=2.0)
    value = targets(online, target, 0.06, 5, shaping)  # three moves down, to 0.03
    poses = [SEEN.replace(gripper_x=0, gripper_y=0, gripper_z=z, gripper_width=0.06) for z in (0.06, 0.03)]
    begin, end = 2.0 * RulePotential().values(np.stack([pose.to_row() for pose in poses]), Task())
    assert shaping.terms["reward_task"] == pytest.approx(value)
    assert shaping.terms["reward_shaping"] == pytest.approx(GAMMA**3 * end - begin, abs=1e-5)
    assert end != begin


def test_shaping_without_symbols_says_how_to_get_them():
    with pytest.raises(InputError, match="symbols=True"):
        LabelShaping("rules", None, GAMMA)
