"""What each command does with bad input, and its output where nobody watches."""

import io
import json

import pytest
from rich.console import Console

from keygrasp.cli import console
from keygrasp.cli.main import main
from keygrasp.cli.pick import _slug
from keygrasp.cli.trials_table import print_summary

pytest.importorskip("cv2")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _error(arguments, capsys, status):
    assert main(arguments) == status
    message = capsys.readouterr().err
    assert message.startswith("keygrasp: ")
    assert "Traceback" not in message
    return message


def test_report_of_nothing(capsys):
    assert "nowhere" in _error(["report", "nowhere"], capsys, 2)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"planners": 3, "config": {}}', '{"planners": {"a": {}}, "config": {}}']
)
def test_report_of_a_file_that_holds_no_results(text, capsys, tmp_path):
    (tmp_path / "results.json").write_text(text)
    _error(["report", "results.json"], capsys, 2)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        (["--planner", "refnied"], "Did you mean 'refined'"),
        (["--planner", "reference", "--objects", "0"], "at least 1"),
        (["--planner", "reference", "--objects", "100000"], "100000 objects"),
        (["--planner", "reference", "--pictures", "-1"], "--pictures"),
        (["--planner", "refined", "--weights", "none.safetensors"], "none.safetensors"),
        (["--resume", "nowhere"], "nowhere"),
        (["--resume", "a", "--report", "b"], "--resume and --report"),
    ],
)
def test_trials_refuses(arguments, needle, capsys):
    assert needle in _error(["trials", *arguments], capsys, 2)


def test_trials_refuses_a_file_as_folder(capsys, tmp_path):
    (tmp_path / "taken").touch()
    assert "is a file" in _error(["trials", "--planner", "reference", "--report", "taken"], capsys, 2)


def test_trials_refuses_a_journal_of_something_else(capsys, tmp_path):
    (tmp_path / "journal.jsonl").write_text("not a journal\n")
    assert "journal" in _error(["trials", "--resume", str(tmp_path)], capsys, 2)
    assert (tmp_path / "journal.jsonl").read_text() == "not a journal\n"


def test_pick_without_a_file(capsys):
    assert "nope.obj" in _error(["pick", "nope.obj"], capsys, 2)


def test_pick_refuses_a_planner_that_looks_behind_the_image(capsys, tmp_path):
    (tmp_path / "a.obj").touch()
    assert "oracle" in _error(["pick", "a.obj", "--planner", "oracle"], capsys, 2)


def test_train_without_its_settings(capsys):
    assert "none.yaml" in _error(["train", "none.yaml"], capsys, 2)


@pytest.mark.parametrize("command", ["train", "collect"])
def test_an_unknown_setting_names_the_nearest(command, capsys, tmp_path):
    (tmp_path / "c.yaml").write_text("sed: 3\n")
    assert "Did you mean 'seed'?" in _error([command, "c.yaml"], capsys, 2)


def test_folder_names_are_plain():
    assert _slug("my part (v2)/../x") == "my-part-v2-..-x"
    assert _slug("///") == "object"
    assert len(_slug("a" * 500)) == 60


def _summary(name="refined"):
    rate = {"successes": 3, "trials": 4, "interval": [0.3, 0.95]}
    nothing = {"successes": 0, "trials": 0, "interval": [0, 1]}
    planner = {
        "planner": name,
        "single_shot": rate,
        "tail": nothing,
        "robust": None,
        "plan_ms": {"p50": 12.34, "p99": 20.0},
    }
    return {"planners": {name: {**planner, "faults": 2}}}


def test_summary_table_is_plain_and_fits_where_it_is_no_terminal():
    stream = io.StringIO()
    print_summary(Console(file=stream, width=80), _summary())
    text = stream.getvalue()
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "75.0%" in text
    assert "30–95" in text
    assert "12.3" in text
    assert "2 trials could not be carried out" in text
    assert "robust" not in text, "a measure that was not taken has no column"


def test_names_are_not_markup():
    stream = io.StringIO()
    print_summary(Console(file=stream, width=80), _summary("[red]x[/red]"))
    assert "[red]x[/red]" in stream.getvalue()


def test_output_that_is_piped_is_80_wide(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console.output().width == 80
    assert not console.output().is_terminal


def test_objects_list_prints_one_name_a_line(capsys):
    pytest.importorskip("pybullet_data")
    assert main(["objects", "list", "--split", "test"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 300
    assert "300 objects" in captured.err


def test_objects_list_refuses_an_unknown_split():
    with pytest.raises(SystemExit) as end:
        main(["objects", "list", "--split", "exam"])
    assert end.value.code == 2


def test_report_from_a_summary_alone(capsys, tmp_path):
    data = {
        "planners": {
            "x": {
                "planner": "x",
                "single_shot": {"successes": 1, "trials": 2, "interval": [0.1, 0.9]},
                "outcomes": {"success": 1, "slipped": 1},
                "plan_ms": {"p50": 1.0, "p99": 2.0},
                "trial_s": {"p50": None, "p99": None},
            }
        },
        "config": {
            "protocol": "KG-1", "source": "embedded", "names": [], "split": "test",
            "rule": "E", "robot": "gripper", "seed": 1,
        },
        "provenance": {"command": "keygrasp trials", "seed": 1},
    }  # fmt: skip
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert main(["report", "r.json", "--out", "page.html"]) == 0
    assert "page.html" in capsys.readouterr().out
    assert "50.0%" in (tmp_path / "page.html").read_text()
