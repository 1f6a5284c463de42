"""The library as a wheel: complete, and usable without ROS, a checkout or the extras."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import keygrasp

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = ("pyproject.toml", "README.md", "LICENSE", "src", "dexnet_data", "models", "firmware")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, built in a copy so that nothing is left in the tree."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in PACKAGED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, copy / name, symlinks=True, ignore=ignored)
        elif source.exists():
            shutil.copy(source, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", copy / "out", copy], check=True, timeout=120)
    (built,) = (copy / "out").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A venv with the wheel alone; ``site`` below lends it this venv's dependencies."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        venv / "bin/python",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, wheel], check=True, timeout=60)
    return venv


def python(venv, code, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "AMENT_PREFIX_PATH")}
    command = [venv / "bin/python", "-c", code]
    return subprocess.run(
        command, cwd=venv, env=clean | environment, capture_output=True, text=True, check=False, timeout=60
    )


def files_of(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_wheel_holds_manifests_weights_templates_and_the_licence(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"keygrasp/objects/manifests/{name}" for name in files_of(ROOT / "dexnet_data")}
    expected |= {f"keygrasp/models/{name}" for name in files_of(ROOT / "models")}
    expected |= {f"keygrasp/trials/templates/{name}" for name in files_of(ROOT / "src/keygrasp/trials/templates")}
    expected |= {"keygrasp/py.typed", f"keygrasp-{keygrasp.__version__}.dist-info/licenses/LICENSE"}
    assert {name for name in expected if name.endswith((".json", ".j2", "LICENSE"))}
    assert expected <= names


@pytest.mark.slow
def test_wheel_holds_every_module(wheel):
    modules = {f"keygrasp/{name}" for name in files_of(ROOT / "src/keygrasp") if name.endswith(".py")}
    assert modules <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_missing_extra_names_the_command(installed):
    result = python(installed, "from keygrasp.extras import require; require('pybullet', 'grasp')")
    assert result.returncode == 1
    assert "MissingExtraError" in result.stderr
    assert "pip install 'keygrasp[grasp]'" in result.stderr


@pytest.mark.slow
def test_command_says_its_version_without_ros(installed):
    lent = sysconfig.get_path("purelib")
    code = (
        f"import sys; sys.path.append({lent!r}); sys.modules['rclpy'] = None; sys.argv = ['keygrasp', '--version'];"
        "import keygrasp; from keygrasp.cli.main import main; print(keygrasp.__file__); sys.exit(main())"
    )
    result = python(installed, code, _ROS_WHEELS_BOOTSTRAP_COMPLETE="1")
    assert result.returncode == 0, result.stderr
    location, answer = result.stdout.splitlines()
    assert Path(location).is_relative_to(installed)
    assert keygrasp.__version__ in answer


@pytest.mark.slow
def test_wheel_holds_the_firmware_that_is_compiled_where_it_is_used(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    kinds = (".c", ".h", ".S", ".ld", ".mjs", ".json", "Makefile")
    sources = {f"keygrasp/skills/firmware/{name}" for name in files_of(ROOT / "firmware") if name.endswith(kinds)}
    assert "keygrasp/skills/firmware/core/agent.c" in sources
    assert sources <= names
