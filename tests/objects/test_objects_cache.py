"""The cache: hits, broken entries, parallel writers, folders that can't be written."""

import concurrent.futures
import multiprocessing

import numpy as np
import pytest

from keygrasp.objects import cache
from keygrasp.objects.cache import cache_directory, cached, content_key

REQUIRED = frozenset({"values"})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    return tmp_path / "cache"


def count_calls():
    calls = []

    def compute():
        calls.append(1)
        return {"values": np.arange(5.0)}

    return calls, compute


def write_once(number):
    entry = cached("objects", "shared", REQUIRED, lambda: {"values": np.full(200_000, 7.0)})
    return number, float(entry["values"].sum())


def test_second_call_reads_what_the_first_stored(folder):
    calls, compute = count_calls()
    for _ in range(3):
        np.testing.assert_array_equal(cached("objects", "k", REQUIRED, compute)["values"], np.arange(5.0))
    assert len(calls) == 1
    assert [path.name for path in (folder / "objects").iterdir()] == ["k.npz"]


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "flipped", "incomplete", "pickled"])
def test_a_broken_entry_is_computed_again(folder, damage):
    calls, compute = count_calls()
    cached("objects", "k", REQUIRED, compute)
    path = folder / "objects" / "k.npz"
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "garbage":
        path.write_bytes(b"not a zip file at all")
    elif damage == "flipped":
        for k in range(50, 90):
            data[k] ^= 0xFF
        path.write_bytes(data)
    elif damage == "incomplete":
        np.savez(path, other=np.zeros(1))
    else:
        np.savez(path, values=np.array([{"code": 1}], dtype=object))
    np.testing.assert_array_equal(cached("objects", "k", REQUIRED, compute)["values"], np.arange(5.0))
    assert len(calls) == 2
    cached("objects", "k", REQUIRED, compute)
    assert len(calls) == 2


def test_a_folder_that_cannot_be_written_costs_one_warning(tmp_path, monkeypatch, caplog):
    blocker = tmp_path / "file"
    blocker.write_text("a file where a folder should be")
    monkeypatch.setenv("KEYGRASP_CACHE", str(blocker))
    calls, compute = count_calls()
    for _ in range(3):
        assert len(cached("objects", "k", REQUIRED, compute)["values"]) == 5
    assert len(calls) == 3
    assert len([record for record in caplog.records if "without a cache" in record.getMessage()]) == 1


def test_a_full_disk_leaves_no_half_entry(folder, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    calls, compute = count_calls()
    assert len(cached("objects", "k", REQUIRED, compute)["values"]) == 5
    assert list((folder / "objects").iterdir()) == []


def test_errors_of_the_computation_are_passed_on_and_not_stored(folder):
    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cached("objects", "k", REQUIRED, fail)
    assert not (folder / "objects" / "k.npz").exists()


@pytest.mark.slow
def test_parallel_processes_share_an_entry(folder):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        results = list(pool.map(write_once, range(6)))
    assert results == [(k, 1_400_000.0) for k in range(6)]
    assert [path.name for path in (folder / "objects").iterdir()] == ["shared.npz"]


def test_keys_depend_on_every_part_and_its_borders():
    keys = {
        content_key("a", "b"),
        content_key("ab", ""),
        content_key("a", b"b"),
        content_key("a", 1.0),
        content_key("a", np.array([1.0])),
        content_key("a", np.array([1], dtype=np.int64)),
        content_key("a", np.zeros((2, 3))),
        content_key("a", np.zeros((3, 2))),
    }
    assert len(keys) == 8
    assert content_key("a", np.zeros(2)) == content_key("a", np.zeros(2))


def test_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("KEYGRASP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "keygrasp"
