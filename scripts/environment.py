"""The venv of this checkout: made once, filled with the pinned packages, made again after an interruption."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from ros_workspace import repair_wheels
from steps import ROOT, SetupError, Step, run, say, start_log, without_ros

VENV = ROOT / ".venv"
#: KEYGRASP_EXTRAS=grasp,viz chooses others; the tests and checks need `dev`.
EXTRAS = tuple(os.environ.get("KEYGRASP_EXTRAS", "grasp,dexnet,hardware,llm,viz,record,dev").split(","))
#: Must be there before the others: what builds packages from source, and the headers that PyBullet takes NumPy from.
FIRST = ("pip", "setuptools", "wheel", "numpy")
#: For the kernels' tests where torch is a CPU build; GPU builds of torch bring their own.
TRITON_FOR_CPU = "triton==3.7.0"
STAMP = "keygrasp-installed"
UNFINISHED = "keygrasp-unfinished"
NETWORK_REMEDY = "Look at the lines above; with no network, packages can't be installed. Then run `make setup` again."


def fingerprint(distribution: str | None) -> str:
    """Digest of everything that decides what the venv holds.

    Args:
        distribution: Name of the sourced ROS 2 distribution, or None for the wheels.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    decisive = {
        "project": project["project"],
        "build": project["build-system"],
        "setuptools": project["tool"]["setuptools"],
        "constraints": (ROOT / "constraints.txt").read_text(encoding="utf-8"),
        "recipe": Path(__file__).read_text(encoding="utf-8"),
        "python": [sys.executable, sys.version],
        "folder": str(ROOT),
        "ros": distribution,
        "extras": EXTRAS,
    }
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def prepare(distribution: str | None) -> None:
    """Make the venv and install the packages, unless that is done already.

    Args:
        distribution: Name of the sourced ROS 2 distribution, whose packages the venv then sees; None for the wheels.

    Raises:
        SetupError: If a package can't be installed.
    """
    stamp = VENV / STAMP
    wanted = fingerprint(distribution)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    start_log()
    stamp.unlink(missing_ok=True)
    if not _reusable(distribution):
        _create(distribution)
    # What is killed half-way leaves the mark. A failed pip leaves a venv that works as before, so the mark goes then.
    unfinished = VENV / UNFINISHED
    unfinished.touch()
    try:
        _install(distribution)
    except SetupError:
        unfinished.unlink()
        raise
    unfinished.unlink()
    stamp.write_text(wanted)


def _reusable(distribution: str | None) -> bool:
    """Whether the venv is whole, was made here by this Python and sees the system's packages as it must."""
    try:
        lines = (VENV / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return False
    settings = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    if (VENV / UNFINISHED).exists():
        say("[setup] the last set-up was interrupted: starting again")
        return False
    activate = VENV / "bin/activate"
    return (
        settings.get("executable") == str(Path(sys.executable).resolve())
        and settings.get("include-system-site-packages") == ("true" if distribution else "false")
        and activate.exists()
        and str(VENV) in activate.read_text(encoding="utf-8")
    )


def _create(distribution: str | None) -> None:
    """Make an empty venv, in place of any that was there."""
    if VENV.is_symlink() or VENV.is_file():
        VENV.unlink()
    elif VENV.exists():
        shutil.rmtree(VENV)
    VENV.mkdir()
    (VENV / UNFINISHED).touch()
    shared = ["--system-site-packages"] if distribution else []
    with Step(f"creating .venv with Python {sys.version_info.major}.{sys.version_info.minor}"):
        run([sys.executable, "-m", "venv", *shared, VENV], "Run `make clean`, then `make setup`.")


def _install(distribution: str | None) -> None:
    """Install everything that is pinned into the venv, and repair the ROS wheels."""
    environment = dict(os.environ) if distribution else without_ros(os.environ)
    environment["_ROS_WHEELS_BOOTSTRAP_COMPLETE"] = "1"
    python = VENV / "bin/python"
    # Compiling every module at once takes longer than all the rest; Python does it for those that are imported.
    pip: list[str | Path] = [python, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"]
    pip += ["--constraint", ROOT / "constraints.txt"]
    with Step("installing the build tools"):
        run([*pip, *FIRST], NETWORK_REMEDY, environment)
    if sys.version_info[:2] == (3, 12):
        say("[setup] PyBullet has no wheel for Python 3.12: pip builds it from source, which takes several minutes")
    extras = ",".join(EXTRAS if distribution else (*EXTRAS, "ros"))
    with Step("installing the packages (the first time that is some gigabytes)"):
        run([*pip, "--no-build-isolation", "--editable", f"{ROOT}[{extras}]"], NETWORK_REMEDY, environment)
    if "dev" in EXTRAS:
        _complete_torch(pip, environment)
    if not distribution:
        with Step("pointing the ROS 2 wheels to this Python"):
            repair_wheels(VENV)


def _complete_torch(pip: list[str | Path], environment: dict[str, str]) -> None:
    """Add Triton where torch doesn't bring it: the kernels' tests run on its interpreter."""
    question = "import importlib.util; print(importlib.util.find_spec('triton') is None)"
    command = [VENV / "bin/python", "-c", question]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    if answer.stdout.strip() == "True":
        with Step("installing Triton for its interpreter (torch is a CPU build here)"):
            run([*pip, TRITON_FOR_CPU], NETWORK_REMEDY, environment)
