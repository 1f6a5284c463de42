"""Labels on disk: round trip, and damage that is named."""

import dataclasses

import numpy as np
import pytest

from keygrasp.errors import InputError
from keygrasp.experience.labels import LabelFolder, SceneLabels, read_shard, write_index, write_shard
from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.scene import GripperSpec, OverheadView

INTRINSICS = Intrinsics(16, 12, 32.0, 32.0, 7.5, 5.5)


def scene(name, seed, count):
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.5, 0.7, (12, 16)).astype(np.float32)
    depth[0, 0] = np.nan
    grasps = rng.normal(size=(count, 5)).astype(np.float32)
    outcome = rng.integers(0, 5, count).astype(np.uint8)
    return SceneLabels(name, seed, np.eye(4), depth, grasps, outcome, np.zeros(count, np.uint8))


def test_round_trip_keeps_everything_to_a_tenth_of_a_millimetre(tmp_path):
    scenes = [scene("a", 1, 3), scene("b/ä", 2, 0), scene("c", 3, 5)]
    write_shard(tmp_path / "shard-00000.npz", scenes)
    for before, after in zip(scenes, read_shard(tmp_path / "shard-00000.npz"), strict=True):
        assert (before.object_name, before.seed) == (after.object_name, after.seed)
        assert np.array_equal(np.isnan(before.depth), np.isnan(after.depth))
        assert np.nanmax(np.abs(before.depth - after.depth)) <= 0.5e-4 + 1e-7
        assert np.array_equal(before.grasps, after.grasps)
        assert np.array_equal(before.success, after.success)
        assert np.array_equal(before.pose, after.pose)


def test_a_shard_whose_scenes_could_not_be_made_is_empty(tmp_path):
    write_shard(tmp_path / "shard-00000.npz", [])
    assert read_shard(tmp_path / "shard-00000.npz") == []


def test_force_and_way_are_kept_and_unknown_in_older_shards(tmp_path):
    path = tmp_path / "shard-00000.npz"
    plain = scene("a", 1, 3)
    force, moved = np.array([0, 2, 61], np.float32), np.array([0, 0.1, 0], np.float32)
    write_shard(path, [dataclasses.replace(plain, force=force, moved=moved)])
    (after,) = read_shard(path)
    assert np.array_equal(after.force, force)
    assert np.array_equal(after.moved, moved)
    arrays = {name: array for name, array in np.load(path).items() if name not in ("force", "moved")}
    np.savez(path, **arrays)
    (older,) = read_shard(path)
    assert np.all(np.isnan(older.force))
    assert older.moved.shape == (3,)
    np.savez(path, **arrays, force=np.zeros(2, np.float32))
    with pytest.raises(InputError, match="don't fit"):
        read_shard(path)


def test_success_means_the_first_outcome():
    labels = scene("a", 1, 50)
    assert np.array_equal(labels.success, labels.outcome == 0)


def test_a_folder_gives_views_with_the_camera_of_its_index(tmp_path):
    view = OverheadView(scene("a", 1, 1).depth, INTRINSICS, overhead_pose(0.7))
    write_index(tmp_path, view, GripperSpec(max_opening=0.05), {"seed": 0})
    write_shard(tmp_path / "shard-00000.npz", [scene("a", 1, 2)])
    folder = LabelFolder.open(tmp_path)
    labels = next(folder.scenes())
    assert folder.gripper.max_opening == 0.05
    assert folder.view(labels).intrinsics == INTRINSICS


def test_torn_shard(tmp_path):
    path = tmp_path / "shard-00000.npz"
    write_shard(path, [scene("a", 1, 30)])
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="shard-00000"):
        read_shard(path)


def test_shard_with_python_objects_is_refused(tmp_path):
    path = tmp_path / "shard-00000.npz"
    names = ("depth", "object", "seed", "first", "grasps", "outcome", "proposal")
    np.savez(path, **{name: np.array([{}], dtype=object) for name in names})
    with pytest.raises(InputError, match="can't read the shard"):
        read_shard(path)


def test_offsets_that_point_nowhere_are_refused(tmp_path):
    path = tmp_path / "shard-00000.npz"
    write_shard(path, [scene("a", 1, 3)])
    arrays = dict(np.load(path))
    arrays["first"] = np.array([0, 99])
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="don't fit"):
        read_shard(path)


@pytest.mark.parametrize("text", ["{}", '{"format": "other"}', "[1]", "{"])
def test_an_index_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(InputError):
        LabelFolder.open(tmp_path)
