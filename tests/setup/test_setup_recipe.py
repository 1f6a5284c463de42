"""The set-up's decisions: when the venv and the workspace are made anew, and how the ROS wheels are repaired."""

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import environment
import numpy as np
import pytest
import ros_workspace
import steps


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout in which installing packages takes no time and no network."""
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname="a"\n[build-system]\nrequires=[]\n[tool.setuptools]\n[tool.ruff]\nline-length = 80\n'
    )
    (tmp_path / "constraints.txt").write_text("numpy==2.4.6\n")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environment.sys, "executable", str(Path(sys._base_executable).resolve()))
    monkeypatch.setattr(steps, "LOG", tmp_path / "setup.log")
    made = []
    monkeypatch.setattr(
        environment, "_create", lambda distribution: made.append("venv") or fake_venv(tmp_path, distribution)
    )
    monkeypatch.setattr(environment, "_install", lambda _: made.append("packages"))
    return tmp_path, made


def fake_venv(root, distribution):
    (root / ".venv/bin").mkdir(parents=True, exist_ok=True)
    (root / ".venv/bin/activate").write_text(f"VIRTUAL_ENV={root / '.venv'}")
    shared = "true" if distribution else "false"
    (root / ".venv/pyvenv.cfg").write_text(
        f"include-system-site-packages = {shared}\nexecutable = {environment.sys.executable}\n"
    )


def test_second_set_up_does_nothing(checkout):
    _, made = checkout
    environment.prepare(None)
    environment.prepare(None)
    assert made == ["venv", "packages"]


def test_changed_pins_install_again_into_the_same_venv(checkout):
    root, made = checkout
    environment.prepare(None)
    (root / "constraints.txt").write_text("numpy==2.4.5\n")
    environment.prepare(None)
    assert made == ["venv", "packages", "packages"]


def test_changed_linter_settings_install_nothing(checkout):
    root, made = checkout
    environment.prepare(None)
    project = root / "pyproject.toml"
    project.write_text(project.read_text().replace("80", "100"))
    environment.prepare(None)
    assert made == ["venv", "packages"]


def test_interrupted_installation_starts_from_an_empty_venv(checkout, monkeypatch):
    _, made = checkout

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(environment, "_install", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environment.prepare(None)
    environment.prepare(None)
    assert made == ["venv", "venv", "packages"]


def test_failed_installation_keeps_the_venv_and_tries_again(checkout, monkeypatch):
    _, made = checkout

    def fails(_):
        raise steps.SetupError("no network", "try again")

    with monkeypatch.context() as patch:
        patch.setattr(environment, "_install", fails)
        with pytest.raises(steps.SetupError):
            environment.prepare(None)
    environment.prepare(None)
    assert made == ["venv", "packages"]


def test_sourcing_a_distribution_makes_the_venv_anew(checkout):
    root, made = checkout
    environment.prepare(None)
    environment.prepare("jazzy")
    assert made == ["venv", "packages", "venv", "packages"]
    assert "true" in (root / ".venv/pyvenv.cfg").read_text()


def test_moved_checkout_makes_the_venv_anew(checkout):
    root, made = checkout
    environment.prepare(None)
    (root / ".venv/bin/activate").write_text("VIRTUAL_ENV=/elsewhere/.venv")
    (root / ".venv" / environment.STAMP).write_text("made elsewhere")
    environment.prepare(None)
    assert made == ["venv", "packages", "venv", "packages"]


@pytest.fixture
def wheels(tmp_path):
    """A venv with one CMake file as the ROS wheels ship it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin/python").chmod(0o755)
    file = tmp_path / "share/std_msgs/cmake/export.cmake"
    file.parent.mkdir(parents=True)
    return tmp_path, file


def test_wheels_point_to_this_python_afterwards(wheels):
    venv, file = wheels
    python = "/opt/python/cp311-cp311/include/python3.11"
    numpy = "/opt/python/cp311-cp311/lib/python3.11/site-packages/numpy/_core/include"
    file.write_text(f'INCLUDE "${{_PREFIX}}/include;{python};{numpy}"\n')
    assert ros_workspace.repair_wheels(venv) == 1
    headers = sysconfig.get_path("include")
    assert file.read_text() == f'INCLUDE "${{_PREFIX}}/include;{headers};{np.get_include()}"\n'
    assert ros_workspace.repair_wheels(venv) == 0


def test_unknown_path_in_the_wheels_is_refused(wheels):
    venv, file = wheels
    file.write_text('"/opt/python/cp311-cp311/lib/libpython.so"')
    with pytest.raises(steps.SetupError, match="libpython"):
        ros_workspace.repair_wheels(venv)


@pytest.fixture
def workspace(tmp_path):
    package = tmp_path / "ros2_ws/src/package"
    (package / "msg").mkdir(parents=True)
    (package / "msg/A.msg").write_text("float64 a")
    (package / "node.py").write_text("pass")
    return tmp_path / "ros2_ws"


def test_workspace_digest_follows_what_a_build_depends_on(workspace):
    before = ros_workspace.sources_digest(workspace, "wheels")
    (workspace / "src/package/node.py").write_text("print()")
    (workspace / "src/package/__pycache__").mkdir()
    (workspace / "src/package/__pycache__/node.pyc").write_text("")
    assert ros_workspace.sources_digest(workspace, "wheels") == before
    assert ros_workspace.sources_digest(workspace, "jazzy") != before
    (workspace / "src/package/other.py").touch()
    added = ros_workspace.sources_digest(workspace, "wheels")
    assert added != before
    (workspace / "src/package/msg/A.msg").write_text("float32 a")
    assert ros_workspace.sources_digest(workspace, "wheels") != added


def test_build_with_wheels_sees_no_other_ros(tmp_path, monkeypatch):
    monkeypatch.setenv("AMENT_PREFIX_PATH", "/opt/ros/humble")
    monkeypatch.setenv("PYTHONPATH", "/opt/ros/humble/lib/python3.10/site-packages")
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    wheels = ros_workspace.build_environment(tmp_path, None)
    assert wheels["AMENT_PREFIX_PATH"] == str(tmp_path)
    assert "PYTHONPATH" not in wheels
    assert wheels["ROS_DOMAIN_ID"] == "7"
    assert ros_workspace.build_environment(tmp_path, "humble")["AMENT_PREFIX_PATH"] == "/opt/ros/humble"


def test_build_uses_each_core_whatever_the_load(tmp_path, monkeypatch):
    monkeypatch.setenv("MAKEFLAGS", "--no-print-directory -l1")
    cores = len(os.sched_getaffinity(0))
    assert ros_workspace.build_environment(tmp_path, None)["MAKEFLAGS"] == f"-j{cores}"


def test_failing_command_shows_its_last_lines_and_a_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(steps, "LOG", tmp_path / "setup.log")
    steps.start_log()
    code = "import sys; print(*range(100), sep=chr(10)); sys.exit(3)"
    with pytest.raises(steps.SetupError, match="exit status 3") as failure:
        steps.run([sys.executable, "-c", code], "do this")
    shown = capsys.readouterr().err.split()
    assert shown[-1] == "99"
    assert len(shown) == steps.SHOWN_LINES
    assert failure.value.remedy == "do this"


def test_stopped_set_up_stops_what_it_started(tmp_path):
    script = (
        "import sys, steps; from pathlib import Path; steps.LOG = Path('log'); steps.start_log();"
        "steps.run([sys.executable, '-c', 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'], '')"
    )
    scripts = Path(steps.__file__).parent
    parent = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(scripts)}
    )
    log = tmp_path / "log"
    deadline = time.monotonic() + 20
    while not (log.exists() and log.read_text().splitlines()[1:]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int(log.read_text().splitlines()[1])
    parent.send_signal(signal.SIGINT)
    parent.wait(timeout=20)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
