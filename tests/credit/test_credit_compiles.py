"""The real compiler takes the kernels, down to machine code: a GPU is needed to run them only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
SCRIPT = Path(__file__).parents[1] / "support" / "compile_kernels.py"


def lines(tmp_path, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("shape", "functions"),
    [
        ("128x4096", ("gae", "retrace_actions")),  # tiles of many rows; vectors along time; actions read four at once
        ("16384x64", ("vtrace", "traces")),  # the sequence split in two passes, backward and forward
    ],
)
def test_kernels_compile_for_an_h200(tmp_path, shape, functions):
    found = lines(tmp_path, shape, "--masked", "0", "--functions", *functions)
    assert len(found) == 2 * len(functions)
    assert all("[" in line and "[]" not in line for line in found)


def test_a_launch_that_looks_back_compiles_too(tmp_path):
    functions = ("vtrace", "retrace_actions")
    found = lines(tmp_path, "--chained", "16384x64", "--masked", "0", "--functions", *functions)
    assert len(found) == 2 * len(functions)


def test_a_mask_compiles_too(tmp_path):
    assert len(lines(tmp_path, "32x64", "--masked", "1", "--functions", "td_lambda")) == 2
