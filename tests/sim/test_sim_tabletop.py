"""The table-top workspace: what an action does, what is seen, and what is refused."""

import math

import numpy as np
import pytest

from keygrasp.errors import InputError
from keygrasp.scene.tabletop import ACTIONS, MOTION_SCALE, OBJECTS, REACH_HIGH, REACH_LOW
from keygrasp.sim.tabletop import Tabletop


@pytest.fixture(scope="module")
def workspace():
    with Tabletop() as made:
        yield made


def of(view):
    state = view.states["red"]
    return np.array([state.gripper_x, state.gripper_y, state.gripper_z, state.gripper_yaw])


def test_an_episode_begins_the_same_with_the_same_seed(workspace):
    first, other, again = (workspace.reset(seed) for seed in (5, 6, 5))
    assert np.allclose(of(first), of(again))
    for name in OBJECTS:
        assert np.allclose(first.states[name].to_row(), again.states[name].to_row(), atol=0)
    assert not np.allclose(first.states["red"].to_row(), other.states["red"].to_row())
    assert first.states["red"].object_colour == "red"
    assert first.states["blue"].object_colour == "blue"
    assert first.states["red"].object_z == pytest.approx(first.states["red"].object_height / 2, abs=1e-3)
    assert not first.lost


@pytest.mark.parametrize("axis", range(4))
def test_an_action_moves_the_gripper_by_its_scale(workspace, axis):
    before = of(workspace.reset(1))
    action = np.zeros(len(ACTIONS))
    action[axis] = 0.5 * (-1 if before[axis] > 0 else 1)
    moved = of(workspace.step(action)) - before
    wanted = np.zeros(4)
    wanted[axis] = action[axis] * MOTION_SCALE[axis]
    assert np.allclose(moved, wanted, atol=2e-3)


def test_the_gripper_stays_within_its_reach(workspace):
    workspace.reset(2)
    for _ in range(20):
        view = workspace.step([1, 1, 1, 0, 0])
    assert np.allclose(of(view)[:3], REACH_HIGH, atol=2e-3)
    assert of(view)[2] >= REACH_LOW[2]


def test_a_negative_grip_opens_and_a_positive_one_closes(workspace):
    workspace.reset(3)
    widths = [workspace.step([0, 0, 0, 0, grip]).states["red"].gripper_width for grip in (1, 1, 1, -0.5, -1)]
    assert widths[0] == pytest.approx(0.055, abs=3e-3)
    assert widths[2] < 0.01
    assert widths[2] < widths[3] < widths[4]


def test_pressing_down_on_an_object_stops_at_the_guard(workspace):
    view = workspace.reset(4)
    for _ in range(30):  # closed fingers, above the block
        state = view.states["red"]
        way = np.array([state.object_x - state.gripper_x, state.object_y - state.gripper_y]) / MOTION_SCALE[0]
        view = workspace.step([*np.clip(way, -1, 1), -0.3 if np.abs(way).max() < 0.2 else 0, 0, 1])
    state = view.states["red"]
    assert state.gripper_z > 0.6 * state.object_height
    assert view.force < 60
    assert abs(state.height) < 0.01


def test_left_and_right_are_told_in_the_wrapped_yaw(workspace):
    """The pad on the positive side of the closing axis touches first when the gripper comes from the negative side."""
    for turns in (0, 1):
        view = workspace.reset(7)
        workspace.gripper.approach(np.array([0.19, 0.19, 0.15, math.pi * turns]), 0.085, workspace.world.step)
        workspace._command = np.array([0.19, 0.19, 0.15, math.pi * turns])
        state = view.states["red"]
        # Beside the block, with the closing axis along x: the block is on the positive side.
        x = state.object_x - 0.12 if state.object_x > -0.05 else state.object_x + 0.12
        goal = np.array([x, state.object_y, 0.008, math.pi * turns])
        workspace.gripper.approach(goal, 0.02, workspace.world.step)
        workspace._command = goal.copy()
        sign = 1.0 if x < state.object_x else -1.0
        touched = None
        for _ in range(8):
            view = workspace.step([0.5 * sign, 0, 0, 0, 1])
            red = view.states["red"]
            if red.contact_left != red.contact_right:
                touched = "left" if red.contact_left else "right"
                break
        assert touched == ("left" if sign > 0 else "right")


def test_pictures_show_the_blocks_where_they_are():
    with Tabletop(images=True) as workspace:
        view = workspace.reset(0)
        assert view.rgb.shape == (64, 64, 3)
        assert view.depth.shape == (64, 64)
        assert view.depth.dtype == np.float32
        red = view.rgb[..., 0].astype(int) - view.rgb[..., 2]
        v, u = np.nonzero(red > 60)
        state = view.states["red"]
        half = 0.26 * 0.8 / 0.8
        assert np.mean(u) == pytest.approx(32 + state.object_x / half * 32, abs=2.5)
        assert np.mean(v) == pytest.approx(32 - state.object_y / half * 32, abs=2.5)
        assert 0.5 < np.median(view.depth) <= 0.81


@pytest.mark.parametrize("action", [[math.nan, 0, 0, 0, 0], [0, 0, 0, 0], [math.inf] * 5, np.zeros((1, 5))])
def test_an_action_that_can_not_be_taken_is_refused(workspace, action):
    workspace.reset(0)
    with pytest.raises(InputError, match="can't be taken"):
        workspace.step(action)


def test_nothing_can_be_done_before_an_episode_begins():
    with Tabletop() as workspace, pytest.raises(InputError, match="no episode has begun"):
        workspace.step([0] * 5)


def test_a_block_that_is_pushed_stays_on_the_table(workspace):
    """With half as many physics steps a second, pads that push low press blocks into the table."""
    for seed in range(4):
        view = workspace.reset(seed)
        blue = view.states["blue"]
        start = np.array([blue.object_x - 0.09, blue.object_y, 0.006, 0.3 * seed])
        workspace.gripper.approach(start, 0.03, workspace.world.step)
        workspace._command = start.copy()
        for _ in range(8):
            view = workspace.step([0.9, 0, -0.7, 0, -0.8])
            assert all(state.height > -0.006 for state in view.states.values())
        assert view.states["blue"].object_x > blue.object_x + 0.02
