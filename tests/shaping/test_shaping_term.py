"""The five conditions: each is enforced, and each misuse that can be seen is an error that names it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keygrasp.errors import InputError
from keygrasp.scene import SymbolicState, Task
from keygrasp.shaping import (
    Condition,
    Potential,
    RulePotential,
    ShapingTerm,
    Stationarity,
    TablePotential,
    ZeroPotential,
    check_stored,
    shaped_rewards,
)
from keygrasp.shaping.conditions import (
    DiscountError,
    EpisodeEndError,
    GoalError,
    StaticPotentialError,
    StoredPotentialError,
    TerminalPotentialError,
    UnboundedPotentialError,
)
from keygrasp.shaping.grasp_mdp import grasp_mdp
from keygrasp.shaping.learned import LearnedConfig, LearnedPotential
from keygrasp.shaping.rules import MILESTONES

GAMMA = 0.9
TABLE = TablePotential([0.1, 0.5, 0.8, 0.3])


def at(*states):
    return np.array(states, dtype=float)[:, None]


class ByGoal(Potential):
    """Φ is the goal's own number."""

    name, stationarity, high = "by goal", Stationarity.STATIC, 100.0

    def evaluate(self, states, goal):
        return np.full(len(states), float(goal))


class Drifting(Potential):
    """Φ grows with each call."""

    name, low, high = "drifting", 0.0, 100.0

    def __init__(self, stationarity):
        self.stationarity = stationarity
        self._calls = itertools.count(1)

    def evaluate(self, states, goal):
        return np.full(len(states), float(next(self._calls)))


class Returning(Potential):
    name, stationarity = "returning", Stationarity.STATIC

    def __init__(self, value):
        self._value = value

    def evaluate(self, states, goal):
        return np.full(len(states), self._value)


def begun(potential=TABLE, *, gamma=GAMMA, state=0, goal=None, **options):
    term = ShapingTerm(potential, gamma, **options)
    term.reset(at(*[state] * term.count), [goal] * term.count)
    return term


def test_condition_1_the_terms_own_gamma_is_used_and_another_one_is_an_error():
    term = begun()
    assert term.step(at(1), [False], [False]).shaping == pytest.approx(0.9 * 0.5 - 0.1)
    term.require_gamma(0.9)
    with pytest.raises(DiscountError, match="condition 1") as error:
        term.require_gamma(1.0)
    assert error.value.condition is Condition.DISCOUNT
    for gamma in (0.0, -0.5, 1.1, float("nan")):
        with pytest.raises(DiscountError):
            ShapingTerm(TABLE, gamma)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.01, -0.01])
def test_condition_2_an_unbounded_potential_is_an_error(value):
    with pytest.raises(UnboundedPotentialError, match="condition 2"):
        begun(Returning(value))


def test_condition_2_a_static_potential_that_changes_is_an_error():
    term = begun(Drifting(Stationarity.STATIC))
    with pytest.raises(StaticPotentialError, match="declared static but gave 1 and then 2"):
        term.step(at(0), [False], [False])


def test_condition_2_the_stored_value_of_a_dynamic_potential_is_reused():
    term = begun(Drifting(Stationarity.DYNAMIC))
    steps = [term.step(at(0), [False], [False]) for _ in range(3)]
    assert [s.potential[0] for s in steps] == [1.0, 2.0, 3.0]
    assert [s.next_potential[0] for s in steps] == [2.0, 3.0, 4.0]


def test_condition_3_terminal_states_have_none_whatever_the_potential_says():
    step = begun().step(at(2), [True], [False])
    assert step.next_potential == 0
    assert step.shaping == pytest.approx(-0.1)
    # where an episode is both terminated and cut off, it is terminated
    assert begun().step(at(2), [True], [True]).next_potential == 0


def test_condition_3_a_stored_one_is_an_error():
    with pytest.raises(TerminalPotentialError, match="condition 3"):
        shaped_rewards(np.ones(2), np.zeros(2), np.array([0.5, 0.5]), [False, True], GAMMA)


def test_condition_4_truncation_keeps_the_potential():
    step = begun().step(at(2), [False], [True])
    assert step.next_potential == 0.8
    assert step.shaping == pytest.approx(0.9 * 0.8 - 0.1)


@pytest.mark.parametrize("ends", [([True], [False]), ([False], [True])])
def test_condition_4_a_step_after_the_end_is_an_error(ends):
    """The step in which an environment resets itself must not be counted."""
    term = begun()
    term.step(at(1), *ends)
    with pytest.raises(EpisodeEndError, match="condition 4"):
        term.step(at(2), [False], [False])
    term.reset(at(3), [None])
    assert term.step(at(1), [False], [False]).potential == 0.3


def test_a_step_before_the_first_reset_is_an_error():
    with pytest.raises(EpisodeEndError):
        ShapingTerm(TABLE, GAMMA).step(at(1), [False], [False])


def test_condition_5_the_next_states_potential_is_that_of_the_new_goal():
    term = begun(ByGoal(), goal=20)
    step = term.step(at(0), [False], [False], goals=[3])
    assert step.shaping == pytest.approx(0.9 * 3 - 20)
    after = term.step(at(0), [False], [False])  # the goal stays
    assert (after.potential, after.next_potential) == (3, 3)


def test_condition_5_a_detour_through_a_subgoal_gains_nothing():
    """With the old goal's potential it would: a subgoal worth .9 became worth 18.9 at scale 20."""
    term = begun(ByGoal(), gamma=1.0, goal=20, scale=20)
    total = term.step(at(0), [False], [False], goals=[0]).shaping + term.step(at(0), [True], [False]).shaping
    assert total == -20 * 20  # only −Φ of where it began, the same for every way


def test_stored_potentials_are_checked_along_trajectories():
    potential, following = np.array([[1.0], [2.0], [5.0]]), np.array([[2.0], [3.0], [0.0]])
    goals = [["a"], ["a"], ["b"]]
    with pytest.raises(GoalError, match="condition 5"):
        check_stored(potential, following, np.zeros((3, 1), bool), goals)
    with pytest.raises(StoredPotentialError, match="condition 2"):
        check_stored(potential, following, np.zeros((3, 1), bool))
    check_stored(potential, following, np.array([[False], [True], [True]]), goals)  # another episode begins there


def test_what_the_term_stores_passes_that_check():
    term, rng = ShapingTerm(Drifting(Stationarity.DYNAMIC), GAMMA, count=3), np.random.default_rng(0)
    term.reset(at(0, 0, 0), [None] * 3)
    kept = []
    for _ in range(20):
        ends = rng.random((2, 3)) < 0.2
        kept.append((term.step(at(0, 0, 0), *ends), ends.any(axis=0)))
        term.reset(at(0, 0, 0), [None] * 3, ends.any(axis=0))
    steps = [step for step, _ in kept]
    check_stored(
        np.stack([s.potential for s in steps]), np.stack([s.next_potential for s in steps]),
        np.stack([ended for _, ended in kept]),
    )  # fmt: skip


def test_environments_of_a_batch_are_apart():
    term = ShapingTerm(TABLE, GAMMA, count=3)
    term.reset(at(0, 1, 2), [None] * 3)
    step = term.step(at(1, 2, 3), [False, True, False], [False, False, True], where=[True, True, True])
    assert step.shaping == pytest.approx([0.45 - 0.1, -0.5, 0.27 - 0.8])
    term.reset(at(3, 3, 3), [None] * 3, where=[False, True, True])
    assert term.step(at(0, 0, 0), [False] * 3, [False] * 3).potential.tolist() == [0.5, 0.3, 0.3]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.1, 1), st.booleans())
def test_the_terms_of_an_episode_telescope(values, gamma, terminated):
    """Σ γᵗF = γᵀΦ(s_T) − Φ(s_0), which is −Φ(s_0) where the end is terminal."""
    term = ShapingTerm(TablePotential([0.0, 1.0, *values]), gamma)
    states = np.arange(len(values)) + 2.0
    term.reset(states[:1, None], [None])
    total = 0.0
    for t, state in enumerate(states):
        last = t == len(states) - 1
        total += gamma**t * term.step(np.array([[state]]), [last and terminated], [last and not terminated]).shaping[0]
    end = 0.0 if terminated else gamma ** len(states) * values[-1]
    assert total == pytest.approx(end - values[0], abs=1e-12)


def test_wrong_sizes_are_refused():
    term = begun()
    for wrong in (lambda: term.step(at(1, 2), [False], [False]), lambda: term.step(at(1), [False] * 2, [False])):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="at least 1"):
        ShapingTerm(TABLE, GAMMA, count=0)
    with pytest.raises(InputError, match="scale"):
        ShapingTerm(TABLE, GAMMA, scale=float("inf"))
    with pytest.raises(UnboundedPotentialError):
        TablePotential([0.0, float("nan")])


def test_the_memory_of_the_static_check_is_bounded(monkeypatch):
    monkeypatch.setattr("keygrasp.shaping.term._REMEMBERED", 5)
    term = ShapingTerm(TablePotential(np.linspace(0, 1, 50)), GAMMA)
    term.reset(at(0), [None])
    for state in range(50):
        term.step(at(state), [False], [False])
    assert [len(states) for states in term._seen.values()] == [5]


STATE = SymbolicState(
    object_x=0.0, object_y=0.0, object_z=0.03, object_yaw=1.57, object_length=0.1, object_width=0.04,
    object_height=0.06, object_shape="flat", object_colour="blue", gripper_x=0.2, gripper_y=0.0, gripper_z=0.1,
    gripper_yaw=1.0, gripper_width=0.08,
)  # fmt: skip


def rules(task=None, **changes):
    return RulePotential().values(STATE.replace(**changes).to_row()[None], task or Task())[0]


def test_rules_rise_with_each_milestone():
    near = {"gripper_x": 0.03}
    aligned = {**near, "gripper_yaw": 0.0}
    around = {**aligned, "gripper_z": 0.01}
    held = {**around, "contact_left": True, "contact_right": True}
    lifted = {**held, "object_z": 0.09, "gripper_z": 0.07, "height": 0.06}
    stable = {**lifted, "held_steps": 10}
    levels = [rules(**c) for c in ({}, near, aligned, around, held, lifted, stable)]
    assert levels == sorted(levels)
    assert all(level - 1e-9 <= value < level + 1 for level, value in enumerate(6 * np.array(levels)[:-1]))
    assert levels[-1] == 1.0


def test_rules_grow_within_a_milestone_and_another_object_is_no_progress():
    assert rules(gripper_x=0.15) > rules(gripper_x=0.2)
    assert rules(Task(colour="green")) == 0
    assert rules(Task(colour="blue")) > 0
    held = {"gripper_x": 0.0, "gripper_yaw": 0.0, "gripper_z": 0.01, "contact_left": True, "contact_right": True}
    lifted = {**held, "height": 0.06, "object_z": 0.09, "gripper_z": 0.07}
    place = Task("place", target_x=0.3)
    assert rules(place, **lifted) < rules(place, **{**lifted, "object_x": 0.29, "gripper_x": 0.29}) == 1.0


def test_rules_say_why():
    text = RulePotential().explain(STATE.to_row(), Task())
    assert "next: near" in text
    assert "no progress" in RulePotential().explain(STATE.to_row(), Task(colour="green"))
    with pytest.raises(InputError, match="not a task"):
        RulePotential().values(STATE.to_row()[None], "lift")


@pytest.mark.parametrize("kind", MILESTONES)
def test_rules_are_bounded_everywhere(kind):
    rows = grasp_mdp().rows
    noise = np.random.default_rng(0).normal(0, 0.1, (50, *rows.shape)) * (rows != np.rint(rows))
    for shift in noise:
        assert np.all(np.isfinite(RulePotential().values(rows + shift, Task(kind))))


def test_a_learned_potential_is_dynamic_bounded_and_learns():
    potential = LearnedPotential(LearnedConfig(seed=3))
    rows = grasp_mdp().rows
    assert potential.stationarity is Stationarity.DYNAMIC
    assert np.all(potential.values(rows, Task()) == 0)
    target = RulePotential().values(rows, Task())
    potential.learn(rows, target, steps=150)
    assert np.corrcoef(potential.values(rows, Task()), target)[0, 1] > 0.9
    potential.learn(rows, 50 * target, steps=60)
    assert potential.values(rows, Task()).max() <= 1
    assert len(potential._states) <= potential.config.capacity


def test_no_shaping_is_a_potential_too():
    assert begun(ZeroPotential()).step(at(1), [False], [False]).shaping == 0
