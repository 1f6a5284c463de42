"""Every planner keeps to what the robot says that it can reach, and says so where that is nothing."""

import numpy as np
import pytest
from synthetic_views import box, placed, render

from keygrasp.scene import GripperSpec
from keygrasp.trials import build_planner, planner_spec

GRIPPER = GripperSpec()
VIEW = render(placed(box(0.12, 0.05, 0.05), 0.0, 0.0, 0.2))
PLANNERS = ("geometric", "random", "refined", "argmax", "cem", "climb")


def plan(name, reach):
    planner = build_planner(planner_spec(name))
    return planner.plan(VIEW, GRIPPER, rng=np.random.default_rng(0), reach=reach)


@pytest.mark.parametrize("name", PLANNERS)
def test_grasps_lie_where_the_robot_reaches(name):
    other_side = -np.sign(plan(name, None).grasp.x) or 1.0
    limited = plan(name, lambda grasps: other_side * grasps[:, 0] > 0.02)
    assert other_side * limited.grasp.x > 0.02


@pytest.mark.parametrize("name", PLANNERS)
def test_nothing_within_reach_is_an_answer_that_says_so(name):
    answer = plan(name, lambda grasps: np.zeros(len(grasps), bool))
    assert answer.grasp is None
    assert "reach" in answer.reason


def test_the_reference_is_frozen_and_asks_nobody():
    assert plan("reference", lambda grasps: np.zeros(len(grasps), bool)).grasp == plan("reference", None).grasp
