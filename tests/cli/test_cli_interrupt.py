"""Ctrl-C at a real process: what was done is kept, and the run can go on."""

import json
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pybullet")

_TRIALS = ("trials", "--planner", "reference", "--no-robust", "--attempts", "1", "--workers", "1", "--pictures", "0")


def _lines(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.slow
def test_trials_keep_what_is_done_and_go_on(tmp_path):
    folder = tmp_path / "run"
    journal = folder / "journal.jsonl"
    command = [sys.executable, "-m", "keygrasp.cli.main"]
    process = subprocess.Popen(
        [*command, *_TRIALS, "--objects", "5", "--report", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while len(_lines(journal)) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the run ended before the signal came")
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert f"--resume {folder}" in " ".join(err.split())
    kept = _lines(journal)
    assert 2 <= len(kept) < 6
    assert f"stopped after {len(kept) - 1} of 5 scenes" in err

    again = subprocess.run(
        [*command, "trials", "--resume", str(folder), "--workers", "2", "--pictures", "0"],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert again.returncode == 0, again.stderr
    assert _lines(journal)[: len(kept)] == kept, "what was done is not done again"
    assert json.loads((folder / "results.json").read_text())["planners"]["reference"]["single_shot"]["trials"] == 5
    assert (folder / "report.html").exists()


def test_an_interrupt_before_anything_is_done():
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, types, time\n"
            "from keygrasp.cli.main import COMMANDS, Command, main\n"
            "module = types.ModuleType('slow')\n"
            "def run(argv):\n    print('started', flush=True)\n    time.sleep(60)\n"
            "module.run = run\nsys.modules['slow'] = module\n"
            "COMMANDS['slow'] = Command('slow:run', '')\n"
            "sys.exit(main(['slow']))",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "keygrasp: stopped; what was finished is kept\n"
