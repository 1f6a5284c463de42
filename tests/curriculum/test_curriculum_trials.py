"""A scheduler within runs of trials: which scenes it takes, the same ones each time, and what the report says of it."""

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.scene import Outcome
from keygrasp.trials.config import TrialsConfig
from keygrasp.trials.planners import planner_spec
from keygrasp.trials.records import AttemptRecord, TrialRecord
from keygrasp.trials.report_spent import spent_of, telling_records
from keygrasp.trials.scheduling import SceneSchedule

CONFIG = TrialsConfig(
    planners=(planner_spec("geometric"),), objects=5, poses=30, split="train", scheduler="graph", budget=110
)


def record(index, scene, success):
    outcome = Outcome.SUCCESS if success else Outcome.SLIPPED
    return TrialRecord(
        scene=index, object_name=scene.object_name, category="", rule=scene.rule, source=scene.source, seed=scene.seed,
        robot="gripper", planner="geometric", attempts=(AttemptRecord(str(outcome)),),
    )  # fmt: skip


def carried_out(schedule, scenes, rates, done=None):
    """Let a schedule run to its end, with outcomes that follow from the scene alone."""
    done, rounds = dict(done or {}), []
    while chosen := schedule.next_round():
        for index in chosen:
            rate = rates[index % CONFIG.objects]
            done[index] = (record(index, scenes[index], np.random.default_rng(index).random() < rate),)
        rounds.append(chosen)
        schedule.learn(done, chosen)
    return rounds, done


def test_the_budget_is_spent_where_outcomes_are_mixed_and_no_scene_is_tried_twice():
    scenes = CONFIG.scenes()
    rates = [0.0, 0.0, 0.5, 1.0, 1.0]
    rounds, done = carried_out(SceneSchedule(CONFIG, scenes), scenes, rates)
    chosen = np.concatenate(rounds)
    assert len(chosen) == len(set(chosen)) == CONFIG.budget == CONFIG.expected_scenes()
    counts = np.bincount(chosen % CONFIG.objects, minlength=CONFIG.objects)
    assert counts.min() >= 1
    assert counts[2] == counts.max()
    again, _ = carried_out(SceneSchedule(CONFIG, scenes), scenes, rates)
    assert again == rounds
    spent = spent_of(CONFIG.identity(), [r for records in done.values() for r in records])
    assert spent.scheduler == "graph"
    assert spent.trials == CONFIG.budget
    assert (spent.alike, spent.untried) == (4, 0)
    assert (spent.bins[0][1], spent.bins[-1][1]) == (2, 2)
    assert sum(objects for _, objects, _ in spent.bins) == CONFIG.objects


def test_examples_are_the_easiest_the_hardest_and_those_in_between():
    scenes = CONFIG.scenes()
    records = [
        record(i, scenes[i], i // CONFIG.objects < wins)
        for i in range(4 * CONFIG.objects)
        for wins in ([0, 4, 2, 3, 1][i % CONFIG.objects],)
    ]
    shown = telling_records(records, "geometric")
    first = {heading: next(r.scene for h, r in shown if h == heading) for heading, _ in shown}
    assert first == {"Easiest objects": 1, "Hardest objects": 0, "Most telling objects": 2}


def test_what_always_succeeds_is_no_example_of_hard_or_telling_objects():
    scenes = CONFIG.scenes()
    records = [record(i, scenes[i], i % CONFIG.objects > 0 or i == 0) for i in range(4 * CONFIG.objects)]
    shown = telling_records(records, "geometric")
    assert [heading for heading, _ in shown] == ["Easiest objects"] * 3 + ["Hardest objects", "Most telling objects"]
    assert {r.scene for heading, r in shown if heading != "Easiest objects"} == {0}


def test_one_trial_of_each_object_needs_no_such_section():
    scenes = CONFIG.scenes()
    assert spent_of(CONFIG.identity(), [record(i, scenes[i], True) for i in range(CONFIG.objects)]) is None


@pytest.mark.parametrize("changes", [{"scheduler": "graphs"}, {"budget": 0}, {"scheduler": "all"}, {"budget": -3}])
def test_a_scheduler_and_a_budget_belong_together(changes):
    values = {"scheduler": "graph", "budget": 10, **changes}
    with pytest.raises(ConfigurationError, match=r"scheduler|budget"):
        TrialsConfig(**values)


def test_runs_without_a_scheduler_keep_their_identity():
    identity = TrialsConfig().identity()
    assert "scheduler" not in identity
    assert "budget" not in identity
