"""``keygrasp delta`` as people call it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

from keygrasp.cli.main import main
from keygrasp.robots.delta_x import load_calibration

POINTS = [[0.08, 0.08, 0.0], [-0.08, 0.08, 0.0], [-0.08, -0.08, 0.0], [0.08, -0.08, 0.0]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def points_file(path, robot=None, frame="workspace"):
    points = [
        {"at": at} | ({} if robot is None else {"robot": mine})
        for at, mine in zip(POINTS, robot or POINTS, strict=True)
    ]
    path.write_text(yaml.safe_dump({"frame": frame, "points": points}))
    return str(path)


def test_calibrating_from_measured_points(tmp_path, capsys):
    robot = [[x + 0.01, y - 0.02, -0.44] for x, y, _ in POINTS]
    assert main(["delta", "calibrate", points_file(tmp_path / "points.yaml", robot), "--out", "table.yaml"]) == 0
    assert "rms" in capsys.readouterr().out
    np.testing.assert_allclose(load_calibration(tmp_path / "table.yaml").pose[:3, 3], [0.01, -0.02, -0.44], atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        (["calibrate", "missing.yaml"], "missing.yaml"),
        (["emulate", "--scale", "1000"], "scale"),
        (["emulate", "--fault", "hiccup@3"], "hiccup"),
        (["emulate", "--model", "X9"], "X1, V2"),
        (["emulate", "--unplug-seconds", "-3"], "unplugged is -3 s"),
        (["emulate", "--boot-seconds", "nan"], "booting is nan s"),
    ],
)
def test_wrong_arguments(arguments, needle, capsys):
    assert main(["delta", *arguments]) == 2
    assert needle in capsys.readouterr().err


def test_a_log_that_can_not_be_written_is_said(capsys):
    assert main(["delta", "emulate", "--log", "/proc/x"]) == 4
    assert "can't write /proc/x" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["nan", "inf", "-3", "0"])
def test_no_limit_switches_the_limit_off(tmp_path, limit, capsys):
    robot = [[x, y, -0.44 + 0.02 * (x > 0)] for x, y, _ in POINTS]
    assert main(["delta", "calibrate", points_file(tmp_path / "off.yaml", robot), f"--limit-mm={limit}"]) == 2
    assert "--limit-mm" in capsys.readouterr().err
    assert not (tmp_path / "delta-calibration.yaml").exists()


@pytest.mark.parametrize(("text", "needle"), [(None, "can't read delta.yaml"), ("prot: here", "Did you mean 'port'?")])
def test_the_robots_file_is_checked_where_no_point_needs_it(tmp_path, text, needle, capsys):
    if text is not None:
        (tmp_path / "delta.yaml").write_text(text)
    points = points_file(tmp_path / "points.yaml", POINTS)
    assert main(["delta", "calibrate", points, "--config", "delta.yaml"]) == 2
    error = capsys.readouterr().err
    assert needle in f"{error} "


def test_points_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path, capsys):
    robot = [[x, -y, -0.44] for x, y, _ in POINTS]
    robot[0][0] += 0.02
    assert main(["delta", "calibrate", points_file(tmp_path / "points.yaml", robot)]) == 2
    assert "residuals" in capsys.readouterr().err
    assert not (tmp_path / "delta-calibration.yaml").exists()


def test_touching_needs_the_robots_file(tmp_path, capsys):
    assert main(["delta", "calibrate", points_file(tmp_path / "points.yaml")]) == 2
    assert "--config" in capsys.readouterr().err


@pytest.mark.hardware
def test_emulating_in_a_process_of_its_own_and_calibrating_with_it(tmp_path):
    pytest.importorskip("serial")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "keygrasp.cli.main", "delta"]
    emulator = subprocess.Popen(
        [*command, "emulate", "--scale", "50", "--link", "port", "--log", "events.jsonl"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert emulator.stdout.readline().strip() == "port"
        (tmp_path / "delta.yaml").write_text("port: port\nboot_seconds: 0.1\nguardian: false\n")
        # Tips at the corners of a square 240 mm below home, around (10, -20) mm.
        steps = ["z -100", "x 90", "y 60", "ok", *["x -80"] * 2, "ok", *["y -80"] * 2, "ok", *["x 80"] * 2, "ok"]
        done = subprocess.run(
            [*command, "calibrate", points_file(tmp_path / "points.yaml"), "--config", "delta.yaml", "--out", "t.yaml"],
            input="\n".join(steps) + "\n",
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(load_calibration(tmp_path / "t.yaml").pose[:2, 3], [0.01, -0.02], atol=1e-4)
        emulator.send_signal(signal.SIGINT)
        assert emulator.wait(20) == 0
        assert '"event": "boot"' in (tmp_path / "events.jsonl").read_text()
        deadline = time.monotonic() + 5
        while (tmp_path / "port").is_symlink():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        emulator.kill()
        emulator.wait()


def tries_file(path, **changes):
    good = {"grasp": [0.02, -0.01, 0.012, 0.3, 0.038], "outcome": "success"}
    tries = [good, {**good, "block_at": [0.02, 0.04, 0.3]}, {**good, "grasp": [0.15, -0.1, 0.012, 0.0, 0.038]}]
    path.write_text(yaml.safe_dump({"block": [0.03, 0.05, 0.04], "mass": 0.03, "tries": tries, **changes}))
    return str(path)


def test_comparing_with_the_twin_makes_each_grasp_again_with_an_x1(tmp_path, capsys):
    assert main(["delta", "compare", tries_file(tmp_path / "tries.yaml"), "--json", "both.json"]) == 0
    found = json.loads((tmp_path / "both.json").read_text())
    assert [row["twin"] for row in found["tries"]] == ["success", "empty", "unreachable"]
    assert found["same"] == 1
    text = capsys.readouterr().out
    assert "same verdict in 1 of 3" in text
    assert "try 3: the Delta can't bring its fingertips" in text
    assert "no calibration was given" in text
    assert "458 mm below" in text


def test_comparing_where_the_table_was_calibrated_gives_the_same_verdicts(tmp_path, capsys):
    turned, shift = 0.5, np.array([0.01, -0.02, -0.455])
    rotation = np.array([[np.cos(turned), -np.sin(turned), 0], [np.sin(turned), np.cos(turned), 0], [0, 0, 1]])
    robot = [(rotation @ point + shift).tolist() for point in np.array(POINTS)]
    assert main(["delta", "calibrate", points_file(tmp_path / "points.yaml", robot), "--out", "table.yaml"]) == 0
    (tmp_path / "delta.yaml").write_text("calibration: table.yaml\n")
    tries = tries_file(tmp_path / "tries.yaml")
    assert main(["delta", "compare", tries, "--config", "delta.yaml", "--json", "both.json"]) == 0
    found = json.loads((tmp_path / "both.json").read_text())
    assert [row["twin"] for row in found["tries"]] == ["success", "empty", "unreachable"]
    assert "no calibration" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "needle"),
    [
        ({"block": [30, 50, 40]}, "Give metres"),
        ({"mass": 30}, "Give kilograms"),
        ({"tries": []}, "tries: 0"),
        ({"tries": [{"grasp": [0, 0, 0, 0, 0.03], "outcome": "fine"}]}, "outcome"),
        ({"tries": [{"grasp": [0, 0, 0, 0, 0.03], "outcome": "EMPTY_"}]}, "Did you mean 'empty'?"),
    ],
)
def test_tries_that_make_no_sense_are_refused(tmp_path, changes, needle, capsys):
    assert main(["delta", "compare", tries_file(tmp_path / "tries.yaml", **changes)]) == 2
    assert needle in capsys.readouterr().err
