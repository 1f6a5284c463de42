"""The house: rooms import only rooms above them, the library never imports ROS, and importing it is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import keygrasp

SOURCE = Path(keygrasp.__file__).parent
#: From the top floor down: a room may import what stands before it.
FLOORS = (
    "errors", "extras", "files", "tensorfiles", "provenance", "configuration",
    "geometry", "credit", "scene", "objects", "perception", "grasps", "shaping", "curriculum", "robots", "sim",
    "protocol", "trials", "experience", "refine", "worldmodel", "skills", "cli",
)  # fmt: skip
ROS = {"rclpy", "launch", "launch_ros", "sensor_msgs", "geometry_msgs", "keygrasp_ros", "keygrasp_interfaces"}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


def floor_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_room_has_its_floor():
    assert {floor_of(path) for path in MODULES} <= set(FLOORS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_upwards_only_and_never_to_ros(path):
    own = FLOORS.index(floor_of(path))
    for name in imported(path):
        assert name.split(".")[0] not in ROS, f"{path.name} imports {name}"
        parts = name.split(".")
        if parts[0] == "keygrasp" and len(parts) > 1 and parts[1] in FLOORS:
            assert FLOORS.index(parts[1]) <= own, f"{floor_of(path)} must not import {parts[1]}"


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, keygrasp, keygrasp.errors; print(sorted({'torch','numpy','pybullet','cv2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_modules_stay_small():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {str(p): n for p, n in lengths.items() if n > 450} == {}
