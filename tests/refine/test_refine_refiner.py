"""The refiner with its shipped weights on drawn images: what a caller can rely on."""

import dataclasses

import numpy as np
import pytest
from synthetic_views import box, nothing, placed, render

from keygrasp.errors import InputError
from keygrasp.grasps import GraspGenerator, footprint_clear, grasp_array
from keygrasp.perception import perceive
from keygrasp.refine.network import default_weights
from keygrasp.refine.planners import build
from keygrasp.refine.refiner import Refiner, RefinerConfig
from keygrasp.refine.values import Weights
from keygrasp.scene import Attempt, GripperSpec, Outcome, TrialOutcome

GRIPPER = GripperSpec()


@pytest.fixture(scope="module")
def weights():
    return Weights.load(default_weights())


@pytest.fixture(scope="module")
def perceived():
    return perceive(render(placed(box(0.12, 0.05, 0.05), 0.01, -0.02, 0.4)))


def refine(weights, perceived, candidates=(), *, seed=0, attempts=(), **changes):
    refiner = Refiner(weights, RefinerConfig(**changes))
    return refiner.refine(perceived, 0, candidates, GRIPPER, rng=np.random.default_rng(seed), attempts=attempts)


def test_a_box_is_grasped_across_its_short_side(weights, perceived):
    plan = refine(weights, perceived)
    assert plan.success_probability > 0.8
    assert abs(np.sin(plan.grasp.yaw - 0.4 - np.pi / 2)) < 0.35
    assert np.hypot(plan.grasp.x - 0.01, plan.grasp.y + 0.02) < 0.05


def test_the_path_ends_in_the_grasp_which_collides_with_nothing(weights, perceived):
    candidates = GraspGenerator().generate(perceived, 0, GRIPPER).candidates
    plan = refine(weights, perceived, candidates)
    assert plan.path[-1] == plan.grasp
    assert plan.grasp.score == plan.success_probability
    assert footprint_clear(perceived.height_map, grasp_array([plan.grasp]), GRIPPER).all()


def test_the_same_seed_gives_the_same_plan(weights, perceived):
    assert refine(weights, perceived, seed=3).grasp == refine(weights, perceived, seed=3).grasp


def test_below_the_threshold_the_answer_is_no_grasp_with_the_probability(weights, perceived):
    plan = refine(weights, perceived, threshold=0.999999)
    assert plan.grasp is None
    assert "below 0.999999" in plan.reason
    assert plan.success_probability is not None


def test_a_second_look_is_taken_only_where_the_first_is_unsure(weights, perceived):
    once = refine(weights, perceived, sure=0.0)
    twice = refine(weights, perceived, sure=1.0)
    assert twice.evaluations > once.evaluations
    assert twice.success_probability >= once.success_probability
    assert refine(weights, perceived, sure=1.0, more_starts=0).evaluations == once.evaluations


def test_a_failed_grasp_isnt_repeated(weights, perceived):
    first = refine(weights, perceived).grasp
    failed = Attempt(first, TrialOutcome(Outcome.SLIPPED))
    second = refine(weights, perceived, attempts=(failed,) * 2).grasp
    moved = np.hypot(second.x - first.x, second.y - first.y) > 0.005
    assert moved or abs(second.yaw - first.yaw) > 0.1 or abs(second.z - first.z) > 0.005


def test_nothing_to_start_from_is_an_answer(weights, perceived):
    plan = refine(weights, perceived, random_starts=0, more_starts=0)
    assert plan.grasp is None
    assert "no start" in plan.reason


@pytest.mark.parametrize(
    "wrong", [{"random_starts": -1}, {"refined_starts": 0}, {"finalists": 0}, {"threshold": 1.0}, {"sure": 1.5}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError):
        RefinerConfig(**wrong)


@pytest.mark.parametrize("name", ["refined", "argmax", "cem", "climb"])
def test_each_planner_plans_states_a_probability_and_counts(name):
    view = render(placed(box(0.12, 0.05, 0.05), 0.0, 0.0, 0.2))
    plan = build(name).plan(view, GRIPPER, rng=np.random.default_rng(0))
    assert plan.grasp is not None
    assert 0 <= plan.success_probability <= 1
    assert plan.evaluations > 0
    assert set(plan.timings_ms) == {"perceive", "search"}


def test_an_empty_table_is_an_answer():
    plan = build("refined").plan(render(nothing()), GRIPPER, rng=np.random.default_rng(0))
    assert plan.grasp is None
    assert plan.reason


def test_unknown_planner_or_option_is_named():
    with pytest.raises(InputError, match="unknown planner 'best'"):
        build("best")
    with pytest.raises(InputError, match="evaluation"):
        build("argmax", evaluation=3)


def test_settings_are_a_frozen_dataclass():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RefinerConfig().sure = 0.5
