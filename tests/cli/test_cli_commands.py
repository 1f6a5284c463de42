"""What each command does with bad input, and its output where nobody watches."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from keygrasp.cli import console
from keygrasp.cli.main import main
from keygrasp.cli.pick import _folder_of, _slug
from keygrasp.cli.trials_table import print_summary

pytest.importorskip("cv2")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _error(arguments, capsys, status):
    assert main(arguments) == status
    message = capsys.readouterr().err
    assert any(line.startswith("keygrasp: ") for line in message.splitlines())
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
        (["--planner", "nosuch"], "Known: "),
        (["--planner", "reference", "--objects", "0"], "at least 1"),
        (["--planner", "reference", "--objects", "100000"], "100000 objects"),
        (["--planner", "reference", "--pictures", "-1"], "--pictures"),
        (["--planner", "refined", "--weights", "none.safetensors"], "none.safetensors"),
        (["--resume", "nowhere"], "can't read nowhere/journal.jsonl: No such file or directory"),
        (["--planner", "reference", "--poses", "1000000000"], "too many scenes"),
        (["--planner", "reference", "--attempts", "1000000000"], "Give 1 to 100"),
        (["--planner", "reference", "--names", "042", "nosuch"], "named 'nosuch'"),
        (["--planner", "reference", "--names", "042", "--objects", "3"], "Leave out --objects"),
        (["--planner", "reference", "--names", "042", "--unit", "mm"], "--source file"),
        (["--planner", "reference", "--names", "042", "--source", "file", "--location", "."], "Leave one out"),
        (["--planner", "reference", "--source", "file", "--names", "none.obj"], "no file none.obj"),
        (["--planner", "reference", "--source", "dexnet", "--names", "none.hdf5::a/b"], "no file none.hdf5"),
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


def test_an_unwritable_json_is_said_before_any_trial(capsys, tmp_path):
    (tmp_path / "file").touch()
    arguments = ["trials", "--planner", "reference", "--objects", "1", "--json", "file/out.json"]
    assert "nothing was started" in _error(arguments, capsys, 4)


def test_a_run_in_which_nothing_could_be_carried_out_isnt_a_success(capsys, tmp_path):
    (tmp_path / "empty.obj").touch()
    arguments = ["trials", "--planner", "reference", "--source", "file", "--names", "empty.obj", "--rule", "none"]
    message = _error([*arguments, "--workers", "1", "--no-robust"], capsys, 5)
    assert "1 of 1 trials could not be carried out: reference on empty.obj: " in message


def test_a_trial_that_could_not_be_carried_out_is_named_with_its_reason(capsys, tmp_path):
    (tmp_path / "empty.obj").touch()
    _box(tmp_path / "box.obj", 60, 40, 30)
    arguments = ["trials", "--planner", "reference", "--source", "file", "--names", "box.obj", "empty.obj"]
    message = _error([*arguments, "--unit", "mm", "--rule", "none", "--workers", "1", "--no-robust"], capsys, 5)
    assert "1 of 2 trials could not be carried out: reference on empty.obj::mm: " in message
    (journal,) = tmp_path.glob("keygrasp-results/*/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert [r["object_name"] for r in records if not r["fault"]] == ["box.obj::mm"]


def test_too_few_open_files_are_a_sentence(tmp_path):
    code = (
        "import resource, sys\nfrom keygrasp.cli.main import main\nfrom keygrasp.trials import pool\n"
        "open_now = len(__import__('os').listdir('/proc/self/fd'))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 12, open_now + 12))\n"
        "sys.exit(main(['trials', '--planner', 'reference', '--objects', '8', '--workers', '8']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 5, done.stderr
    assert "Too many open files" in done.stderr
    assert "fewer workers" in done.stderr
    assert "internal fault" not in done.stderr


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a place that nobody can write, not even root")
def test_a_report_that_can_not_be_written_says_that_nothing_was_started(capsys):
    message = _error(["trials", "--planner", "reference", "--objects", "1", "--report", "/proc/x"], capsys, 4)
    assert "nothing was started" in message
    assert "intact" not in message


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


def _box(path, x, y, z, scale=1.0):
    corners = [(i, j, k) for i in (0, x) for j in (0, y) for k in (0, z)]
    quads = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)]
    lines = ["v " + " ".join(str(scale * value) for value in corner) for corner in corners]
    lines += [f"f {a} {b} {c}\nf {a} {c} {d}" for a, b, c, d in quads]
    path.write_text("\n".join(lines) + "\n")


_PICTURES = ("overview", "execution", "depth", "keypoints", "candidates", "grasp")


@pytest.mark.slow
def test_pick_picks_a_box_and_leaves_pictures(capsys, tmp_path):
    pytest.importorskip("pybullet")
    _box(tmp_path / "box.obj", 0.12, 0.04, 0.04)
    assert main(["pick", "box.obj", "--planner", "geometric", "--robot", "gripper", "--out", "pictures"]) == 0
    captured = capsys.readouterr()
    assert "picked: box.obj was lifted 15 cm" in captured.out
    assert "12.0 × 4.0 × 4.0 cm" in captured.err
    assert "descend → close → lift" in captured.err
    for name in _PICTURES:
        assert (tmp_path / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_pick_takes_the_unit_and_says_why_it_failed(capsys, tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    from keygrasp.protocol import CentroidPlanner
    from keygrasp.scene import GraspPlan

    monkeypatch.setattr(CentroidPlanner, "plan", lambda *_, **__: GraspPlan(None, reason="a test says so"))
    _box(tmp_path / "box.obj", 0.12, 0.04, 0.04, scale=1000)
    arguments = ["pick", "box.obj", "--unit", "mm", "--planner", "centroid", "--robot", "gripper", "--out", "pictures"]
    assert main(arguments) == 1
    assert "not picked: box.obj: no grasp: a test says so" in capsys.readouterr().out
    assert not (tmp_path / "pictures" / "execution.png").exists()


@pytest.mark.parametrize(
    ("make", "needle"),
    [
        (lambda path: path.write_text(""), "bad.obj"),
        (lambda path: path.write_text("v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"), "bad.obj"),
        (lambda path: _box(path, 0.12, 0.04, 0.04, scale=1000), "--unit mm"),
        (lambda path: _box(path, 0.12, 0.04, 0.0004), "flat"),
        (lambda path: _box(path, 0.2, 0.2, 0.2), "too large"),
    ],
    ids=["empty", "nan", "millimetres", "flat", "large"],
)
@pytest.mark.parametrize("command", ["pick", "prepare"])
def test_a_bad_mesh_is_refused(command, make, needle, capsys, tmp_path):
    pytest.importorskip("pybullet")
    make(tmp_path / "bad.obj")
    words = {"pick": ["pick", "bad.obj", "--planner", "geometric"], "prepare": ["objects", "prepare", "bad.obj"]}
    assert needle in _error(words[command], capsys, 2)
    assert not (tmp_path / "keygrasp-results").exists()


def test_prepare_says_what_an_object_is(capsys, tmp_path):
    pytest.importorskip("trimesh")
    _box(tmp_path / "box.obj", 0.12, 0.04, 0.03, scale=100)
    assert main(["objects", "prepare", "box.obj", "--unit", "cm"]) == 0
    out = capsys.readouterr().out
    assert "120 × 40 × 30 mm" in out
    assert "72 g" in out


def test_inspect_dexnet_refuses_what_is_no_database(capsys, tmp_path):
    pytest.importorskip("h5py")
    (tmp_path / "x.hdf5").write_bytes(b"not HDF5")
    assert "x.hdf5" in _error(["objects", "inspect-dexnet", "x.hdf5"], capsys, 2)


def test_inspect_dexnet_counts(capsys, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        item = file.create_group("datasets/toys/objects/box")
        item.attrs["mass"] = 1.0
        item["mesh/vertices"] = [[0, 0, 0], [0.1, 0, 0], [0, 0.05, 0], [0, 0, 0.02]]
        item["mesh/triangles"] = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    assert main(["objects", "inspect-dexnet", "x.hdf5"]) == 0
    out = capsys.readouterr().out
    assert "toys: 1 objects" in out
    assert "100 × 50 × 20 mm, 4 triangles" in out


def test_train_passes_settings_on_and_names_the_weights(capsys, tmp_path, monkeypatch):
    training = pytest.importorskip("keygrasp.refine.training")
    seen = []

    def train(config, on_step, *, resume):
        seen.append((config, resume))
        on_step(config.steps, {"loss": 0.25})
        return {"final": {"auroc": 0.9}, "seconds": {"reward": 3.0, "update": 1.0, "credit": 0.0}}

    monkeypatch.setattr(training, "train", train)
    (tmp_path / "c.yaml").write_text("steps: 7\nseed: 1\n")
    assert main(["train", "c.yaml", "--seed", "5", "--restart", "--out", "w"]) == 0
    ((config, resume),) = seen
    assert (config.steps, config.seed, str(config.out), resume) == (7, 5, "w", False)
    captured = capsys.readouterr()
    assert "reward 75%, update 25%" in captured.out
    assert "w/weights.safetensors" in captured.out
    assert captured.err == "0/7 steps\n7/7 steps  loss 0.25\n"


def test_an_interrupted_training_says_what_is_kept(capsys, tmp_path, monkeypatch):
    training = pytest.importorskip("keygrasp.refine.training")

    def train(config, on_step, *, resume):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", train)
    assert main(["train", "--out", "w"]) == 130
    assert "nothing is kept" in capsys.readouterr().err
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "checkpoint.safetensors").touch()
    assert main(["train", "--out", "w"]) == 130
    assert "checkpoint is kept in w" in capsys.readouterr().err


def test_an_interrupted_collection_says_what_is_kept(capsys, monkeypatch):
    module = pytest.importorskip("keygrasp.experience.collect")

    def collect(config, on_progress):
        on_progress(module.CollectProgress(3, 9, 60, 30))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "collect", collect)
    assert main(["collect", "--out", "labels", "--scenes", "90"]) == 130
    assert "3 finished shards are kept in labels" in capsys.readouterr().err


def test_folder_names_are_plain():
    assert _slug("my part (v2)/../x") == "my-part-v2-..-x"
    assert _slug("///") == "object"
    assert len(_slug("a" * 500)) == 60
    assert _slug("u\u0308n\u0303í") == _slug("üñí") == "üñí"
    assert _slug("कप 杯/чашка") == "कप-杯-чашка"


def test_each_file_has_a_folder_of_its_own(tmp_path):
    first, second = tmp_path / "a" / "cup.stl", tmp_path / "b" / "cup.obj"
    folder = _folder_of(first, tmp_path)
    assert folder == tmp_path / "pick-cup"
    folder.mkdir()
    assert _folder_of(second, tmp_path) == folder, "it is empty"
    (folder / "object.txt").write_text(f"{first}\n")
    assert _folder_of(first, tmp_path) == folder
    assert _folder_of(second, tmp_path) == tmp_path / "pick-cup-2"
    (folder / "object.txt").unlink()
    (folder / "overview.png").touch()
    assert _folder_of(first, tmp_path) == tmp_path / "pick-cup-2", "of an object that nobody knows"


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


def test_lines_that_are_piped_are_not_broken(capsys):
    line = "planned in 12 ms: " + "success expected with 99%, " * 9
    console.output().print(line)
    grid = console.table("name", "share")
    grid.add_row("an object's name " * 9, "12.3%")
    console.output().print(grid)
    first, *rows = capsys.readouterr().out.splitlines()
    assert first == line
    assert len(rows) == 4
    assert all(len(row) <= 80 for row in rows)


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
