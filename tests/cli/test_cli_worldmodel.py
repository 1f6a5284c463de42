"""``keygrasp worldmodel``: from collecting to planning, and bad options."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from keygrasp.cli.main import main

TASKS = Path(__file__).parents[2] / "tasks"


def test_collect_train_evaluate_and_plan_follow_each_other(tmp_path, capsys):
    data, model, figures = tmp_path / "data", tmp_path / "m.safetensors", tmp_path / "f.json"
    assert main(["worldmodel", "collect", "--out", str(data), "--episodes", "3", "--json", str(figures)]) == 0
    assert json.loads(figures.read_text())["decisions"] > 60
    train = [
        "--data",
        str(data),
        "--out",
        str(model),
        "--updates",
        "5",
        "--first-updates",
        "5",
        "--held-out",
        "1",
        "--json",
        str(figures),
    ]
    assert main(["worldmodel", "train", *train]) == 0
    assert [s["steps"] for s in json.loads(figures.read_text())["scores"]] == [1, 5, 15]
    picture, task = tmp_path / "p.svg", tmp_path / "short.yaml"
    task.write_text((TASKS / "reach_blue.yaml").read_text().replace("steps: 30", "steps: 2"))
    plan = ["--task", str(task), "--model", str(model), "--picture", str(picture), "--json", str(figures)]
    assert main(["worldmodel", "plan", *plan]) == 0
    assert len(json.loads(figures.read_text())["rewards"]) == 2
    assert ET.parse(picture).getroot().tag.endswith("svg")  # noqa: S314 - written a moment ago
    said = capsys.readouterr().out
    assert "closeness(blue)" in said
    assert "R² of changes" in said
    assert main(["worldmodel", "plan", "--task", str(task)]) == 0  # with the model that ships
    assert "closeness(blue)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["plan", "--task", "none.yaml", "--model", "none.safetensors"], "none.safetensors"),
        (["train", "--data", "/nowhere"], "/nowhere is no folder"),
        (["train", "--data", ".", "--device", "abacus"], "abacus"),
        (["collect", "--out", "/proc/none"], "/proc"),
        (["collect", "--out", "x", "--behaviours", "curious"], "curious"),
        (["collect", "--out", "x", "--episodes", "0"], "episodes is 0"),
        (["collect", "--out", "x", "--seed", "-1"], "--seed"),
        (["study", "--data", "/nowhere", "--task", "--journal", "j"], "/nowhere is no folder"),
        (["study", "--data", ".", "--task", "--journal", "j", "--conditions", "luck"], "luck"),
        (["study", "--data", ".", "--task", "--journal", "j", "--seeds", "0"], "at least 1 seed"),
    ],
)
def test_bad_options_end_with_a_sentence(options, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["worldmodel", *options]) != 0
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown
