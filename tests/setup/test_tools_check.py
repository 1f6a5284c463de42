"""scripts/check_tools.sh: which Python is taken, and what is said where tools are missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/check_tools.sh"
BASE_PYTHON = Path(sys._base_executable).resolve()


@pytest.fixture
def tools(tmp_path):
    """A folder that is the whole PATH: coreutils, the tools that are looked for, and this Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "dirname", "sed", "tr", "id", "uname"):
        (folder / name).symlink_to(shutil.which(name))
    for name in ("git", "make", "cc", "c++"):
        write_script(folder / name, "exit 0")
    write_script(folder / "python3", f'exec "{BASE_PYTHON}" "$@"')
    return folder


def write_script(path, body):
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def check(tools, **environment):
    # A copy: the checkout's own .venv would otherwise name its Python first.
    script = tools.parent / "scripts" / SCRIPT.name
    script.parent.mkdir(exist_ok=True)
    shutil.copy(SCRIPT, script)
    return subprocess.run(
        [shutil.which("sh"), script],
        env={"PATH": str(tools)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_complete_machine_gives_the_interpreter_itself(tools):
    result = check(tools)
    assert (result.returncode, result.stderr) == (0, "")
    assert Path(result.stdout.strip()) == BASE_PYTHON


def test_unusable_shim_is_skipped(tools):
    write_script(tools / "python3.12", "echo 'command not found' >&2; exit 127")
    write_script(tools / "python3.11", "exit 127")
    assert Path(check(tools).stdout.strip()) == BASE_PYTHON


def test_all_missing_tools_are_in_one_line_with_their_command(tools):
    for name in ("git", "c++"):
        (tools / name).unlink()
    result = check(tools)
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("keygrasp: missing: git, a C++ compiler. Install with: ")
    assert line.endswith("apt-get install -y git g++")


def test_chosen_python_that_cannot_be_used_is_an_error_not_replaced(tools):
    result = check(tools, KEYGRASP_PYTHON="/nowhere/python")
    assert result.returncode == 1
    assert "Python 3.11 or 3.12 (KEYGRASP_PYTHON=/nowhere/python is neither)" in result.stderr


def test_missing_headers_and_venv_name_their_packages(tools):
    # Stands for a Debian Python without its -dev and -venv packages: right version, neither of the two.
    bare = tools / "bare"
    asked = "case $2 in *ensurepip*) echo version ;; *) echo 3.11 ;; esac"
    write_script(bare, f'if [ "$1" = -S ]; then echo "{bare}"; else {asked}; fi')
    result = check(tools, KEYGRASP_PYTHON=str(bare))
    assert "the headers of Python 3.11, the venv module of Python 3.11" in result.stderr
    assert "python3.11-dev python3.11-venv" in result.stderr


def test_python_of_an_activated_venv_gives_the_one_behind_it(tools, tmp_path):
    subprocess.run([BASE_PYTHON, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    result = check(tools, KEYGRASP_PYTHON=str(tmp_path / "venv/bin/python"))
    assert Path(result.stdout.strip()) == BASE_PYTHON


def test_sourced_distribution_for_another_python_falls_back_to_any(tools):
    result = check(tools, ROS_DISTRO="humble")
    assert result.returncode == 0
    assert os.access(result.stdout.strip(), os.X_OK)
