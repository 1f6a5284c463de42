"""Planner and imagination: what they are paid for, and what ends an episode."""

import math

import pytest
import torch

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.imagination import Dream, train_in_imagination
from keygrasp.worldmodel.model import Belief, check_actions
from keygrasp.worldmodel.planner import Planner, PlannerConfig
from keygrasp.worldmodel.policies import focused
from keygrasp.worldmodel.qlearning import QConfig, QLearner, td_targets
from keygrasp.worldmodel.task_files import CodeTask, TaskSpec, task_from

SMALL = PlannerConfig(samples=64, elites=8, iterations=3, horizon=4, kept=2)


class Sliding:
    """A model in which the gripper goes where it is told, and is unsure of motions to negative y."""

    def __init__(self, layout):
        self.layout, self.device = layout, torch.device("cpu")

    def start(self, symbols, images=None):
        return Belief.certain(symbols)

    def observe(self, belief, actions, symbols, images=None):
        return Belief.certain(symbols)

    def step(self, belief, actions):
        actions = check_actions(actions, len(belief.symbols))
        symbols = belief.symbols.clone()
        symbols[:, :3] = symbols[:, :3] + 0.03 * actions[:, :3]
        deviation = torch.zeros_like(symbols)
        deviation[:, 1] = (-actions[:, 1]).clamp(min=0)
        return Belief(symbols, deviation, belief.state)


@pytest.fixture
def sliding(layout):
    return Sliding(layout)


def test_a_plan_goes_where_the_reward_is_and_is_the_same_with_the_same_seed(layout, row, sliding):
    task = CodeTask("right", lambda s: s.value("gripper_x"), layout)
    plans = [Planner(sliding, task, SMALL, seed=3).plan(sliding.start(row[None])) for _ in range(2)]
    assert torch.equal(plans[0].actions, plans[1].actions)
    assert plans[0].actions[0, 0] > 0.5
    assert plans[0].symbols.shape == (5, layout.size)
    assert plans[0].value > 0.1


def test_disagreement_costs_and_novelty_pays(layout, row, sliding):
    task = CodeTask("still", lambda s: torch.zeros(len(s.after)), layout)
    careful = Planner(sliding, task, PlannerConfig(samples=64, elites=8, iterations=3, horizon=3, kept=2, penalty=5.0))
    curious = Planner(sliding, task, PlannerConfig(samples=64, elites=8, iterations=3, horizon=3, kept=2, penalty=-5.0))
    belief = sliding.start(row[None])
    assert curious.plan(belief).actions[:, 1].mean() < -0.3 < careful.plan(belief).actions[:, 1].mean()


def test_a_weak_grip_that_pays_only_while_it_is_kept_is_found(layout, row, sliding):
    """Among grips that tremble hardly one in 10,000 stays within these bounds for twelve decisions."""

    def kept_so_far(step):  # the height counts how often it was
        return step.value("gripper_z") > step.before[:, layout.columns["gripper_z"]]

    class Gripping(Sliding):
        def step(self, belief, actions):
            after = super().step(belief, torch.zeros_like(actions))
            weak = (actions[:, 4] > 0.02) & (actions[:, 4] < 0.12)
            height = layout.columns["gripper_z"]
            after.symbols[:, height] = torch.where(weak, after.symbols[:, height] + 0.01, 0.0)
            return after

    model = Gripping(layout)
    task = CodeTask("keep", lambda s: kept_so_far(s) * s.value("gripper_z"), layout)
    settings = PlannerConfig(samples=128, elites=12, iterations=3, kept=4, penalty=0.0)
    row[layout.columns["gripper_z"]] = 0.0
    actions = Planner(model, task, settings).plan(model.start(row[None])).actions
    assert ((actions[:, 4] > 0.02) & (actions[:, 4] < 0.12)).all()
    assert (actions.abs() <= 1).all()


def test_the_first_step_is_paid_and_a_step_that_ends_is_too(layout, row, sliding):
    """A flag one step early, or one late, would lose the first reward or add what comes after the end."""
    task = CodeTask("once", lambda s: torch.ones(len(s.after)), layout, of_end=lambda s: s.value("gripper_x") > 0.05)
    planner = Planner(sliding, task, PlannerConfig(samples=2, elites=2, horizon=4, kept=0, discount=1.0, penalty=0.0))
    right, still = torch.zeros(1, 4, 5), torch.zeros(1, 4, 5)
    right[..., 0] = 1.0
    scores = planner.score(sliding.start(row.repeat(2, 1)), torch.cat([right, still]))
    assert scores.tolist() == [2.0, 4.0]  # 3 cm, 6 cm: the second step ends it
    assert planner.score(sliding.start(row[None]), right[:, :1]).tolist() == [1.0]


def test_each_tasks_own_code_ends_its_episodes(layout, row, sliding):
    """A model that had learned when the old task ends would go on ending there."""
    old = CodeTask("old", lambda s: torch.ones(len(s.after)), layout, of_end=lambda s: s.value("gripper_x") > 0.01)
    new = CodeTask("new", lambda s: torch.ones(len(s.after)), layout)
    move = torch.zeros(1, 4, 5)
    move[..., 0] = 1.0
    config = PlannerConfig(samples=2, elites=2, horizon=4, kept=0, discount=1.0, penalty=0.0)
    scores = [Planner(sliding, task, config).score(sliding.start(row[None]), move).item() for task in (old, new)]
    assert scores == [1.0, 4.0]
    ended = Episode(row.repeat(3, 1), torch.zeros(2, 5), terminated=True, task="old")
    learner = QLearner(layout, QConfig(starts=4, horizon=3), sliding.device)
    Dream(sliding, new, ended.symbols, learner, new.reward).step()
    assert learner.memory[:4, layout.size + 6].tolist() == [0.0] * 4


def test_targets_end_at_every_transition_that_is_terminated():
    """With the last transition's flag alone, the first would go on to a value that never comes."""
    terminated = torch.tensor([True, False, False])
    targets = td_targets(torch.tensor([1.0, 2.0, 3.0]), terminated, torch.full((3,), 10.0), 0.5)
    assert targets.tolist() == [1.0, 7.0, 8.0]


def test_imagined_rewards_stand_beside_the_action_that_earns_them(layout, row, sliding):
    task = CodeTask("right", lambda s: s.value("gripper_x"), layout)
    learner = QLearner(layout, QConfig(starts=8, horizon=4), sliding.device)
    dream = Dream(sliding, task, row[None], learner, task.reward)
    for _ in range(3):
        dream.step()
    memory = learner.memory[:24]
    wide = layout.size
    before, actions, rewards, after = memory[:, 0], memory[:, wide], memory[:, wide + 5], memory[:, wide + 7]
    assert torch.allclose(after, before + 0.03 * actions, atol=1e-6)
    assert torch.allclose(rewards, after)
    assert torch.equal(memory[8:16, :wide], memory[:8, wide + 7 :])  # the second step begins where the first ended


def test_a_policy_learns_a_task_without_a_step_in_the_workspace(layout, row, sliding):
    task = CodeTask("right", lambda s: 10 * s.value("gripper_x"), layout)
    config = QConfig(updates=150, batch=64, starts=32, horizon=5, hidden=32)
    episodes = [Episode(row.repeat(3, 1), torch.zeros(2, 5), truncated=True)]
    agent = train_in_imagination(sliding, task, episodes, config)
    assert agent.act(row[None])[0, 0] > 0.5
    again = train_in_imagination(sliding, task, episodes, config)
    assert torch.equal(agent.act(row[None]), again.act(row[None]))


def test_what_can_not_be_planned_is_refused(layout, row, sliding):
    task = CodeTask("right", lambda s: s.value("gripper_x"), layout)
    bad = row.clone()
    bad[0] = math.nan
    with pytest.raises(InputError, match="not finite"):
        Planner(sliding, task, SMALL).plan(sliding.start(bad[None]))
    for change in ({"elites": 1}, {"horizon": 0}, {"kept": 99, "elites": 64}, {"samples": 10**9}, {"steady": 1.5}):
        with pytest.raises(ConfigurationError):
            PlannerConfig(**change)
    with pytest.raises(ConfigurationError):
        QConfig(discount=1.0)


def test_a_focused_plan_reads_the_objects_of_its_task_alone(layout, row, model):
    task = task_from(TaskSpec("a", ({"term": "closeness", "object": "blue"},)), layout)
    smaller, about, columns = focused(model, task)
    assert smaller.layout.objects == ("blue",)
    assert torch.equal(row[columns][smaller.layout.columns_of("blue")], row[layout.columns_of("blue")])
    rows, actions = row.repeat(3, 1), torch.rand(3, 5)
    after = smaller.step(smaller.start(rows[:, columns]), actions).symbols
    whole = model.step(model.start(rows), actions).symbols
    blue = [layout.columns[f"blue.{name}"] for name in ("object_z", "object_length", "contact_left")]
    mine = [smaller.layout.columns[f"blue.{name}"] for name in ("object_z", "object_length", "contact_left")]
    assert torch.allclose(after[:, mine], whole[:, blue], atol=2e-3)  # but for the others' part in the gripper's motion
    assert torch.equal(about.reward(rows[:, columns], actions, rows[:, columns]), task.reward(rows, actions, rows))
