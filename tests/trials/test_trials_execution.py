"""One scene with several planners: same image, same start, no planner's doings touch another's trial."""

import numpy as np
import pytest

from keygrasp.errors import InputError
from keygrasp.protocol import ReferencePlanner, SceneError, SceneSpec
from keygrasp.scene import GraspPlan, PlanarGrasp
from keygrasp.trials import execution
from keygrasp.trials.execution import run_scene
from keygrasp.trials.planners import OraclePlanner, build_planner, planner_spec

_SPEC = SceneSpec("327", "E", 5)


class _Scripted:
    """Answers with the next item of a list: a grasp, ``None``, an exception, or ``"reference"``."""

    def __init__(self, name, *answers):
        self.name = name
        self.answers = list(answers)
        self.views = []
        self.attempts = []
        self.numbers = []

    def plan(self, view, gripper, *, rng, attempts=(), reach=None):
        self.views.append(view)
        self.attempts.append(attempts)
        self.numbers.append(rng.random())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer == "reference":
            return ReferencePlanner().plan(view, gripper, rng=rng)
        return GraspPlan(answer, reason="" if answer else "nothing fits", rejections={"too wide": np.int64(3)})


_BESIDE = PlanarGrasp(0.15, 0.15, 0.1, 0.0, 0.05)
_OFF_TABLE = PlanarGrasp(5.0, 0.0, 0.1, 0.0, 0.05)


@pytest.fixture(scope="module")
def played():
    planners = [
        _Scripted("good", "reference"),
        _Scripted("third", None, _BESIDE, "reference"),
        _Scripted("far", _OFF_TABLE),
        _Scripted("broken", ValueError("oops")),
        _Scripted("refusing", InputError("no such image", "Take another")),
        _Scripted("good again", "reference"),
    ]
    return planners, run_scene(4, _SPEC, planners, "gripper", up_to=3, robust=False)


def _by_name(played, name):
    planners, records = played
    return next((p, r) for p, r in zip(planners, records, strict=True) if r.planner == name)


def test_all_see_the_same_first_image_with_numbers_of_their_own(played):
    planners, records = played
    assert [record.planner for record in records] == [planner.name for planner in planners]
    assert len({id(planner.views[0]) for planner in planners}) == 1
    assert len({planner.numbers[0] for planner in planners}) == len(planners)
    assert {record.scene for record in records} == {4}
    assert {record.seed for record in records} == {5}
    assert len({record.category for record in records}) == 1


def test_what_others_did_before_changes_nothing(played):
    first, last = _by_name(played, "good")[1].first, _by_name(played, "good again")[1].first
    assert first.success
    for name in ("outcome", "grasp", "rise", "opening", "contact_force", "seconds"):
        assert getattr(first, name) == getattr(last, name)


def test_up_to_three_stops_at_the_first_success_and_tells_the_planner_what_was_tried(played):
    planner, record = _by_name(played, "third")
    assert [attempt.outcome for attempt in record.attempts] == ["no_grasp", "empty", "success"]
    assert (record.single_shot, record.up_to) == (False, True)
    assert record.first.grasp is None
    assert "nothing fits" in record.first.message
    assert record.first.rejections == {"too wide": 3}
    assert len({id(view) for view in planner.views}) == 3
    assert [len(attempts) for attempts in planner.attempts] == [0, 0, 1]
    assert planner.attempts[2][0].grasp == _BESIDE
    assert len(_by_name(played, "good")[1].attempts) == 1


def test_a_robot_that_can_not_follow_is_told_apart(played):
    record = _by_name(played, "far")[1]
    assert record.first.outcome == "unreachable"
    assert "outside the table" in record.first.message
    # It raised when asked a second time (no answers left), which does not undo the first attempt.
    assert len(record.attempts) == 1
    assert "IndexError" in record.fault


def test_a_planner_that_raises_fails_its_own_trial_only(played):
    assert _by_name(played, "broken")[1].fault == "the planner raised ValueError: oops"
    assert "no such image" in _by_name(played, "refusing")[1].fault
    assert not _by_name(played, "broken")[1].single_shot


@pytest.mark.slow
def test_robustness_perturbs_all_planners_alike():
    planners = [_Scripted("one", "reference"), _Scripted("two", "reference"), _Scripted("none", None)]
    one, two, none = run_scene(0, _SPEC, planners, "gripper", up_to=1, robust=True)
    assert one.robust_trials == 10
    assert 7 <= one.robust_successes <= 10
    assert one.robust_successes == two.robust_successes
    assert none.robust_trials == 0


def test_a_scene_that_can_not_be_made_is_nobodys_failure(monkeypatch):
    def never(spec, robot):
        raise SceneError("it rolls away")

    monkeypatch.setattr(execution, "build_scene", never)
    records = run_scene(0, _SPEC, [_Scripted("one"), _Scripted("two")], "gripper", up_to=3, robust=True)
    assert [record.scene_fault for record in records] == ["it rolls away"] * 2


def test_the_oracle_plans_in_the_scene():
    oracle = build_planner(planner_spec("oracle", samples=5, local_samples=0, executions=6))
    assert isinstance(oracle, OraclePlanner)
    (record,) = run_scene(0, _SPEC, [oracle], "gripper", up_to=1, robust=False)
    assert 1 <= record.first.evaluations <= 6
    assert not record.fault
