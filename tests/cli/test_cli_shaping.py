"""``keygrasp shaping``: comparisons write tables, files and pictures; wrong options are said."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from keygrasp.cli.main import main
from keygrasp.errors import ConfigurationError
from keygrasp.shaping.charts import Curve, learning_chart
from keygrasp.shaping.learning import LearningConfig, LearningCurve, episodes_to, learn, moving_mean, speed_up


def test_a_comparison_writes_what_it_shows(tmp_path, capsys):
    json_file, plot = tmp_path / "compare.json", tmp_path / "compare.svg"
    status = main(
        ["shaping", "compare", "--episodes", "60", "--seeds", "2", "--potentials", "none", "rules",
         "--json", str(json_file), "--plot", str(plot)]
    )  # fmt: skip
    assert status == 0
    shown = capsys.readouterr().out
    assert "rules" in shown
    figures = json.loads(json_file.read_text())["potentials"]
    assert set(figures) == {"none", "rules"}
    assert figures["none"]["episodes_to_base_over_base"] in (1.0, None)
    assert figures["rules"]["reward_terms"].keys() == {"task", "shaping"}
    assert len(figures["rules"]["final_success_by_seed"]) == 2
    assert ElementTree.fromstring(plot.read_text()).tag.endswith("svg")  # noqa: S314 - written a line ago


@pytest.mark.slow
def test_training_with_shaping_logs_its_terms(tmp_path, capsys):
    path = tmp_path / "train.json"
    assert main(["shaping", "train", "--shaping", "rules", "--episodes", "2", "--json", str(path)]) == 0
    assert "shaping:" in capsys.readouterr().out
    data = json.loads(path.read_text())
    assert data["reward_terms"]["shaping"] != 0
    assert len(data["success"]) == len(data["moves"]) == 2


def test_a_comparison_needs_what_it_is_compared_with(capsys):
    assert main(["shaping", "compare", "--potentials", "rules"]) == 2
    assert "none" in capsys.readouterr().err


def test_an_unwritable_place_is_said_before_the_work(tmp_path, capsys):
    assert main(["shaping", "compare", "--json", str(tmp_path)]) == 4
    assert "nothing was started" in capsys.readouterr().err


def test_rules_learn_faster_than_nothing_and_the_same_seed_gives_the_same():
    config = LearningConfig(episodes=300, seeds=3)
    plain, rules, again = learn("none", config), learn("rules", config), learn("rules", config)
    assert np.median(rules.first_success) < np.median(plain.first_success)
    assert rules.regret.mean() < plain.regret.mean()
    assert np.array_equal(rules.success, again.success)
    assert plain.reward_terms["shaping"] == 0


def test_a_dynamic_potential_goes_through_the_term_step_by_step():
    curve = learn("learned", LearningConfig(episodes=60, seeds=1))
    assert curve.success.shape == (1, 60)


def test_smoothing_and_levels():
    assert moving_mean(np.array([0.0, 1.0, 1.0]), 2).tolist() == [0.0, 0.5, 1.0]
    assert episodes_to(np.array([0.1, 0.6, 0.2]), 0.5) == 2
    assert episodes_to(np.array([0.1]), 0.5) == np.inf

    def curve(start):
        success = np.zeros((2, 40), bool)
        success[:, start:] = True
        return LearningCurve("x", success, np.zeros((2, 0)), np.ones(2), np.ones(2), np.ones(2))

    assert speed_up(curve(20), curve(5)) == pytest.approx(9 / 24)
    assert curve(5).final_worth is None


def test_a_chart_escapes_names_and_bounds_values():
    chart = learning_chart("a < b", "x", "y", [Curve("<script>", np.arange(3.0), np.array([[0.0, 2.0, -1.0]]))])
    assert "<script>" not in chart
    ElementTree.fromstring(chart)  # noqa: S314 - written a line ago


def test_settings_out_of_range_are_refused():
    with pytest.raises(ConfigurationError):
        LearningConfig(episodes=0)
    with pytest.raises(ConfigurationError):
        LearningConfig(exploration=1.5)
    with pytest.raises(ConfigurationError, match="unknown potential"):
        learn("magic", LearningConfig(episodes=1, seeds=1))
