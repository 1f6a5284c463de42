"""Optional packages: imported where they are needed, without what they say of themselves."""

import os
import subprocess
import sys

import pytest

REQUIRE = "from keygrasp.extras import require; require('pybullet', 'grasp'); import os; os.write(2, b'after')"


def _stderr_of(folder=None):
    environment = os.environ if folder is None else {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", REQUIRE]
    return subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=60).stderr


def test_the_physics_engine_does_not_tell_when_it_was_built():
    pytest.importorskip("pybullet")
    assert _stderr_of() == "after"


def test_what_else_is_said_meanwhile_is_kept(tmp_path):
    lines = "pybullet build time: now\\n", "a real warning\\n", "another"
    (tmp_path / "pybullet.py").write_text("import os\n" + "".join(f'os.write(2, b"{line}")\n' for line in lines))
    assert _stderr_of(tmp_path) == "a real warning\nanotherafter"


def test_a_failure_to_import_is_told_as_it_is(tmp_path):
    (tmp_path / "pybullet.py").write_text("raise ImportError('broken build')")
    assert "broken build" in _stderr_of(tmp_path)
