"""Joint paths of the UR5, checked by forward kinematics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.errors import InputError
from keygrasp.geometry.poses import make_pose, rotation_z, wrap_angle
from keygrasp.robots import Unreachable
from keygrasp.robots.motion import MotionProfile, trial_path
from keygrasp.robots.ur5_paths import ARM_JOINTS, HOME, LOWER, MAX_SPEEDS, UPPER, UR5Paths
from keygrasp.scene import PlanarGrasp

DT = 1 / 50


def paths(**change):
    base = make_pose((-0.45, 0.0, 0.15))
    return UR5Paths(**{"base_link": base, "tool_length": 0.2, "time_step": DT, **change})


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-0.1, 0.1), st.floats(-0.1, 0.1), st.floats(0.0, 0.2), st.floats(-1.5, 1.5),
    st.floats(-3, 3), st.floats(-0.3, 0.3),
)  # fmt: skip
def test_the_tool_is_where_the_path_says(x, y, z, yaw, tool_yaw, base_yaw):
    base = make_pose((-0.45, 0.0, 0.15), rotation_z(base_yaw))
    arm = paths(tool_yaw=tool_yaw, base_link=base)
    path = trial_path(PlanarGrasp(x, y, z, yaw, 0.05), z + 0.04, MotionProfile(), DT).whole
    for wanted, angles in zip(path, arm.along(path, HOME), strict=True):
        found = arm.tool(angles)
        assert found[:3] == pytest.approx(wanted[:3], abs=1e-9)
        assert abs(wrap_angle(found[3] - wanted[3])) < 1e-9


def test_a_path_continues_from_where_the_joints_are():
    arm = paths()
    row = np.array([[0.0, 0.0, 0.1, 0.2]])
    plain = arm.along(row, np.zeros(6))[0]
    turned = plain.copy()
    turned[5] -= 2 * math.pi * np.sign(turned[5])
    assert arm.along(row, turned)[0] == pytest.approx(turned)


def test_free_motions_keep_speed_limits_and_arrive_together():
    arm = paths()
    goal = HOME + np.array([1.5, 0.2, -0.4, 0.1, 0.0, 3.0])
    rows = np.concatenate([HOME[None], arm.free(HOME, goal)])
    assert rows[-1] == pytest.approx(goal)
    speeds = np.abs(np.diff(rows, axis=0)) / DT
    assert np.all(speeds <= MAX_SPEEDS / 2 + 1e-9)
    moved = (rows - HOME)[:, [0, 5]] / [1.5, 3.0]
    assert moved[:, 0] == pytest.approx(moved[:, 1])
    assert arm.free(goal, goal).tolist() == [goal.tolist()]


def test_coming_from_above_ends_at_the_command():
    arm = paths()
    command = arm.along(np.array([[0.05, -0.02, 0.1, 0.3]]), HOME)[0]
    rows = arm.above(command, MotionProfile())
    assert rows[-1] == pytest.approx(command)
    assert arm.tool(rows[0])[2] > 0.17
    for row in rows:
        assert arm.tool(row)[:2] == pytest.approx([0.05, -0.02], abs=1e-9)


def test_what_is_out_of_reach_is_said():
    with pytest.raises(Unreachable, match="can't reach"):
        paths().along(np.array([[0.9, 0.0, 0.1, 0.0]]), HOME)


@pytest.mark.parametrize("joint", range(6))
def test_each_joints_range_is_kept(joint):
    arm = paths()
    row = np.array([[0.0, 0.0, 0.1, 0.2]])
    upper = UPPER.copy()
    upper[joint] = arm.along(row, HOME)[0][joint] - 0.01
    with pytest.raises(Unreachable, match=f"{ARM_JOINTS[joint]} would leave its range"):
        paths(upper=upper, lower=np.minimum(LOWER, upper - 1)).along(row, HOME)


def test_a_jump_is_faster_than_a_joint_turns():
    with pytest.raises(Unreachable, match="rad/s, above its limit"):
        paths().along(np.array([[0.0, 0.0, 0.1, 0.0], [0.1, 0.0, 0.1, 0.0]]), HOME)


@pytest.mark.parametrize("change", [{"tool_length": math.nan}, {"tool_length": -0.1}, {"time_step": 0.0}])
def test_a_tool_or_step_that_is_none_is_refused(change):
    with pytest.raises(InputError):
        paths(**change)
