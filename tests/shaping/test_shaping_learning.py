"""What finite learning does with a bad potential, and what the guard does about it."""

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.scene import Task
from keygrasp.shaping import RaisedPotential
from keygrasp.shaping.certify import certify, potential_table
from keygrasp.shaping.grasp_mdp import grasp_mdp
from keygrasp.shaping.guard import Guard, split_guard
from keygrasp.shaping.learned import LearnedPotential
from keygrasp.shaping.learning import LearningConfig, LearningCurve, learn, speed_up
from keygrasp.shaping.options import make_potential
from keygrasp.shaping.rules import AdversarialPotential

CONFIG = LearningConfig(episodes=600, seeds=2)


@pytest.fixture(scope="module")
def curves():
    return {name: learn(name, CONFIG) for name in ("none", "adversarial", "adversarial+guard")}


def test_an_adversarial_potential_leads_a_learner_that_follows_its_values_away(curves):
    assert curves["none"].final_success > 0.5
    assert not curves["adversarial"].success.any()


def test_with_a_guard_it_ends_where_learning_without_shaping_ends(curves):
    guarded = curves["adversarial+guard"]
    assert guarded.final_success > 0.85 * curves["none"].final_success
    assert guarded.final_worth == pytest.approx(curves["none"].final_worth, abs=0.1)
    assert guarded.reward_terms["shaping"] != 0


def test_raised_above_all_returns_it_ends_where_learning_without_shaping_ends(curves):
    """Optimistic at the start, the learner finds out by itself, with twenty times the reward against it."""
    raised = learn("adversarial+raised", LearningConfig(episodes=2400, seeds=1))
    assert raised.success[:, :200].sum() <= 1
    assert raised.final_success > 0.9 * curves["none"].final_success


def test_a_raised_potential_is_the_same_one_higher_up():
    grasp, plain, raised = grasp_mdp(), AdversarialPotential(), make_potential("adversarial+raised")
    added = raised.values(grasp.rows, Task()) - plain.values(grasp.rows, Task())
    assert added == pytest.approx(np.full(len(grasp.rows), 21.0))
    assert (raised.low, raised.high, raised.name) == (1.0, 21.0, "adversarial+raised")
    assert raised.explain(grasp.rows[0], Task()).endswith("raised by 21")
    certificate = certify(grasp.mdp, potential_table(raised, grasp.rows, [Task()] * grasp.mdp.states))
    assert certificate.preserved
    assert certificate.shifted


def test_what_moves_by_itself_is_not_raised():
    with pytest.raises(ConfigurationError, match="dynamic"):
        RaisedPotential(LearnedPotential())
    with pytest.raises(ConfigurationError, match="dynamic"):
        learn("learned+raised", CONFIG)
    with pytest.raises(ConfigurationError, match="unknown potential 'magic\\+raised'"):
        learn("magic+raised", CONFIG)


def test_a_guard_deals_most_episodes_to_the_learner_that_gains_most():
    guard, rng = Guard(2), np.random.default_rng(0)
    first = [guard.choose(rng) for _ in range(400)]
    assert 120 < sum(first) < 280  # equal ones by lot
    for _ in range(20):
        guard.note(0, 0.2)
        guard.note(1, 0.6)
    assert guard.best == 1
    assert sum(guard.choose(rng) for _ in range(400)) > 360
    for _ in range(80):
        guard.note(1, 0.0)
    assert guard.best == 0


def test_one_learner_needs_no_lots():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert Guard(1).choose(rng) == 0
    assert rng.bit_generator.state == before
    with pytest.raises(ConfigurationError):
        Guard(0)


def test_a_guard_is_asked_for_behind_the_potentials_name():
    assert split_guard("rules+guard") == ("rules", True)
    assert split_guard("rules") == ("rules", False)
    with pytest.raises(ConfigurationError, match="unknown potential 'magic'"):
        learn("magic+guard", CONFIG)


def test_an_early_success_by_chance_is_no_speed():
    def curve(name, success):
        nothing = np.zeros(1)
        return LearningCurve(name, np.array([success], dtype=bool), np.zeros((1, 0)), nothing, nothing, nothing)

    base = curve("none", [False] * 60 + [True] * 40)
    lucky = curve("lucky", [True] + [False] * 69 + [True] * 30)
    early = curve("early", [False] * 20 + [True] * 80)
    assert speed_up(base, base) == 1
    assert speed_up(base, lucky) > 1
    assert speed_up(base, early) == pytest.approx(30 / 70)
    assert speed_up(base, curve("never", [False] * 100)) == np.inf
