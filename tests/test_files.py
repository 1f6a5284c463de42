"""Files are written whole or not at all, and errors name the path."""

import json
import math
from pathlib import Path

import pytest

from keygrasp.errors import InputError, StorageError
from keygrasp.files import atomic_path, ensure_writable, folders_undone, read_json, sole_writer, write_json, write_text


def _write_half_and_fail(path):
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError


def _write_to_a_full_disk(path):
    with atomic_path(path), Path("/dev/full").open("w") as full:
        full.write("x" * 10_000)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError):
        _write_half_and_fail(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_a_storage_error_that_names_the_file(tmp_path):
    with pytest.raises(StorageError, match=r"a\.txt"):
        _write_to_a_full_disk(tmp_path / "a.txt")
    assert list(tmp_path.iterdir()) == []


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"value": math.nan})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b""])
def test_what_is_no_json_is_refused(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match="not valid JSON"):
        read_json(tmp_path / "a.json")


def test_a_huge_file_is_refused_unread(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps("x" * 1000))
    with pytest.raises(InputError, match="larger"):
        read_json(tmp_path / "a.json", max_bytes=100)


def test_ensure_writable_makes_the_folder_and_nothing_else(tmp_path):
    ensure_writable(tmp_path / "new" / "a.json")
    assert list((tmp_path / "new").iterdir()) == []


def test_ensure_writable_refuses_a_folder_and_a_place_below_a_file(tmp_path):
    with pytest.raises(StorageError, match="folder"):
        ensure_writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        ensure_writable(tmp_path / "file" / "a.json")


def test_a_folder_has_one_writer_at_a_time(tmp_path):
    first, second = sole_writer(tmp_path / "new"), sole_writer(tmp_path / "new")
    with first, pytest.raises(InputError, match="another run is writing"), second:
        pass
    with sole_writer(tmp_path / "new"):
        assert list((tmp_path / "new").iterdir()) == []


def _undone(target):
    with folders_undone(target):
        ensure_writable(target)
        read_json(target)


def test_folders_made_for_a_target_are_removed_where_the_work_fails(tmp_path):
    (tmp_path / "kept").mkdir()
    for name in ("kept", "new"):
        target = tmp_path / name / "deep" / "a.json"
        with pytest.raises(InputError):
            _undone(target)
    assert [path.name for path in tmp_path.rglob("*")] == ["kept"]
    with folders_undone(tmp_path / "new" / "a.png"):
        ensure_writable(tmp_path / "new" / "a.png")
    assert (tmp_path / "new").is_dir()
