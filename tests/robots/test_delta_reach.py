"""The filter that a Delta gives to planners agrees with what it answers for each grasp."""

import dataclasses
import math

import numpy as np
import pytest
from delta_setup import config

from keygrasp.geometry.poses import make_pose, rotation_z
from keygrasp.grasps import grasps_from_array
from keygrasp.robots.delta_x import MODELS, Calibration, DeltaRobot, DeltaX, ToolConfig
from keygrasp.robots.delta_x.reach import GraspReach, half_turns, yaw_limits

WIDTH = 0.03


def grasps(count=300):
    low, high = (-0.18, -0.18, 0.0, -1.55, WIDTH), (0.18, 0.18, 0.12, 1.55, WIDTH)
    return np.random.default_rng(0).uniform(low, high, (count, 5))


@pytest.mark.parametrize("limits", [(0.0, 180.0), (60.0, 120.0)])
def test_the_filter_says_what_the_robot_says_of_each_grasp(limits):
    pytest.importorskip("serial")
    pose = make_pose((0.01, -0.02, -0.44), rotation_z(0.3))
    tool = {"turn_limits": limits}
    robot = DeltaRobot(DeltaX(config("/nowhere", tool=tool)), Calibration("workspace", pose, np.empty(0)))
    rows = grasps()
    one_by_one = [robot.unreachable_reason(grasp) is None for grasp in grasps_from_array(rows, np.zeros(len(rows)))]
    filtered = robot.reach(rows)
    assert 20 < sum(one_by_one) < 280
    # The robot also looks at the way there, which the filter leaves to it.
    assert not np.any(one_by_one & ~filtered)
    assert np.mean(filtered == one_by_one) > 0.95


def test_shaking_needs_room_to_the_sides_and_to_turn():
    model, tool, pose = MODELS["X1"], ToolConfig(), make_pose((0, 0, -0.45))
    still = GraspReach(model, tool, pose, rise=0.05)
    shaken = dataclasses.replace(still, aside=0.025, turn=0.2)
    rows = grasps()
    assert np.all(still(rows) >= shaken(rows))
    assert np.sum(shaken(rows)) < 0.9 * np.sum(still(rows))
    assert still(np.empty((0, 5))).shape == (0,)


def test_half_turns_are_made_only_where_they_are_needed():
    tool = ToolConfig(turn_zero=30.0, turn_limits=(0.0, 180.0))
    assert np.degrees(yaw_limits(tool)) == pytest.approx([-30, 150])
    assert np.degrees(yaw_limits(dataclasses.replace(tool, turn_sign=-1))) == pytest.approx([-150, 30])
    yaw = np.radians([0.0, -29.0, -60.0, 85.0])
    assert half_turns(tool, yaw, yaw) == pytest.approx([0, 0, math.pi, 0])
    assert np.isnan(half_turns(tool, yaw - 1.7, yaw + 1.7)).all()
