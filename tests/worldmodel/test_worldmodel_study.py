"""The study's parts: returns, normalising, the fitted reward head, and learning from scratch."""

from pathlib import Path

import pytest
import torch

from keygrasp.sim.tabletop import Tabletop
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.planner import PlannerConfig
from keygrasp.worldmodel.qlearning import QConfig
from keygrasp.worldmodel.reward_head import fit_reward_head
from keygrasp.worldmodel.study import CONDITIONS, Contender, StudyConfig, normalised, run_one, scenes, summary
from keygrasp.worldmodel.task_files import TaskSpec, load_task, task_from

TASKS = Path(__file__).parents[2] / "tasks"


def test_every_condition_gives_a_record_on_the_same_scenes(layout, row, model):
    tiny = PlannerConfig(samples=8, elites=2, iterations=1, horizon=2, kept=1)
    learner = QConfig(updates=2, batch=8, starts=8, horizon=2, hidden=8, memory=64)
    config = StudyConfig(seeds=1, episodes=1, planner=tiny, imagination=learner, scratch_steps=5)
    episodes = [Episode(row.repeat(4, 1), torch.zeros(3, 5), truncated=True)]
    text = TaskSpec("reach_blue", ({"term": "closeness", "object": "blue"},), steps=13)
    task = task_from(text, layout)
    contender = Contender(model, episodes, load_task(TASKS / "reach_red.yaml"), config, 3)
    with Tabletop() as workspace:
        records = [run_one(workspace, contender, condition, task) for condition in CONDITIONS]
        again = run_one(workspace, contender, "plan", task)
    assert [r["condition"] for r in records] == list(CONDITIONS)
    assert again["returns"] == records[CONDITIONS.index("plan")]["returns"]
    assert len(again["predicted_minus_realised"]) == again["lengths"][0] // 12
    assert [r["new_steps_in_workspace"] for r in records] == [0] * 6 + [5]
    found = summary(records, ["reach_blue"], CONDITIONS)
    assert found["expert"]["mean"] == pytest.approx(1.0)
    assert found["random"]["mean"] == pytest.approx(0.0)


def test_no_evaluated_scene_is_another_seeds_scene():
    assert not set(scenes(0, 10)) & set(scenes(1, 10))


def test_returns_are_normalised_seed_by_seed():
    def record(condition, seed, *returns):
        return {"condition": condition, "task": "a", "seed": seed, "returns": list(returns)}

    records = [record("random", 0, 1, 3), record("expert", 0, 9, 11), record("plan", 0, 6, 6)]
    records += [record("random", 1, 0), record("expert", 1, 5), record("plan", 1, 5)]
    assert normalised(records, "plan", "a") == pytest.approx([0.5, 1.0])
    assert summary(records, ["a"], ["plan", "frozen"])["plan"]["worst_task"] == pytest.approx(0.75)


def test_a_scene_in_which_the_expert_fails_does_not_hide_others():
    returns = {"random": (0, 0), "expert": (1, 5), "plan": (4, 2)}
    records = [
        {"condition": condition, "task": "a", "seed": seed, "returns": [values[seed]]}
        for condition, values in returns.items()
        for seed in (0, 1)
    ]
    found = summary(records, ["a"], ["plan"])["plan"]
    assert found["mean"] == pytest.approx(2.2)
    assert found["capped_mean"] == pytest.approx(0.7)


def test_a_fitted_head_comes_near_the_codes_reward_where_it_has_seen_it(layout, row):
    task = task_from(TaskSpec("a", ({"term": "closeness", "object": "blue"},)), layout)
    rows = row.repeat(61, 1)
    rows[:, 0] = torch.linspace(-0.15, 0.15, 61)
    episode = Episode(rows, torch.zeros(60, 5), truncated=True)
    head = fit_reward_head(task, [episode], updates=200, batch=32)
    wanted = task.reward(rows[:-1], episode.actions, rows[1:])
    assert torch.corrcoef(torch.stack([head(rows[:-1], episode.actions, rows[1:]), wanted]))[0, 1] > 0.9
