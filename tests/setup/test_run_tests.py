"""scripts/run_tests.py: what counts as passed, and that a foreign pytest plugin doesn't stop it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/run_tests.py"


@pytest.fixture
def run(tmp_path):
    def run_tests(code, *options, **environment):
        (tmp_path / "test_one.py").write_text(code)
        command = [sys.executable, SCRIPT, tmp_path / "test_one.py", "-n0", "-p", "no:cacheprovider", *options]
        environment = os.environ | {"PYTEST_ADDOPTS": ""} | environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    return run_tests


MIXED = """
import pytest
def test_a(): raise ValueError
@pytest.mark.ros
def test_b(): pass
@pytest.mark.slow
def test_c(): pytest.skip("no reason")
"""


def test_library_and_graph_are_summed_up_and_a_failure_in_one_decides(run):
    result = run(MIXED)
    assert result.returncode == 1, result.stdout
    assert result.stdout.splitlines()[-1] == "keygrasp: 1 passed, 1 failed, 1 skipped"


def test_markers_narrow_both_runs_down(run):
    result = run(MIXED, "-m", "slow or ros")
    assert result.returncode == 0, result.stdout
    assert result.stdout.splitlines()[-1] == "keygrasp: 1 passed, 0 failed, 1 skipped"


def test_no_test_at_all_is_a_failure(run):
    result = run("")
    assert result.returncode == 5
    assert "no test ran" in result.stderr


def test_plugin_of_a_distribution_that_pytest_refuses_is_not_loaded(run, tmp_path):
    site = tmp_path / "distribution"
    (site / "old-1.0.dist-info").mkdir(parents=True)
    (site / "old-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: old\nVersion: 1.0\n")
    (site / "old-1.0.dist-info/entry_points.txt").write_text("[pytest11]\nold = old\n")
    (site / "old.py").write_text("def pytest_pycollect_makemodule(path, parent):\n    return None\n")
    result = run("def test_a(): pass\n", PYTHONPATH=f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert result.returncode == 0, result.stdout + result.stderr


CROWDED = """
from pathlib import Path
import pytest
pytestmark = pytest.mark.ros
class TestGraph:
    @pytest.mark.parametrize("stage", ["lift", "a[b]::c"])
    def test_slow(self, stage):
        tried = Path(__file__).with_name(f"tried-{len(stage)}")
        before = tried.exists()
        tried.touch()
        assert before
def test_good(): pass
"""
BROKEN = "import pytest\npytestmark = pytest.mark.ros\ndef test_a(): assert False\ndef test_b(): pass\n"


@pytest.mark.parametrize(
    ("code", "most", "status", "last"),
    [
        (CROWDED, 5, 0, "3 passed, 0 failed"),
        (CROWDED, 1, 1, "1 passed, 2 failed"),
        (BROKEN, 5, 1, "1 passed, 1 failed"),
    ],
)
def test_what_fails_among_others_is_tried_once_more_alone(tmp_path, monkeypatch, capfd, code, most, status, last):
    spec = importlib.util.spec_from_file_location("run_tests", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = ros\n")
    (tmp_path / "test_one.py").write_text(code)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "RUNS", (("ROS 2 graph", "ros", ("-n2",), most),))
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    assert module.main([]) == status
    output = capfd.readouterr().out
    assert output.splitlines()[-1].startswith(f"keygrasp: {last}")
    assert output.count("failed among others and passed alone") == (2 if status == 0 else 0)
