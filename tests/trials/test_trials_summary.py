"""The figures of a run, against records whose figures can be counted by hand."""

import dataclasses

import pytest

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.objects import split
from keygrasp.scene import GraspPlan, Outcome, PlanarGrasp, TrialOutcome
from keygrasp.trials import PlannerSpec, TrialRecord, TrialsConfig, planner_spec
from keygrasp.trials.config import scene_seed
from keygrasp.trials.planners import build_planner
from keygrasp.trials.records import AttemptRecord, attempt_record, grasp_from_row, grasp_row
from keygrasp.trials.summary import intervals_in_words, rate, rate_of, summarise

_GRASP = [0.01, 0.02, 0.03, 0.1, 0.05, 0.9]


def _attempt(outcome, probability=None, plan_ms=10.0, path=()):
    grasp = None if outcome == "no_grasp" else _GRASP
    return AttemptRecord(
        outcome, grasp=grasp, probability=probability, plan_ms=plan_ms, execute_s=0.2, evaluations=5, path=list(path)
    )


def _record(scene, planner, *outcomes, robust=0, category="box", fault="", scene_fault="", probability=None):
    executed = bool(outcomes) and outcomes[0] != "no_grasp"
    return TrialRecord(
        scene,
        f"object{scene}",
        category,
        "E",
        "embedded",
        7,
        "gripper",
        planner,
        build_s=0.1,
        attempts=tuple(_attempt(outcome, probability) for outcome in outcomes),
        robust_successes=robust,
        robust_trials=10 if executed else 0,
        fault=fault,
        scene_fault=scene_fault,
    )


@pytest.fixture
def summary():
    other = PlannerSpec("other", "keygrasp.trials.planners:build_builtin")
    config = TrialsConfig(planners=(other,), objects=6)
    records = [
        # Scene 0: kept. 1 and 2: the tail, of which nobody ever grasps 2. 3: no candidate. 4: not made. 5: a crash.
        _record(0, "reference", "success", robust=9),
        _record(0, "other", "success", robust=8, probability=0.9),
        _record(1, "reference", "slipped", "success", robust=0),
        _record(1, "other", "success", robust=10, probability=0.8, category="ball"),
        _record(2, "reference", "shaken", "empty", "shaken"),
        _record(2, "other", "unreachable", "empty", "shaken", probability=0.4),
        _record(3, "reference", "no_grasp", "no_grasp", "success"),
        _record(3, "other", "empty", "success", probability=0.3),
        _record(4, "reference", scene_fault="never settles"),
        _record(4, "other", scene_fault="never settles"),
        _record(5, "reference", fault="a worker died"),
        _record(5, "other", fault="a worker died"),
    ]
    return summarise(config, records)


def _counts(figure):
    return figure["successes"], figure["trials"]


def test_every_set_has_its_scenes(summary):
    reference, other = summary["reference"], summary["other"]
    assert _counts(reference["single_shot"]) == (1, 5)
    assert _counts(reference["up_to_three"]) == (3, 5)
    assert _counts(reference["no_candidate"]) == (1, 5)
    assert _counts(reference["tail"]) == (0, 3)
    assert _counts(reference["kept"]) == (1, 1)
    assert _counts(other["single_shot"]) == (2, 5)
    assert _counts(other["tail"]) == (1, 3)
    assert _counts(other["tail_graspable"]) == (1, 2)
    assert _counts(other["kept"]) == (1, 1)
    assert _counts(other["robust"]) == (1, 4)
    assert _counts(reference["robust"]) == (1, 3)


def test_what_could_not_be_tried_is_counted_apart(summary):
    assert summary["other"]["unreachable"] == 1
    assert summary["other"]["faults"] == 1
    assert summary["other"]["scenes_not_built"] == 1
    assert summary["other"]["outcomes"] == {"empty": 1, "robot_fault": 1, "success": 2, "unreachable": 1}


def test_times_probabilities_and_categories(summary):
    other = summary["other"]
    assert other["plan_ms"] == {"p50": 10.0, "p99": 10.0}
    assert other["trial_s"]["p50"] == pytest.approx(0.1 + 0.01 + 0.2)
    assert other["evaluations"]["p50"] == 5
    assert summary["reference"]["probability"] is None
    # (0.1² + 0.2² + 0.4² + 0.3²)/4 = 0.075 against a base rate of ½.
    assert other["probability"]["brier_skill"] == pytest.approx(0.7)
    assert other["probability"]["auroc"] == 1.0
    assert other["probability"]["success_at_90_coverage"] == 0.5
    assert _counts(other["categories"]["ball"]) == (1, 1)
    assert _counts(other["categories"]["box"]) == (1, 4)
    # One more success than the reference on four scenes in which both were tried.
    assert other["against_reference"]["difference"] == pytest.approx(0.25)
    assert other["against_reference"]["trials"] == 4


def test_interval_is_wilsons_for_few_objects_and_a_bootstrap_for_many():
    few = [_record(i, "p", "success" if i else "empty") for i in range(4)]
    assert rate(few, lambda r: r.single_shot)["interval"] == pytest.approx([0.3006, 0.9544], abs=1e-3)
    many = [
        dataclasses.replace(_record(i, "p", "success" if i % 2 else "empty"), object_name=str(i)) for i in range(40)
    ]
    low, high = rate(many, lambda r: r.single_shot)["interval"]
    assert 0.3 < low < 0.4 < 0.6 < high < 0.7
    nothing = {"successes": 0, "trials": 0, "rate": None, "interval": [0.0, 1.0], "by": "wilson"}
    assert rate([], lambda r: r.single_shot) == nothing


def test_it_is_said_what_the_intervals_are():
    few = rate_of([True, False], ["a", "b"])
    many = rate_of([bool(i % 2) for i in range(20)], [str(i) for i in range(20)])
    alike = rate_of([True] * 20, [str(i) for i in range(20)])
    assert intervals_in_words([many, None]) == "bootstrap over objects"
    for rates in ([few], [alike, few]):
        assert intervals_in_words(rates) == "Wilson's, as objects are fewer than 10 or all outcomes alike"
    earlier = {key: value for key, value in many.items() if key != "by"}
    for rates in ([few, many], [earlier]):
        assert intervals_in_words(rates).startswith("bootstrap over objects; Wilson's where they are fewer than 10")


def test_a_record_survives_json():
    grasp = PlanarGrasp(0.01, 0.02, 0.03, 0.1, 0.05, score=float("-inf"))
    plan = GraspPlan(grasp, (grasp,) * 20, {"too wide": 3}, path=(grasp,), success_probability=0.7, evaluations=9)
    attempt = attempt_record(plan, 12.0, TrialOutcome(Outcome.SLIPPED, rise=0.02, message="lost"), 0.3)
    assert len(attempt.candidates) == 8
    assert attempt.grasp[5] == 0.0
    record = dataclasses.replace(_record(0, "p"), attempts=(attempt,))
    assert TrialRecord.from_json(record.to_json()) == record
    assert grasp_from_row(grasp_row(grasp.replace(score=0.5))) == grasp.replace(score=0.5)
    with pytest.raises(InputError, match="record can't be read"):
        TrialRecord.from_json({"scene": 0, "attempts": []})


def test_the_reference_is_always_there_and_can_not_be_changed():
    assert [spec.name for spec in TrialsConfig(planners=(planner_spec("random"),)).planners] == ["reference", "random"]
    with pytest.raises(ConfigurationError, match="frozen"):
        TrialsConfig(planners=(planner_spec("reference", lenient=True),))
    with pytest.raises(ConfigurationError, match="must differ"):
        TrialsConfig(planners=(planner_spec("random"), planner_spec("random")))


def test_bad_configurations_are_named():
    for change in ({"objects": 0}, {"workers": -1}, {"rule": "B"}, {"robot": "arm"}, {"up_to": 0}, {"timeout_s": 0}):
        with pytest.raises(ConfigurationError, match=next(iter(change))):
            TrialsConfig(**change)
    with pytest.raises(ConfigurationError, match="Did you mean 'centroid'"):
        planner_spec("centroids")
    with pytest.raises(ConfigurationError, match="can't be built"):
        build_planner(planner_spec("random", wrong=1))
    with pytest.raises(ConfigurationError, match="no factory"):
        build_planner(PlannerSpec("evil", "os:system"))


def test_scenes_are_the_same_everywhere_and_parts_of_a_split_are_nested():
    config = TrialsConfig(objects=20, split="validation", seed=1)
    scenes = config.scenes()
    assert scenes == TrialsConfig(objects=20, split="validation", seed=1, workers=7).scenes()
    names = {scene.object_name for scene in scenes}
    assert len(names) == 20
    assert names <= set(split("validation"))
    assert {s.object_name for s in TrialsConfig(objects=10, split="validation", seed=2).scenes()} <= names
    assert {s.seed for s in scenes}.isdisjoint(s.seed for s in TrialsConfig(split="validation", objects=20).scenes())
    poses = TrialsConfig(objects=20, split="validation", seed=1, poses=2).scenes()
    assert poses[:20] == scenes
    assert len({scene.seed for scene in poses}) == 40
    assert scene_seed(0, "149", 0) == 0xBE15FB26CB07
    with pytest.raises(InputError, match="has 100"):
        TrialsConfig(objects=101, split="validation").scenes()


def test_identity_follows_all_that_results_depend_on(tmp_path):
    base = TrialsConfig()
    assert base.identity() == TrialsConfig(workers=9, timeout_s=5.0).identity()
    for change in ({"seed": 1}, {"rule": "A"}, {"robust": False}, {"planners": (planner_spec("random"),)}):
        assert TrialsConfig(**change).identity() != base.identity()
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"one")
    before = TrialsConfig(planners=(planner_spec("refined", weights=str(weights)),)).identity()
    weights.write_bytes(b"two")
    assert TrialsConfig(planners=(planner_spec("refined", weights=str(weights)),)).identity() != before
