"""Files that describe robots: kept in the cache, mended there, and made elsewhere where there can be no cache."""

import logging

import pytest

from keygrasp.errors import StorageError
from keygrasp.scene import GripperSpec
from keygrasp.sim import UR5, FreeGripper, World, robot_files
from keygrasp.sim.robot_files import robot_file


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path / "cache"))
    robot_files._temporary.cache_clear()
    yield tmp_path / "cache"
    robot_files._temporary.cache_clear()


def test_a_file_is_kept_and_written_anew_where_it_is_damaged(cache):
    path = robot_file("robot.urdf", b"<robot/>")
    assert path.parent == cache / "robots"
    assert path.suffix == ".urdf"
    path.write_text("<rob")
    assert robot_file("robot.urdf", b"<robot/>") == path
    assert path.read_bytes() == b"<robot/>"
    assert robot_file("robot.urdf", b"<other/>") != path


@pytest.mark.parametrize("robot", [UR5, FreeGripper])
def test_robots_work_without_a_cache_and_one_warning_says_so(cache, robot, caplog):
    cache.touch()  # a file where the folder should be: even root can't write there
    with caplog.at_level(logging.WARNING), World() as world:
        assert robot(world, GripperSpec()).body >= 0
    assert [record.message for record in caplog.records if "KEYGRASP_CACHE" in record.message] == [caplog.messages[0]]
    assert str(cache) in caplog.messages[0]


def test_no_place_at_all_is_said(cache, monkeypatch):
    cache.touch()
    monkeypatch.setattr("tempfile.tempdir", str(cache))
    with pytest.raises(StorageError, match=r"temporary folder.*KEYGRASP_CACHE"):
        robot_file("robot.urdf", b"<robot/>")
