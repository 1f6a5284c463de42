"""The table of the protocol: which scenes its rates are of, what stops and resumes, and what is refused."""

import json

import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.scene import Outcome
from keygrasp.trials.evaluation import EvaluationConfig, PartRecords, is_whole, read_evaluation, run_evaluation
from keygrasp.trials.evaluation_figures import ALL_TRAININGS, figures, scene_sets, targets
from keygrasp.trials.evaluation_page import TAIL_SHEET, tail_examples, write_page
from keygrasp.trials.evaluation_table import markdown
from keygrasp.trials.records import AttemptRecord, TrialRecord

_GRASP = [0.0, 0.0, 0.02, 0.0, 0.05, 0.0]


def _record(scene, planner, *attempts, **changes):
    """A trial whose attempts succeeded (True) or slipped (False)."""
    made = tuple(
        AttemptRecord(
            Outcome.SUCCESS if success else Outcome.SLIPPED, grasp=_GRASP, probability=0.9 if success else 0.4
        )
        for success in attempts
    )
    values = {"object_name": f"{scene:03d}", "category": "flat", "rule": "E", "source": "embedded", "seed": scene}
    return TrialRecord(scene=scene, robot="gripper", planner=planner, attempts=made, **{**values, **changes})


def _config(**changes):
    values = {"rules": ("E",), "seeds": (0,), "objects": 4, "tail": 3, "poses": 3, "controls": ("centroid",)}
    return EvaluationConfig(**{**values, "robust_objects": 0, "ceiling": False, **changes})


def _parts(config, *groups):
    return tuple(PartRecords(part, tuple(records)) for part, records in zip(config.parts(), groups, strict=True))


@pytest.fixture
def told():
    """One seed: of four first poses the reference fails on two, of three further ones on two; three are asked for."""
    config = _config()
    records = [
        *(_record(scene, "reference", success) for scene, success in enumerate((True, False, True, False))),
        *(_record(scene, "centroid", False, False, False) for scene in range(4)),
        _record(0, "refined", True), _record(1, "refined", False, True), _record(2, "refined", False, False, False),
        _record(3, "refined", True),
        _record(4, "reference", True),
        _record(5, "reference", False), _record(5, "centroid", False), _record(5, "refined", False, False, False),
        _record(6, "reference", False), _record(6, "centroid", True), _record(6, "refined", True),
    ]  # fmt: skip
    return config, _parts(config, records)


def _counts(rate):
    return rate["successes"], rate["trials"]


def test_rates_are_of_first_poses_and_of_as_many_tail_scenes_as_asked_for(told):
    config, parts = told
    sets = scene_sets(config, "E", parts)
    assert sets.first == ((0, 0), (0, 1), (0, 2), (0, 3))
    assert sets.tail == ((0, 1), (0, 3), (0, 5))  # the fourth failure, of scene 6, is beyond what was asked for
    assert sets.kept == ((0, 0), (0, 2))
    refined = figures(config, parts)["rules"]["E"]["planners"]["refined"]
    assert _counts(refined["single_shot"]) == (2, 4)
    assert _counts(refined["up_to_three"]) == (3, 4)
    assert _counts(refined["tail"]) == (1, 3)
    assert _counts(refined["tail_up_to_three"]) == (2, 3)
    assert _counts(refined["tail_graspable"]) == (1, 2)  # nobody succeeded on scene 5
    assert _counts(refined["tail_graspable_up_to_three"]) == (2, 2)
    assert _counts(refined["kept"]) == (1, 2)
    assert refined["tail_causes"] == {"slipped": 2}
    assert refined["tail_causes_after_three"] == {"slipped": 1}
    assert refined["tail_failures"] == {
        "not graspable": 1, "stated below 0.3": 0, "stated below 0.85": 1, "stated more": 0,
    }  # fmt: skip
    assert refined["against"]["centroid"]["tail"]["difference"] == pytest.approx(1 / 3)


def test_what_the_oracle_finds_counts_as_graspable(told):
    config, ((part),) = told
    records = (*part.records, _record(5, "oracle", True))
    data = figures(config, (PartRecords(part.part, records),))["rules"]["E"]
    assert data["oracle"] == {"searched": 1, "found": 1}
    assert "oracle" not in data["planners"]
    assert _counts(data["planners"]["refined"]["tail_graspable"]) == (1, 3)


def test_scenes_of_different_seeds_are_different_scenes():
    config = _config(seeds=(0, 1), tail=0)
    first = [_record(0, "reference", True), _record(0, "refined", True)]
    second = [_record(0, "reference", False), _record(0, "refined", False, True)]
    data = figures(config, _parts(config, first, second))["rules"]["E"]
    refined = data["planners"]["refined"]
    assert (data["scenes"], data["tail_scenes"]) == (2, 1)
    assert _counts(refined["single_shot"]) == (1, 2)
    assert {seed: _counts(rate) for seed, rate in refined["seeds"].items()} == {"0": (1, 1), "1": (0, 1)}


def test_robust_grasps_are_counted_from_their_own_runs():
    config = _config(tail=0, robust_objects=2)
    main, robust = config.parts()
    assert (robust.config.robust, robust.config.objects, robust.config.up_to) == (True, 2, 1)
    assert not main.config.robust
    tried = [_record(s, "refined", True, robust_successes=9 - s, robust_trials=10) for s in range(2)]
    nothing_found = TrialRecord(2, "002", "flat", "E", "embedded", 2, "gripper", "refined")
    parts = _parts(config, [_record(0, "reference", True), _record(0, "refined", True)], [*tried, nothing_found])
    refined = figures(config, parts)["rules"]["E"]["planners"]["refined"]
    assert _counts(refined["robust"]) == (1, 2)  # nine of ten are enough, eight aren't, and no grasp is none
    assert _counts(refined["single_shot"]) == (1, 1)


def test_trainings_stand_apart_and_together(tmp_path):
    paths = []
    for name in ("a", "b"):
        paths.append(tmp_path / f"{name}.safetensors")
        paths[-1].write_bytes(b"weights")
    config = _config(weights=tuple(paths), controls=("argmax",))
    (part,) = config.parts()
    assert [spec.name for spec in part.config.planners] == ["reference", "argmax", "refined", "refined-2"]
    assert part.config.planners[1].options["weights"] == str(paths[0])
    records = [
        _record(0, "reference", False),
        _record(0, "argmax", True),
        _record(0, "refined", True),
        _record(0, "refined-2", False),
    ]
    planners = figures(config, _parts(config, records))["rules"]["E"]["planners"]
    assert _counts(planners["refined-2"]["single_shot"]) == (0, 1)
    assert _counts(planners[ALL_TRAININGS]["tail"]) == (1, 2)
    assert planners[ALL_TRAININGS]["trainings"] == 2


def test_targets_say_what_is_missed_and_leave_out_what_was_not_measured(told):
    config, parts = told
    found = {one["target"]: one for one in targets(figures(config, parts)["rules"])}
    assert not found["rule E: single-shot"]["met"]
    assert found["rule E: graspable tail, up to three"]["met"]
    assert not any("rule A" in name or "robust" in name or "cem" in name for name in found)


def test_a_gain_of_nothing_is_no_gain():
    rules = {"E": {"planners": {"refined": _measured(gain=0.0)}}}
    (gain,) = [one for one in targets(rules) if "gain" in one["target"]]
    assert not gain["met"]
    rules = {"E": {"planners": {"refined": _measured(gain=0.01)}}}
    (gain,) = [one for one in targets(rules) if "gain" in one["target"]]
    assert gain["met"]


def _measured(gain):
    rate = {"rate": None}
    keys = ("single_shot", "tail_graspable", "tail_graspable_up_to_three", "kept")
    against = {"argmax": {"tail": {"difference": 0.02, "interval": [gain, 0.04], "trials": 3}}}
    return {
        **dict.fromkeys(keys, rate), "robust": None, "probability": None, "against": against,
        "plan_ms": {"p50": None, "p99": None},
    }  # fmt: skip


def test_table_and_page_show_every_planner_and_stay_whole_where_nothing_was_measured(told, tmp_path):
    config, parts = told
    for some in (parts, (PartRecords(parts[0].part, parts[0].records[:2]),)):
        found = json.loads(json.dumps(figures(config, some), allow_nan=False))
        text = markdown(found)
        page = write_page(config, found, some, tmp_path / "page.html", pictures=0).read_text()
        for name in found["rules"]["E"]["planners"]:
            assert f"`{name}`" in text
            assert name in page
    assert "E-seed0" in page  # stopped before its end
    assert not is_whole(some[0])


def test_examples_of_the_tail_have_a_grasp_of_both_and_differ_in_objects(told):
    config, parts = told
    examples = tail_examples(config, parts, 10)
    assert [(own.planner, other.planner) for own, other in examples] == [("refined", "reference")] * 3
    assert len({own.object_name for own, _ in examples}) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"rules": ()},
        {"rules": ("B",)},
        {"seeds": (1, 1)},
        {"controls": ("reference",)},
        {"controls": ("nobody",)},
        {"robust_objects": -1},
        {"objects": 0},
        {"tail": -1},
    ],
)
def test_wrong_settings_are_refused_before_anything_is_tried(change):
    with pytest.raises(ConfigurationError):
        _config(**change)


def test_weights_that_are_missing_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match="none"):
        _config(weights=(tmp_path / "none.safetensors",))


@pytest.mark.slow
def test_an_evaluation_stops_resumes_and_collects_the_tail(tmp_path):
    config = EvaluationConfig(
        rules=("E",), seeds=(2,), objects=1, tail=1, poses=5, controls=("centroid",), robust_objects=0,
        ceiling=True, split="validation", workers=1,
    )  # fmt: skip

    def stop_soon(number, part, state):
        if state.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_evaluation(config, tmp_path, stop_soon)
    (stopped,) = read_evaluation(config, tmp_path)
    assert not is_whole(stopped)
    told = []
    parts = run_evaluation(config, tmp_path, lambda number, part, state: told.append((number, state.resumed)))
    assert told[0] == (1, 1)
    assert all(is_whole(part) for part in parts)
    data = figures(config, parts)["rules"]["E"]
    assert data["scenes"] == 1
    assert data["tail_scenes"] == 1  # of the fifth pose
    # On further poses nobody acts where the reference succeeds.
    main = parts[0]
    write_page(config, figures(config, parts), parts, tmp_path / "page.html", pictures=1)
    assert (tmp_path / TAIL_SHEET).is_file()
    assert "data:image/png" in (tmp_path / "page.html").read_text()
    for scene in {record.scene for record in main.records if record.scene >= 1}:
        acted = {record.planner: record for record in main.records if record.scene == scene}
        assert (set(acted) == {"reference"}) == acted["reference"].single_shot
    with pytest.raises(ConfigurationError, match="another"):
        run_evaluation(EvaluationConfig(**{**vars(config), "controls": ("random",)}), tmp_path)
