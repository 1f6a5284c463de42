"""Moves of a grasp: each does what its name says, in the gripper's own frame, and stays within bounds."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet, StepSizes
from keygrasp.scene import GripperSpec

GRIPPER = GripperSpec()


def test_every_move_but_execute_changes_exactly_one_axis():
    deltas = ActionSet().deltas()
    assert deltas.shape == (ACTIONS, 5)
    assert (deltas[EXECUTE] == 0).all()
    assert ((deltas[:EXECUTE] != 0).sum(dim=1) == 1).all()
    assert len({tuple(row.tolist()) for row in deltas}) == ACTIONS


def test_along_follows_the_closing_axis():
    actions = ActionSet(steps=StepSizes(along=(0.01, 0.02)))
    grasp = torch.tensor([[0.0, 0.0, 0.05, math.pi / 4, 0.05]])
    moved = actions.apply(grasp, torch.tensor([0]), GRIPPER)[0]
    assert moved[:2].tolist() == pytest.approx([0.01 / math.sqrt(2)] * 2)
    assert moved[2:].tolist() == pytest.approx(grasp[0, 2:].tolist())


def test_across_is_a_left_turn_from_the_closing_axis():
    actions = ActionSet(steps=StepSizes(across=(0.01, 0.02)))
    moved = actions.apply(torch.tensor([[0.0, 0.0, 0.05, 0.0, 0.05]]), torch.tensor([4]), GRIPPER)[0]
    assert moved[:2].tolist() == pytest.approx([0.0, 0.01])


def test_yaw_wraps_because_the_fingers_are_interchangeable():
    actions = ActionSet(steps=StepSizes(yaw=(0.2, 0.4)))
    moved = actions.apply(torch.tensor([[0.0, 0.0, 0.05, math.pi / 2 - 0.1, 0.05]]), torch.tensor([12]), GRIPPER)[0]
    assert float(moved[3]) == pytest.approx(-math.pi / 2 + 0.1, abs=1e-6)


grasps = st.tuples(
    st.floats(-0.17, 0.17),
    st.floats(-0.17, 0.17),
    st.floats(0.002, 0.25),
    st.floats(-1.57, 1.57),
    st.floats(0.004, 0.085),
)


@given(grasps, st.lists(st.integers(0, ACTIONS - 1), max_size=30))
def test_no_sequence_of_moves_leaves_the_bounds(start, moves):
    actions, grasp = ActionSet(), torch.tensor([start], dtype=torch.float32)
    for move in moves:
        grasp = actions.apply(grasp, torch.tensor([move]), GRIPPER)
    x, y, z, yaw, width = grasp[0].tolist()
    bounds, slack = actions.bounds, 1e-6
    assert max(abs(x), abs(y)) <= bounds.reach + slack
    assert bounds.lowest - slack <= z <= bounds.highest + slack
    assert abs(yaw) <= math.pi / 2 + slack
    assert GRIPPER.min_opening - slack <= width <= GRIPPER.max_opening + slack


@given(grasps, st.integers(0, EXECUTE - 1))
def test_a_move_and_its_opposite_cancel_inside_the_bounds(start, move):
    actions, grasp = ActionSet(), torch.tensor([start], dtype=torch.float32)
    there = actions.apply(grasp, torch.tensor([move]), GRIPPER)
    step = (there - grasp)[0].abs()
    back = actions.apply(there, torch.tensor([move ^ 1]), GRIPPER)
    inside = step.sum() > 0 and torch.allclose(step.norm(), actions.deltas()[move].norm(), atol=1e-5)
    if inside:
        assert torch.allclose(back, grasp, atol=1e-5)
