"""A small Dex-Net database, written here as Python 2 wrote it, and every way in which one can be broken."""

import contextlib

import numpy as np
import pytest

from keygrasp.errors import DatabaseError, MeshError
from keygrasp.geometry.meshes import convex_hull
from keygrasp.objects import Catalog, dexnet
from keygrasp.objects.dexnet import DexNetDatabase

h5py = pytest.importorskip("h5py")
CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
CONFIGURATION = [0.01, 0.02, 0.03, 0.0, 1.0, 0.0, 0.05, 0.3, 0.001, 0.002]


def write_object(objects, key, size, *, text):
    """One object with two stable poses and three grasps; ``text`` makes a string of Python 2 or 3."""
    item = objects.create_group(key)
    item.attrs["mass"] = 1.5
    item.attrs["category"] = text("clamp")
    vertices, faces = convex_hull(CORNERS * size)
    mesh = item.create_group("mesh")
    mesh["vertices"], mesh["triangles"] = vertices.astype(np.float32), faces.astype(np.int32)
    poses = item.create_group("stable_poses")
    poses.attrs["num_stable_poses"] = 2
    for number, probability in enumerate((0.2, 0.7)):
        pose = poses.create_group(f"pose_{number}")
        pose.attrs["p"], pose.attrs["r"] = probability, np.eye(3)
        if number:
            pose.attrs["x0"] = np.array([0.1, 0.2, 0.3])
    grasps = item.create_group("grasps/yumi_metal_spline")
    grasps.attrs["num_grasps"] = 3
    for number in (2, 0, 1):
        grasp = grasps.create_group(f"grasp_{number}")
        grasp.attrs["id"], grasp.attrs["type"] = number, text("ParallelJawPtGrasp3D")
        grasp.attrs["configuration"] = np.array(CONFIGURATION[: 9 if number == 1 else 10])
        grasp.attrs["frame"] = text("object")
        grasp.create_group("metrics").attrs["robust_ferrari_canny"] = 0.004 * number


def write_database(path, *, text=np.bytes_, size=0.05):
    with h5py.File(path, "w") as file:
        file.attrs["time_created"] = 1.0
        objects = file.create_group("datasets/mini/objects")
        write_object(objects, "clamp", size, text=text)
    return path


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path / "cache"))
    return write_database(tmp_path / "mini.hdf5")


@pytest.mark.parametrize("text", [np.bytes_, str])
def test_everything_is_read_from_files_of_both_pythons(tmp_path, text):
    with DexNetDatabase(write_database(tmp_path / "d.hdf5", text=text)) as opened:
        assert (opened.datasets(), opened.objects("mini")) == (("mini",), ("clamp",))
        assert opened.grippers("mini", "clamp") == ("yumi_metal_spline",)
        item = opened.object("mini", "clamp")
        poses = opened.stable_poses("mini", "clamp")
        grasps = opened.grasps("mini", "clamp", "yumi_metal_spline")
    assert (item.key, item.category, item.mass, item.normals) == ("clamp", "clamp", 1.5, None)
    assert (item.vertices.shape, item.faces.shape) == ((8, 3), (12, 3))
    assert [pose.probability for pose in poses] == [0.7, 0.2]
    np.testing.assert_array_equal(poses[0].contact, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(poses[1].contact, np.zeros(3))  # x0 is absent there
    assert [grasp.identifier for grasp in grasps] == [0, 1, 2]
    assert [grasp.min_width for grasp in grasps] == [0.002, 0.0, 0.002]  # nine numbers in the middle one
    np.testing.assert_array_equal(grasps[0].axis, [0, 1, 0])
    assert (grasps[0].max_width, grasps[0].approach_angle, grasps[0].frame) == (0.05, 0.3, "object")
    assert grasps[2].metrics == {"robust_ferrari_canny": 0.008}


def test_catalog_prepares_by_the_databases_own_scale(database):
    (name,) = Catalog().names("dexnet", location=database)
    assert name == f"{database}::mini/clamp"
    prepared = Catalog().prepare(name, "none", source="dexnet")
    np.testing.assert_allclose(prepared.extents, 0.05, rtol=1e-5)
    assert (prepared.source, prepared.category) == ("dexnet", "clamp")
    assert prepared.mass == pytest.approx(0.0625, rel=1e-5)  # KG-1's, not the stored 1.5 kg


def test_unscaled_database_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path / "cache"))
    path = write_database(tmp_path / "large.hdf5", size=40.0)
    with pytest.raises(MeshError, match=r"mini/clamp: it would be 40 m long"):
        Catalog().prepare(f"{path}::mini/clamp", "none", source="dexnet")


def test_missing_things_are_named(database, tmp_path):
    with pytest.raises(DatabaseError, match=r"gone.hdf5.*Check the path"):
        DexNetDatabase(tmp_path / "gone.hdf5")
    with DexNetDatabase(database) as opened:
        with pytest.raises(DatabaseError, match="no 'maxi'; there are mini"):
            opened.objects("maxi")
        for key in ("cup", "..", ".", "a/b", ""):
            with pytest.raises(DatabaseError, match="there is no"):
                opened.object("mini", key)
        with pytest.raises(DatabaseError, match="there is no 'baxter'"):
            opened.grasps("mini", "clamp", "baxter")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["data"] = np.zeros(3)
    with pytest.raises(DatabaseError, match=r"find datasets in .*other.hdf5"):
        DexNetDatabase(tmp_path / "other.hdf5")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9])
def test_truncated_file_names_path_and_remedy(database, share):
    data = database.read_bytes()
    database.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(DatabaseError, match=r"mini.hdf5.*Copy the database anew"):
        Catalog().names("dexnet", location=database)


def read_everything(path):
    with DexNetDatabase(path) as opened:
        for dataset in opened.datasets():
            for key in opened.objects(dataset):
                opened.object(dataset, key)
                opened.stable_poses(dataset, key)
                for gripper in opened.grippers(dataset, key):
                    opened.grasps(dataset, key, gripper)


@pytest.mark.parametrize("seed", range(10))
def test_flipped_bytes_give_a_database_error_or_data(database, seed):
    rng, data = np.random.default_rng(seed), bytearray(database.read_bytes())
    for place in rng.integers(0, len(data), 40):
        data[place] ^= 1 << rng.integers(8)
    database.write_bytes(data)
    with contextlib.suppress(DatabaseError):  # anything else, or the end of this process, is a fault
        read_everything(database)


def change(database, action):
    with h5py.File(database, "r+") as file:
        action(file["datasets/mini/objects/clamp"])


@pytest.mark.parametrize("configuration", [CONFIGURATION[:8], [*CONFIGURATION, 1.0], [np.nan, *CONFIGURATION[1:]]])
def test_odd_grasp_configurations_are_refused(database, configuration):
    def spoil(item):
        item["grasps/yumi_metal_spline/grasp_0"].attrs["configuration"] = np.array(configuration)

    change(database, spoil)
    with DexNetDatabase(database) as opened, pytest.raises(DatabaseError, match="not 9 or 10 finite"):
        opened.grasps("mini", "clamp", "yumi_metal_spline")


def test_axis_and_rotation_must_be_what_they_claim(database):
    def spoil(item):
        item["grasps/yumi_metal_spline/grasp_0"].attrs["configuration"] = np.array([0.0] * 10)
        item["stable_poses/pose_0"].attrs["r"] = np.ones((3, 3))

    change(database, spoil)
    with DexNetDatabase(database) as opened:
        with pytest.raises(DatabaseError, match="axis has length 0"):
            opened.grasps("mini", "clamp", "yumi_metal_spline")
        with pytest.raises(DatabaseError, match="not a rotation"):
            opened.stable_poses("mini", "clamp")


def test_links_and_data_outside_the_file_are_not_followed(database, tmp_path):
    other = write_database(tmp_path / "other.hdf5")

    def link(item):
        del item["mesh/vertices"], item["grasps"]
        item["mesh/vertices"] = h5py.ExternalLink(str(other), "/datasets/mini/objects/clamp/mesh/vertices")
        item["grasps"] = h5py.ExternalLink(str(other), "/datasets/mini/objects/clamp/grasps")

    change(database, link)
    with DexNetDatabase(database) as opened:
        with pytest.raises(DatabaseError, match="link to elsewhere"):
            opened.object("mini", "clamp")
        with pytest.raises(DatabaseError, match="link to elsewhere"):
            opened.grasps("mini", "clamp", "yumi_metal_spline")

    def outside(item):
        del item["mesh/vertices"]
        item["mesh"].create_dataset("vertices", (8, 3), "f4", external=[(str(other), 0, 96)])

    change(database, outside)
    with DexNetDatabase(database) as opened, pytest.raises(DatabaseError, match="in another file"):
        opened.object("mini", "clamp")


def test_huge_arrays_are_refused_before_they_are_read(database):
    def swell(item):
        del item["mesh/vertices"]
        item["mesh"].create_dataset("vertices", (10**12, 3), "f4", chunks=(1024, 3), compression="gzip")

    change(database, swell)
    with DexNetDatabase(database) as opened, pytest.raises(DatabaseError, match="has shape"):
        opened.object("mini", "clamp")


def test_listing_is_bounded(database, monkeypatch):
    monkeypatch.setattr(dexnet, "_MAX_ENTRIES", 2)
    with DexNetDatabase(database) as opened, pytest.raises(DatabaseError, match="3 entries"):
        opened.grasps("mini", "clamp", "yumi_metal_spline")
