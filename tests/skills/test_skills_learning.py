"""What the learner learns, on simulated robots that all differ."""

import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.skills.core import BASE_SKILLS, PATTERNS, SKILLS, Agent, Event, needs
from keygrasp.skills.development import (
    acquisition,
    develop,
    longest_neglect,
    quality,
    selection_entropy,
    steps,
    time_to_all,
)
from keygrasp.skills.millirobot import Millirobot

SEEDS = 4


@pytest.fixture(scope="module")
def grown():
    """Agents of 15 minutes, with their robots and runs."""
    lives = []
    for seed in range(SEEDS):
        agent, robot = Agent(seed + 1), Millirobot(seed)
        lives.append((agent, robot, develop(agent, robot, 900.0)))
    return lives


def test_base_skills_within_six_minutes_and_all_within_fifteen(grown):
    for _, _, runs in grown:
        reached = acquisition(runs)
        assert time_to_all(reached, BASE_SKILLS) <= 360
        assert time_to_all(reached, SKILLS) <= 900


def test_patterns_are_true_to_their_curves_on_the_real_path(grown):
    agent, robot, _ = grown[0]
    measured = quality(agent.memory, robot, runs=4)
    assert max(measured.cross_track_share.values()) <= 0.05
    assert measured.closure["square"] <= 7.5


def test_every_skill_stands_on_skills_before_it():
    for index, skill in enumerate(SKILLS):
        assert all(SKILLS.index(below) < index for below in needs(skill))
    assert all(needs(pattern) for pattern in PATTERNS)


@pytest.mark.parametrize("change", ["load", "left", "right"])
def test_a_changed_body_is_learned_again_within_five_minutes(grown, change):
    agent, _, _ = grown[1]
    robot = Millirobot(1)
    again = Agent(7, memory=agent.memory)
    develop(again, robot, 60.0)
    if change == "load":
        robot.load(0.38)
    else:
        robot.weaken(("left", "right").index(change), 0.7)
    runs, lost = [], False
    for step in steps(again, robot, 360.0):
        lost = lost or Event.LOST in step.decision.events
        if Event.ENDED in step.decision.events:
            runs.append((step.decision.ended, step.decision.fitness))
    assert lost  # the change was noticed
    assert {name for name, fitness in runs if fitness >= 0.95} == set(SKILLS)


def test_the_same_seed_gives_the_same_life():
    lives = [develop(Agent(5), Millirobot(5), 120.0) for _ in range(2)]
    assert lives[0] == lives[1]
    assert lives[0] != develop(Agent(6), Millirobot(5), 120.0)


@pytest.mark.parametrize("strategy", ["random", "fixed", "progress"])
def test_other_strategies_choose_from_the_pool_alone(strategy):
    agent, robot = Agent(2, strategy=strategy), Millirobot(2)
    for step in steps(agent, robot, 120.0):
        if Event.STARTED in step.decision.events:
            learned = {state.name for state in agent.skills if state.learned}
            assert set(needs(step.decision.skill)) <= learned


def test_annealing_learns_too_but_more_slowly():
    slow = acquisition(develop(Agent(1, learner="annealing"), Millirobot(0), 240.0))
    fast = acquisition(develop(Agent(1), Millirobot(0), 240.0))
    assert "angular" in slow
    assert len(slow) < len(fast)


def test_frozen_agents_change_nothing_but_their_bookkeeping(grown):
    agent, robot, _ = grown[2]
    frozen = Agent(3, learner="frozen", only="circle", memory=agent.memory)
    before = [bytes(skill.weight) for skill in frozen.raw.memory.skill]
    develop(frozen, robot, robot.clock + 60)
    assert [bytes(skill.weight) for skill in frozen.raw.memory.skill] == before


def test_selection_is_spread_but_not_even(grown):
    for _, _, runs in grown:
        assert 0.5 < selection_entropy(runs) < 1
        assert 0 < longest_neglect(runs, 900.0) < 900
    assert selection_entropy([]) == 0


@pytest.mark.parametrize(
    "options", [{"seed": 0}, {"strategy": "lucky"}, {"learner": "rote"}, {"only": "waltz"}, {"memory": b"short"}]
)
def test_bad_options_are_named(options):
    with pytest.raises(ConfigurationError):
        Agent(**options)
