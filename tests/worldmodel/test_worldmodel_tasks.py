"""Rewards as code: terms, task files, and what is wrong with some."""

from pathlib import Path

import pytest
import torch
from tabletop_rows import state

from keygrasp.errors import ConfigurationError
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.rollouts import rewards_of
from keygrasp.worldmodel.scripts import EXPERTS
from keygrasp.worldmodel.task_files import CodeTask, TaskSpec, load_task, task_from
from keygrasp.worldmodel.terms import TERMS, Step

TASKS = sorted(Path(__file__).parents[2].joinpath("tasks").glob("*.yaml"))


def rows_of(layout, **blue):
    states = {"red": state(-0.1, **_gripper(blue)), "blue": state(**({"colour": "blue"} | blue))}
    states["other"] = state(0.0, 0.12, "unknown", **_gripper(blue))
    return torch.tensor(layout.row(states), dtype=torch.float32)


def _gripper(changes):
    return {name: value for name, value in changes.items() if name.startswith("gripper_")}


@pytest.mark.parametrize("path", TASKS, ids=lambda p: p.stem)
def test_the_tasks_that_come_along_are_read_and_have_an_expert(path, layout, row):
    task = load_task(path)
    assert task.name == path.stem in EXPERTS
    rows = row.repeat(3, 1)
    rewards = task.reward(rows, torch.zeros(3, 5), rows)
    assert rewards.shape == (3,)
    assert torch.isfinite(rewards).all()
    assert torch.allclose(sum(task.breakdown(rows, torch.zeros(3, 5), rows).values()), rewards)
    assert not task.terminated(rows).any()


def test_a_reward_is_that_of_the_row_after_its_action(layout):
    """Aligned one step off, the reward for grasping would stand beside the action before or after it."""
    free, held = rows_of(layout), rows_of(layout, contact_left=True, contact_right=True)
    task = task_from(TaskSpec("a", ({"term": "grasped", "object": "blue"},)), layout)
    episode = Episode(torch.stack([free, free, held, held, free]), torch.zeros(4, 5))
    assert rewards_of(episode, task).tolist() == [0.0, 1.0, 1.0, 0.0]


def test_the_action_of_a_step_is_the_one_that_is_paid_for(layout, row):
    task = task_from(TaskSpec("a", ({"term": "effort", "scale": -1},)), layout)
    actions = torch.zeros(3, 5)
    actions[1, :4] = 1.0
    episode = Episode(row.repeat(4, 1), actions)
    assert rewards_of(episode, task).tolist() == [0.0, -1.0, 0.0]


def test_terms_have_their_values(layout):
    around = rows_of(layout, gripper_z=0.0, object_yaw=torch.pi / 2)
    lifted = rows_of(layout, contact_left=True, contact_right=True, height=0.04, object_z=0.06, gripper_z=0.045)
    rows = torch.stack([rows_of(layout, x=0.2), around, lifted])
    step = Step(layout, rows, torch.zeros(3, 5), rows)

    def values(name, **arguments):
        return TERMS[name](step, **arguments).tolist()

    assert values("closeness", object="blue")[1] == pytest.approx(1.0)
    assert values("between", object="blue") == [0.0, 1.0, 1.0]
    assert values("alignment", object="blue")[1] == pytest.approx(1.0)
    assert values("raised", object="blue", top=0.08) == pytest.approx([0.0, 0.0, 0.5])
    assert values("inside", object="blue", x=0.2, y=0.0) == [1.0, 0.0, 0.0]
    assert values("trespass", x=0.0, y=0.0) == [1.0, 1.0, 1.0]
    assert values("trespass", x=0.2, y=0.0) == [0.0, 0.0, 0.0]
    assert values("side", object="blue", x=0.1) == pytest.approx([1.0, 0.75, 0.75])
    assert values("openness") == pytest.approx([1.0, 1.0, 1.0])


def test_an_end_pays_its_bonus_once_and_ends(layout):
    held = rows_of(layout, contact_left=True, contact_right=True, height=0.08, held_steps=10)
    ends = ({"when": "stable", "object": "blue", "bonus": 5.0},)
    task = task_from(TaskSpec("a", ({"term": "grasped", "object": "blue"},), ends=ends), layout)
    rows = torch.stack([rows_of(layout), held])
    assert task.terminated(rows).tolist() == [False, True]
    assert task.reward(rows, torch.zeros(2, 5), rows).tolist() == [0.0, 6.0]


def test_functions_make_a_task_too(layout, row):
    task = CodeTask("high", lambda s: s.value("gripper_z"), layout, of_end=lambda s: s.value("gripper_z") > 0.1)
    assert task.reward(row[None], torch.zeros(1, 5), row[None]).item() == pytest.approx(0.15)
    assert task.terminated(row[None]).tolist() == [True]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nreward: [{term: closenes, object: blue}]", "Did you mean 'closeness'"),
        ("name: a\nreward: [{term: closeness, object: bleu}]", "Did you mean 'blue'"),
        ("name: a\nreward: [{term: closeness, object: blue, lengths: 1}]", "Did you mean 'length'"),
        ("name: a\nreward: [{term: closeness}]", "needs 'object'"),
        ("name: a\nreward: [{term: closeness, object: blue, scale: .nan}]", "finite number"),
        ("name: a\nreward: [{term: closeness, object: blue, length: 0}]", "above 0"),
        ("name: a\nreward: [{term: closeness, object: blue, scale: \"__import__('os')\"}]", "finite number"),
        ("name: a\nreward: [{term: force, scale: 1.0e+9}]", "Stay within"),
        ("name: a\nreward: [closeness]", "mapping with 'term'"),
        ("name: a\nreward: []", "1 to 64 terms"),
        ("name: a\nrewards: [{term: force}]", "Did you mean 'reward'"),
        ("name: a\nsteps: 0\nreward: [{term: force}]", "steps is 0"),
        ("name: a\nreward: [{term: force}]\nends: [{when: stabl, object: red}]", "Did you mean 'stable'"),
        ("name: a\nreward: [{term: force}]\nends: [{when: stable}]", "needs 'object'"),
        ("name: !!python/object/apply:os.system [ls]\nreward: [{term: force}]", "not valid YAML"),
        ("reward: [{term: force}]", "name"),
    ],
)
def test_bad_task_files_say_what_is_wrong(tmp_path, text, said):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        load_task(path)
    assert said in str(error.value)
    assert str(path) in str(error.value)


def test_a_missing_task_file_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"none\.yaml"):
        load_task(tmp_path / "none.yaml", Layout())
