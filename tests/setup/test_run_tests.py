"""scripts/run_tests.py: what counts as passed, and that a foreign pytest plugin doesn't stop it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/run_tests.py"


@pytest.fixture
def run(tmp_path):
    def run_tests(code, **environment):
        (tmp_path / "test_one.py").write_text(code)
        command = [sys.executable, SCRIPT, tmp_path / "test_one.py", "-n0", "-p", "no:cacheprovider"]
        environment = os.environ | {"PYTEST_ADDOPTS": ""} | environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    return run_tests


def test_library_and_graph_are_summed_up(run):
    result = run(
        "import pytest\n"
        "def test_a(): pass\n"
        "@pytest.mark.ros\n"
        "def test_b(): pass\n"
        "def test_c(): pytest.skip('no reason')\n"
    )
    assert result.returncode == 0, result.stdout
    assert result.stdout.splitlines()[-1] == "keygrasp: 2 passed, 0 failed, 1 skipped"


def test_failure_in_the_first_run_decides_the_status(run):
    result = run("import pytest\ndef test_a(): raise ValueError\n@pytest.mark.ros\ndef test_b(): pass\n")
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "keygrasp: 1 passed, 1 failed, 0 skipped"


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
