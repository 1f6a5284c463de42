"""n-step targets by hand: a stub network with known values walks a known path."""

import numpy as np
import pytest
import torch
from test_refine_state import box_scene

from keygrasp.errors import InputError
from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet
from keygrasp.refine.label_shaping import LabelShaping
from keygrasp.refine.sequences import SequenceReplay, Sequences, explore
from keygrasp.refine.targets import n_step_targets, retrace_targets
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


UP = 10  # z, large, positive


def sequences_of(*rows, z=0.06, share=0.2):
    """Sequences with given actions from one height, as a policy with that share of random actions would take them."""
    grasps = [torch.tensor([[0.0, 0.0, z, 0.0, 0.06]]).repeat(len(rows), 1)]
    actions = torch.tensor(rows)
    for step in range(actions.shape[1]):
        grasps.append(ActionSet().apply(grasps[-1], actions[:, step], GripperSpec()))
    log_probs = torch.full(actions.shape, float(np.log(share / ACTIONS)))
    return Sequences(torch.zeros(len(rows), dtype=torch.long), torch.stack(grasps, dim=1), actions, log_probs)


def retraced(online, target, sequences, trace):
    return retrace_targets(online, target, box_scene(), sequences, GripperSpec(), gamma=GAMMA, trace=trace)


def test_on_policy_with_full_traces_every_target_is_what_came_of_it():
    online, target = Stub(0.035, 2.0, 1.0), Stub(0.035, 0.5, -1.0)
    # 0.06 → 0.05 → 0.04 → 0.03, where execute is worth sigmoid(0.5): the Monte-Carlo return of each step.
    found = retraced(online, target, sequences_of((DOWN, DOWN, DOWN, EXECUTE)), trace=1.0)[0]
    assert found.tolist() == pytest.approx([GAMMA**n * sigmoid(0.5) for n in (3, 2, 1, 0)])


@pytest.mark.parametrize("z", [0.05, 0.06, 0.09])
def test_on_policy_retrace_lies_between_one_step_and_n_steps(z):
    online, target = Stub(0.035, 2.0, 1.0), Stub(0.035, 0.5, -1.0)
    generator = torch.Generator().manual_seed(0)
    grasp = torch.tensor([[0.0, 0.0, z, 0.0, 0.06]])
    made = explore(
        online, box_scene(), torch.zeros(1, dtype=torch.long), grasp, torch.tensor([DOWN]), GripperSpec(),
        actions=ActionSet(), length=4, share=0.0, generator=generator,
    )  # fmt: skip
    assert float(retraced(online, target, made, 1.0)[0, 0]) == pytest.approx(targets(online, target, z, 4))
    assert float(retraced(online, target, made, 0.0)[0, 0]) == pytest.approx(targets(online, target, z, 1))


def test_a_trace_is_cut_where_the_action_is_not_the_one_that_would_be_taken_now():
    online, target = Stub(0.035, 2.0, 1.0), Stub(0.035, 0.5, -1.0)
    kept, cut = retraced(online, target, sequences_of((DOWN, DOWN, DOWN), (DOWN, UP, DOWN)), trace=1.0)
    assert float(cut[0]) == pytest.approx(targets(online, target, 0.06, 1))
    assert float(kept[0]) == pytest.approx(targets(online, target, 0.06, 3))


def test_what_follows_execution_has_no_target_and_changes_nothing():
    online, target = Stub(0.055, 2.0, 1.0), Stub(0.055, 0.5, -1.0)
    first, second = retraced(online, target, sequences_of((DOWN, EXECUTE, UP), (DOWN, EXECUTE, DOWN)), trace=1.0)
    assert first.tolist() == second.tolist() == pytest.approx([GAMMA * sigmoid(0.5), sigmoid(0.5), 0.0])


def test_exploration_states_the_probabilities_of_its_actions():
    online = Stub(0.0, 0.0, 1.0)  # always moves down
    generator = torch.Generator().manual_seed(1)
    count = 4000
    made = explore(
        online, box_scene(), torch.zeros(count, dtype=torch.long), torch.tensor([[0.0, 0.0, 0.2, 0.0, 0.06]]).repeat(
            count, 1), torch.full((count,), UP), GripperSpec(),
        actions=ActionSet(), length=2, share=0.3, generator=generator,
    )  # fmt: skip
    taken = made.actions[:, 1]
    assert float((taken == DOWN).float().mean()) == pytest.approx(0.7 + 0.3 / ACTIONS, abs=0.02)
    stated = made.log_probs[:, 1].exp()
    assert stated[taken == DOWN].tolist() == pytest.approx([0.7 + 0.3 / ACTIONS] * int((taken == DOWN).sum()))
    assert stated[taken == UP].tolist() == pytest.approx([0.3 / ACTIONS] * int((taken == UP).sum()))


def test_the_memory_of_sequences_keeps_the_newest_and_comes_back_whole():
    replay = SequenceReplay(3, 2, torch.device("cpu"))
    with pytest.raises(InputError, match="no sequence"):
        replay.draw(1, torch.Generator())
    replay.add(sequences_of((DOWN, UP), (UP, UP)))
    replay.add(sequences_of((DOWN, DOWN), (UP, DOWN)))  # the first of the four goes
    assert len(replay) == 3
    again = SequenceReplay(3, 2, torch.device("cpu"))
    again.restore(replay.state())
    drawn, same = (memory.draw(64, torch.Generator().manual_seed(0)) for memory in (replay, again))
    assert {tuple(row) for row in drawn.actions.tolist()} == {(UP, UP), (DOWN, DOWN), (UP, DOWN)}
    assert drawn.actions.tolist() == same.actions.tolist()
