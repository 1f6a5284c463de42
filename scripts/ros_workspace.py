"""ROS 2 for this checkout: the wheels made usable, and ros2_ws built with colcon."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

from steps import ROOT, SetupError, Step, run, without_ros

WORKSPACE = ROOT / "ros2_ws"
#: Runs colcon on the venv's Python; `-m colcon` isn't in the versions that distributions have.
COLCON = "import sys; from colcon_core.command import main; sys.exit(main())"
#: Interface packages of the workspace that exist only because the wheels lack them.
STAND_INS = ("tf2_msgs", "control_msgs")
#: Files whose contents go into the build; all others are linked, so that only their names matter.
BUILD_FILES = {".msg", ".srv", ".action", ".idl", ".xml", ".cfg", ".toml", ".cmake", ".txt"}
BUILD_NAMES = {"setup.py"}
IGNORED = {"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache"}
#: The wheels were built in a container whose paths are still in their CMake files.
BUILDER_PATH = re.compile(r"/opt/python/cp3\d+-cp3\d+/[^\s;\"')]*")


def repair_wheels(venv: Path) -> int:
    """Point the wheels' CMake files to this machine's Python and NumPy headers.

    Args:
        venv: The venv that the wheels are installed in.

    Returns:
        Number of files changed; 0 when they were repaired before.

    Raises:
        SetupError: If a file names a path of the building machine that is neither of the two.
    """
    question = "import sysconfig, numpy; print(sysconfig.get_path('include')); print(numpy.get_include())"
    answer = subprocess.run([venv / "bin/python", "-c", question], capture_output=True, text=True, check=True)
    python_headers, numpy_headers = answer.stdout.splitlines()

    def replace(match: re.Match[str]) -> str:
        path = match.group()
        if path.endswith("/numpy/_core/include") or path.endswith("/numpy/core/include"):
            return numpy_headers
        if re.search(r"/include/python3\.\d+$", path):
            return python_headers
        raise SetupError(
            f"a CMake file of the ROS 2 wheels names {path}, which this set-up doesn't know",
            "Use the versions in constraints.txt, or source a ROS 2 distribution before `make setup`.",
        )

    changed = 0
    for file in sorted((venv / "share").rglob("*.cmake")):
        text = file.read_text(encoding="utf-8")
        repaired = BUILDER_PATH.sub(replace, text)
        if repaired != text:
            # pip may have linked the file to its cache: write a new one, don't change the shared one.
            fresh = file.with_suffix(".repaired")
            fresh.write_text(repaired, encoding="utf-8")
            fresh.replace(file)
            changed += 1
    return changed


def sources_digest(workspace: Path, extra: str) -> str:
    """Digest of everything that decides what a build of the workspace gives.

    Args:
        workspace: Folder with ``src``.
        extra: Whatever else decides (Python, the origin of ROS 2).
    """
    digest = hashlib.sha256(extra.encode())
    roots = [workspace / "src", workspace.parent / "launch"]
    for file in sorted(file for root in roots for file in root.rglob("*") if file.is_file()):
        if IGNORED.intersection(file.parts) or file.suffix == ".pyc" or ".egg-info" in str(file):
            continue
        digest.update(f"{file.relative_to(workspace.parent)}\0".encode())
        if file.suffix in BUILD_FILES or file.name in BUILD_NAMES:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def build_environment(venv: Path, distribution: str | None) -> dict[str, str]:
    """Environment for colcon: the venv first on PATH, one ROS 2 only, and a compiler on each core."""
    environment = dict(os.environ) if distribution else without_ros(os.environ)
    # colcon's own choice adds a limit on the load, which leaves a busy machine with one compiler at a time.
    environment["MAKEFLAGS"] = f"-j{len(os.sched_getaffinity(0))}"
    environment["VIRTUAL_ENV"] = str(venv)
    environment["PATH"] = f"{venv / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    if not distribution:
        libraries = [venv / "lib", *sorted(venv.glob("lib/python3.*/site-packages/ros_*.libs"))]
        environment["AMENT_PREFIX_PATH"] = environment["CMAKE_PREFIX_PATH"] = str(venv)
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(map(str, libraries))
        environment["_ROS_WHEELS_BOOTSTRAP_COMPLETE"] = "1"
    return environment


def build(venv: Path, distribution: str | None, workspace: Path = WORKSPACE) -> bool:
    """Build the workspace, unless nothing that the build depends on has changed.

    Args:
        venv: The project's venv.
        distribution: Name of the sourced distribution, or None for the wheels.
        workspace: Folder with ``src``; gets ``build``, ``install`` and ``log``.

    Returns:
        Whether a build was run.

    Raises:
        SetupError: If the build fails.
    """
    if not any((workspace / "src").glob("*/package.xml")):
        return False
    stamp = workspace / "install" / ".keygrasp-built"
    digest = sources_digest(workspace, f"{venv} {(venv / 'pyvenv.cfg').read_text()} {distribution}")
    if stamp.exists() and stamp.read_text() == digest:
        return False
    stamp.unlink(missing_ok=True)
    python = venv / "bin/python"
    command: list[str | Path] = [python, "-c", COLCON, "--log-base", workspace / "log", "build", "--symlink-install"]
    for option, folder in (("base-paths", "src"), ("build-base", "build"), ("install-base", "install")):
        command += [f"--{option}", workspace / folder]
    if distribution:
        command += ["--packages-skip", *STAND_INS]
    command += ["--event-handlers", "console_direct+"]
    command += ["--cmake-args", "-DBUILD_TESTING=OFF", f"-DPython3_EXECUTABLE={python}"]
    with Step("building the ROS 2 workspace"):
        remedy = "If a package was renamed or removed, `make clean` and then `make setup` build from nothing."
        run(command, remedy, build_environment(venv, distribution))
    stamp.write_text(digest)
    return True
