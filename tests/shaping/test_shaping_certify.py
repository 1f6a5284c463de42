"""The exact certificate: right answers on MDPs that can be solved by hand, and whole sets of policies compared."""

import json
from fractions import Fraction

import gymnasium
import numpy as np
import pytest

from keygrasp.cli.main import main
from keygrasp.errors import InputError
from keygrasp.scene import Task
from keygrasp.shaping import RulePotential
from keygrasp.shaping.campaign import WAYS, certify_grasp, certify_problem, certify_rules, run_campaign
from keygrasp.shaping.certify import certify, potential_table
from keygrasp.shaping.exact import evaluate, solve
from keygrasp.shaping.goals import random_goal_mdp
from keygrasp.shaping.grasp_mdp import Action, grasp_mdp
from keygrasp.shaping.mdp import FiniteMDP, Transition, mdp_from_arrays, mdp_from_gymnasium

HALF = Fraction(1, 2)


def chain(gamma="1/2"):
    """0 → 1 → end with reward 1; the other action stays; in state 1 two actions tie."""
    p, r = np.zeros((3, 2, 3)), np.zeros((3, 2))
    p[0, 0, 1] = p[0, 1, 0] = p[1, 0, 2] = p[1, 1, 2] = 1
    r[1] = 1
    return mdp_from_arrays(p, r, [False, False, True], gamma)


def ends(state, reward=1):
    """An outcome that ends the episode in a state."""
    return Transition(Fraction(1), state, Fraction(reward), terminated=True)


def test_values_by_hand():
    solution = solve(chain())
    assert solution.values == (HALF, Fraction(1), Fraction(0))
    assert solution.action_values[0] == {0: HALF, 1: HALF / 2}
    assert solution.optimal == (frozenset({0}), frozenset({0, 1}), frozenset())


def test_a_difference_far_below_floats_is_seen():
    tiny = Fraction(1, 10**30)
    mdp = FiniteMDP((((ends(1, 1 + tiny),), (ends(1),)), ()), HALF)
    assert solve(mdp).optimal[0] == frozenset({0})
    lost = certify(mdp, [0, 0], shaping=lambda m, phi, s, o: Fraction(1))
    assert not lost.preserved


def test_a_float_is_taken_bit_by_bit():
    assert certify(chain(), [0.1, 0.7, 0.0]).shifted
    with pytest.raises(InputError, match="finite"):
        certify(chain(), [float("nan"), 0, 0])
    with pytest.raises(InputError, match="2 potentials for 3 states"):
        certify(chain(), [0, 0])


def test_a_counterexample_names_state_actions_and_values():
    certificate = certify(chain(), [5, 0, 0], shaping=lambda m, phi, s, o: o.reward + phi[o.state])
    assert not certificate.preserved
    text = certificate.text()
    assert "in state 0" in text
    assert "{action 0}" in text
    assert "{action 1}" in text
    assert "Q* with:" in text


def test_losing_one_of_two_tied_actions_is_losing_a_policy():
    """The whole set is compared, not one policy."""
    mdp = FiniteMDP((((ends(1),), (ends(2),)), (), ()), HALF)

    def raw(m, phi, state, o):
        return o.reward + m.gamma * phi[o.state] - phi[state]

    assert certify(mdp, [0, 1, 1], shaping=raw).preserved
    assert not certify(mdp, [0, 1, 2], shaping=raw).preserved
    assert certify(mdp, [0, 1, 2]).preserved


@pytest.mark.parametrize("seed", range(6))
def test_the_exact_values_solve_bellmans_equation(seed):
    mdp = random_goal_mdp(seed).mdp
    solution = solve(mdp)
    for state in range(mdp.states):
        if not mdp.actions(state):
            continue
        for action, value in solution.action_values[state].items():
            total = sum(
                o.probability * (o.reward + (0 if o.terminated else mdp.gamma * solution.values[o.state]))
                for o in mdp.transitions[state][action]
            )
            assert value == total
        assert solution.values[state] == max(solution.action_values[state].values())


def test_the_value_of_a_policy_is_that_of_numpys_solver():
    mdp = grasp_mdp().mdp
    policy = [int(Action.LIFT)] * mdp.states
    matrix, right = np.eye(mdp.states), np.zeros(mdp.states)
    for state in range(mdp.states):
        for o in mdp.transitions[state][policy[state]] if mdp.actions(state) else ():
            right[state] += float(o.probability * o.reward)
            if not o.terminated:
                matrix[state, o.state] -= float(mdp.gamma * o.probability)
    assert [float(v) for v in evaluate(mdp, policy)] == pytest.approx(np.linalg.solve(matrix, right), abs=1e-12)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1"])
def test_gymnasium_environments_can_be_certified(name):
    mdp = mdp_from_gymnasium(gymnasium.make(name), "0.95")
    assert certify(mdp, np.random.default_rng(0).normal(size=mdp.states)).preserved


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(InputError, match="no transition table"):
        mdp_from_gymnasium(gymnasium.make("CartPole-v1"), "0.9")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda p, r, t: p.__setitem__((0, 0, 1), 0.5), "add up to 0.5"),
        (lambda p, r, t: p.__setitem__((0, 0), [2.0, -1.0, 0.0]), "negative"),
        (lambda p, r, t: r.__setitem__((0, 0), np.nan), "finite"),
        (lambda p, r, t: t.append(True), "fit"),
    ],
)
def test_damaged_arrays_are_refused(change, match):
    p, r, t = np.zeros((3, 2, 3)), np.zeros((3, 2)), [False, False, True]
    p[:2, :, 2] = 1
    p[0, 0] = [0, 1, 0]
    change(p, r, t)
    with pytest.raises(InputError, match=match):
        mdp_from_arrays(p, r, t, "0.9")
    with pytest.raises(InputError, match="γ"):
        chain("1")


def test_the_grasp_mdp_is_what_its_documentation_says():
    grasp = grasp_mdp()
    assert grasp.mdp.states == 28
    assert len(grasp.mdp.transitions[0]) == 8
    scores = RulePotential().values(grasp.rows, Task())
    values = [float(v) for v in solve(grasp.mdp).values]
    acting = [s for s in range(28) if grasp.mdp.actions(s) and "loose" not in grasp.mdp.state_name(s)]
    assert np.corrcoef(scores[acting], np.array(values)[acting])[0, 1] > 0.5  # progress is progress
    assert certify_rules().preserved
    assert certify_rules().shifted


def test_the_rules_scores_are_exact_rationals_of_what_the_potential_gives():
    grasp = grasp_mdp()
    table = potential_table(RulePotential(), grasp.rows, [Task()] * 28)
    assert [float(v) for v in table] == RulePotential().values(grasp.rows, Task()).tolist()


def test_the_campaign_keeps_all_with_the_term_and_loses_some_with_each_mistake():
    tally = run_campaign(6, workers=1)
    assert tally.holds
    assert all(count == 6 for count in tally.shifted.values())
    assert tally.with_ties > 2
    for way in [way for way in WAYS if way != "correct"]:
        assert tally.preserved[way]["adversarial"] < 6, way
        assert way in tally.examples
    grasp = certify_grasp()
    assert grasp.holds
    assert "old goal" not in grasp.preserved


def test_a_wrong_term_would_not_be_certified(monkeypatch):
    """The certificate can fail: with Φ at terminal states in place of the right term it does."""
    from keygrasp.shaping import campaign

    monkeypatch.setattr(campaign, "potential_based", campaign._raw_terminal)
    tally = certify_problem(random_goal_mdp(0), 0)
    assert not tally.holds


def test_campaigns_give_the_same_on_one_and_on_two_processes():
    one, two = run_campaign(2, seed=7, workers=1), run_campaign(2, seed=7, workers=2)
    assert one == two


def test_the_command_writes_what_it_shows(tmp_path, capsys):
    path = tmp_path / "certificate.json"
    assert main(["shaping", "certify", "--mdps", "2", "--workers", "1", "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "2/2" in shown
    assert "certified" in shown
    data = json.loads(path.read_text())
    assert data["holds"]
    assert data["random_mdps"]["preserved"]["correct"] == dict.fromkeys(data["random_mdps"]["preserved"]["correct"], 2)
    assert "provenance" in data


def test_numbers_out_of_range_are_said(capsys):
    assert main(["shaping", "certify", "--mdps", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err
