import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_views import (
    KG1,
    box,
    cylinder,
    dome,
    l_shape,
    nothing,
    placed,
    pyramid,
    render,
    ring,
    tilted_overhead,
    union,
)

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.grasps import (
    GeneratorConfig,
    GeometricPlanner,
    GraspGenerator,
    analytic_quality,
    footprint_clear,
    grasp_array,
    random_feasible,
)
from keygrasp.perception import Perceived, PerceptionConfig, extract_keypoints, perceive
from keygrasp.scene import Attempt, GripperSpec, HeightMap, Outcome, Segment, TrialOutcome
from keygrasp.scene.views import OverheadView

GRIPPER = GripperSpec()
SHAPES = {
    "box": box(0.10, 0.05, 0.04),
    "cylinder": cylinder(0.03, 0.05),
    "l": l_shape(0.10, 0.03, 0.04),
    "ring": ring(0.05, 0.03, 0.03),
    "dome": dome(0.035),
    "pyramid": pyramid(0.10, 0.07),
    "tall": box(0.06, 0.03, 0.11),
    "low": box(0.10, 0.05, 0.012),
}


def plan_for(surface, seed=0, config=None, gripper=GRIPPER):
    perceived = perceive(render(surface, noise=np.random.default_rng(seed)))
    return GraspGenerator(config).generate(perceived, 0, gripper)


def plan_of(surface, gripper=GRIPPER, attempts=(), perception=None):
    view = render(surface, noise=np.random.default_rng(0))
    planner = GeometricPlanner(perception=perception)
    return planner.plan(view, gripper, rng=np.random.default_rng(0), attempts=attempts)


def turn_between(first, second):
    return abs((first - second + np.pi / 2) % np.pi - np.pi / 2)


@pytest.mark.parametrize("name", SHAPES)
def test_ordinary_objects_get_grasps(name):
    plan = plan_for(placed(SHAPES[name], 0.02, -0.01, 0.5))
    assert plan.grasp is not None, plan.reason
    assert plan.grasp == plan.candidates[0]
    scores = [g.score for g in plan.candidates]
    assert scores == sorted(scores, reverse=True)
    assert plan.timings_ms["generate"] > 0


@pytest.mark.parametrize("yaw", [-1.2, -0.4, 0.0, 0.7, 1.5])
def test_a_box_is_taken_across_its_narrow_side_at_its_middle(yaw):
    grasp = plan_for(placed(box(0.11, 0.04, 0.03), 0.03, 0.02, yaw)).grasp
    assert turn_between(grasp.yaw, yaw + np.pi / 2) < 0.3
    assert np.hypot(grasp.x - 0.03, grasp.y - 0.02) < 0.02
    assert 0.046 < grasp.width < 0.075
    assert grasp.z < 0.018


@settings(max_examples=6, deadline=None)
@given(
    name=st.sampled_from(sorted(SHAPES)),
    x=st.floats(-0.05, 0.05),
    y=st.floats(-0.05, 0.05),
    yaw=st.floats(-3.1, 3.1),
    seed=st.integers(0, 10**6),
)
def test_every_candidate_is_clear_within_limits_and_finite(name, x, y, yaw, seed):
    perceived = perceive(render(placed(SHAPES[name], x, y, yaw), noise=np.random.default_rng(seed)))
    plan = GraspGenerator().generate(perceived, 0, GRIPPER)
    grasps = grasp_array(plan.candidates)
    assert (len(grasps) > 0) == (plan.reason == "")
    assert np.all(np.isfinite(grasps))
    assert np.all(grasps[:, 4] <= GRIPPER.max_opening + 1e-12)
    assert np.all(grasps[:, 4] >= GRIPPER.min_opening)
    assert np.all(grasps[:, 2] >= GeneratorConfig().table_clearance)
    assert np.all((grasps[:, 3] >= -np.pi / 2) & (grasps[:, 3] < np.pi / 2))
    assert np.all(footprint_clear(perceived.height_map, grasps, GRIPPER))
    assert all(0.0 < g.score < 1.0 for g in plan.candidates)


@settings(max_examples=5, deadline=None)
@given(x=st.floats(-0.05, 0.05), y=st.floats(-0.05, 0.05), yaw=st.floats(-1.5, 1.5))
def test_the_grasp_moves_along_with_the_object(x, y, yaw):
    """A long bar has one best direction: across, near its middle, wherever it lies."""
    perceived = perceive(render(placed(box(0.14, 0.03, 0.03), x, y, yaw)))
    grasp = GraspGenerator().generate(perceived, 0, GRIPPER).grasp
    assert turn_between(grasp.yaw, yaw + np.pi / 2) < 0.25
    assert np.hypot(grasp.x - x, grasp.y - y) < 0.02


def test_the_same_view_gives_the_same_plan():
    first, second = plan_for(SHAPES["l"], seed=3), plan_for(SHAPES["l"], seed=3)
    assert first.candidates == second.candidates
    assert first.rejections == second.rejections


def test_candidates_are_no_alternatives_of_one_another():
    config = GeneratorConfig()
    grasps = grasp_array(plan_for(SHAPES["ring"]).candidates)
    for index, grasp in enumerate(grasps):
        others = np.delete(grasps, index, axis=0)
        distance = np.linalg.norm(others[:, :3] - grasp[:3], axis=1)
        turn = np.abs((others[:, 3] - grasp[3] + np.pi / 2) % np.pi - np.pi / 2)
        assert not np.any((distance < config.apart) & (turn < config.turned))


def test_sloped_sides_are_taken_where_they_are_steepest():
    """On a dome's rim the sides are steep, near its top they are flat: the grasp must go down to the rim."""
    assert plan_for(dome(0.035)).grasp.z < 0.012


def test_a_tall_object_is_taken_below_its_top_and_above_the_palm_limit():
    grasp = plan_for(SHAPES["tall"]).grasp
    assert 0.11 - 0.040 < grasp.z < 0.10


def test_too_wide_is_an_answer_with_its_reason():
    plan = plan_for(box(0.13, 0.12, 0.05))
    assert plan.grasp is None
    assert plan.candidates == ()
    assert plan.rejections["too wide"] > 0
    assert "wider than the gripper opens" in plan.reason


def test_too_flat_is_an_answer_with_its_reason():
    plan = plan_for(box(0.07, 0.06, 0.0065), seed=1, config=GeneratorConfig(table_clearance=0.004))
    assert plan.grasp is None
    assert plan.rejections["too flat"] > 0
    assert "too flat" in plan.reason


def test_no_room_for_fingers_is_an_answer_with_its_reason():
    """A pit that the object fills but for less than a finger's thickness; its walls are as high as the object."""
    heights = np.full((144, 144), 0.05, np.float32)
    segment = np.zeros((144, 144), bool)
    heights[60:84, 60:84] = 0.0
    heights[62:82, 62:82] = 0.05
    segment[62:82, 62:82] = True
    height_map = HeightMap(heights, np.ones_like(segment), np.full(2, -0.17875), 0.0025)
    found = Segment(segment, np.zeros(2), 0.0025, 0.05, False)
    table = perceive(render(nothing())).table
    perceived = Perceived(table, height_map, (found,), (extract_keypoints(height_map, found),))
    plan = GraspGenerator().generate(perceived, 0, GRIPPER)
    assert plan.grasp is None
    assert plan.rejections["fingers collide"] > 0
    assert "no room for the fingers" in plan.reason


def test_outside_the_workspace_is_an_answer_with_its_reason():
    plan = plan_for(placed(box(0.08, 0.03, 0.03), 0.08), config=GeneratorConfig(workspace_x=(-0.02, 0.02)))
    assert plan.grasp is None
    assert "outside the workspace" in plan.reason


def test_a_smaller_gripper_never_gets_a_wider_grasp():
    small = dataclasses.replace(GRIPPER, max_opening=0.05)
    plan = plan_for(box(0.10, 0.04, 0.04), gripper=small)
    assert plan.grasp is not None
    assert max(g.width for g in plan.candidates) <= 0.05
    assert plan_for(box(0.10, 0.05, 0.04), gripper=small).grasp is None


def test_planner_answers_on_an_empty_table():
    plan = plan_of(nothing())
    assert plan.grasp is None
    assert "nothing stands on the table" in plan.reason


def test_planner_says_that_the_workspace_filter_left_nothing():
    plan = plan_of(placed(box(0.05, 0.05, 0.04), 0.1), perception=PerceptionConfig(workspace_x=(-0.03, 0.03)))
    assert plan.grasp is None
    assert "none in the workspace" in plan.reason


def test_planner_takes_the_next_object_where_the_largest_offers_nothing():
    plan = plan_of(union(placed(box(0.13, 0.12, 0.05), -0.07), placed(box(0.06, 0.03, 0.04), 0.11, 0.0, 1.5)))
    assert plan.grasp is not None
    assert plan.grasp.x > 0.08


def test_planner_does_not_repeat_a_failed_grasp():
    first = plan_of(SHAPES["l"])
    failed = (Attempt(first.grasp, TrialOutcome(Outcome.SLIPPED)),)
    second = plan_of(SHAPES["l"], attempts=failed)
    near = np.linalg.norm(grasp_array([first.grasp])[0, :3] - grasp_array([second.grasp])[0, :3]) < 0.012
    assert not (near and turn_between(first.grasp.yaw, second.grasp.yaw) < 0.35)
    assert set(second.candidates) == set(first.candidates)
    succeeded = (Attempt(first.grasp, TrialOutcome(Outcome.SUCCESS)),)
    assert plan_of(SHAPES["l"], attempts=succeeded).grasp == first.grasp


def test_planner_works_with_a_tilted_camera():
    view = render(placed(box(0.10, 0.04, 0.04), yaw=0.5), pose=tilted_overhead(0.6), noise=np.random.default_rng(0))
    grasp = GeometricPlanner().plan(view, GRIPPER, rng=np.random.default_rng(0)).grasp
    assert turn_between(grasp.yaw, 0.5 + np.pi / 2) < 0.35
    assert np.hypot(grasp.x, grasp.y) < 0.03


def test_dropouts_do_not_change_the_grasp_much():
    view = render(placed(box(0.10, 0.04, 0.04)))
    depth = view.depth.copy()
    depth[np.random.default_rng(0).random(depth.shape) < 0.3] = np.nan
    grasp = (
        GeometricPlanner()
        .plan(OverheadView(depth, KG1, view.camera_in_workspace), GRIPPER, rng=np.random.default_rng(0))
        .grasp
    )
    assert turn_between(grasp.yaw, np.pi / 2) < 0.3
    assert grasp.width < 0.075


def test_quality_prefers_the_right_grasp():
    perceived = perceive(render(placed(box(0.10, 0.04, 0.04))))
    grasps = np.array(
        [
            [0, 0, 0.006, np.pi / 2 - 1e-6, 0.06],  # across the middle
            [0.04, 0, 0.006, np.pi / 2 - 1e-6, 0.06],  # across one end
            [0, 0, 0.032, np.pi / 2 - 1e-6, 0.06],  # only the top edge between the pads
            [0, 0, 0.006, 0.8, 0.08],  # askew
            [0.12, 0.12, 0.006, 0.0, 0.06],  # beside the object
        ]
    )
    quality = analytic_quality(perceived, 0, grasps, GRIPPER)
    assert quality.shape == (5,)
    assert np.all(quality[0] > quality[1:])
    assert quality[4] == 0
    assert analytic_quality(perceived, 0, np.zeros((0, 5)), GRIPPER).shape == (0,)


def test_quality_is_zero_above_the_gripper_opening():
    perceived = perceive(render(placed(box(0.10, 0.04, 0.04))))
    assert analytic_quality(perceived, 0, np.array([[0, 0, 0.006, 1.5, 0.09]]), GRIPPER)[0] == 0


@settings(max_examples=5, deadline=None)
@given(name=st.sampled_from(sorted(SHAPES)), seed=st.integers(0, 10**6))
def test_random_grasps_are_feasible(name, seed):
    perceived = perceive(render(placed(SHAPES[name], 0.01, 0.02, 0.3), noise=np.random.default_rng(seed)))
    grasps = random_feasible(perceived, 0, GRIPPER, np.random.default_rng(seed), 100)
    assert 5 < len(grasps) <= 100
    assert np.all(np.isfinite(grasps))
    assert np.all(footprint_clear(perceived.height_map, grasps, GRIPPER))
    assert np.all((grasps[:, 4] <= GRIPPER.max_opening) & (grasps[:, 4] >= GRIPPER.min_opening))
    assert np.all(np.hypot(*(grasps[:, :2] - [0.01, 0.02]).T) < 0.09)
    assert np.array_equal(grasps, random_feasible(perceived, 0, GRIPPER, np.random.default_rng(seed), 100))


def test_random_grasps_spread():
    perceived = perceive(render(box(0.10, 0.04, 0.04)))
    grasps = random_feasible(perceived, 0, GRIPPER, np.random.default_rng(0), 300)
    assert len(grasps) == 300
    assert np.std(grasps[:, 0]) > 0.02
    assert np.ptp(grasps[:, 2]) > 0.02
    assert random_feasible(perceived, 0, GRIPPER, np.random.default_rng(0), 0).shape == (0, 5)


def test_wrong_requests_are_refused():
    perceived = perceive(render(box(0.10, 0.04, 0.04)))
    for call in (
        lambda: GraspGenerator().generate(perceived, 1, GRIPPER),
        lambda: analytic_quality(perceived, -1, np.zeros((1, 5)), GRIPPER),
        lambda: random_feasible(perceived, 0, GRIPPER, np.random.default_rng(0), -1),
        lambda: random_feasible(perceived, 0, GRIPPER, np.random.default_rng(0), 10**9),
    ):
        with pytest.raises(InputError):
            call()
    for change in ({"friction": 0.0}, {"levels": 0}, {"workspace_y": (0.1, 0.0)}, {"lifts": (-0.01,)}):
        with pytest.raises(ConfigurationError):
            GeneratorConfig(**change)
