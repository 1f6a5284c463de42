"""A user's mesh files: every fault that users of such stacks report has its own clear refusal."""

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh

from keygrasp.errors import InputError, MeshError
from keygrasp.geometry.meshes import convex_hull
from keygrasp.objects import Catalog, mesh_files, meshfiles, prepare_file
from keygrasp.objects.objfile import parse_obj

CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
ADVERSARIAL = Path(__file__).parents[3] / "shared" / "data" / "dexnet_adversarial"


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path / "cache"))


def obj_text(vertices, faces):
    lines = [f"v {x} {y} {z}" for x, y, z in vertices]
    return "\n".join(lines + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]) + "\n"


def write_block(path, size, faces=None):
    vertices, hull = convex_hull(CORNERS * size)
    path.write_text(obj_text(vertices, hull if faces is None else faces(hull)))
    return path


@pytest.mark.parametrize("suffix", ["obj", "stl", "ply"])
def test_every_format_gives_the_same_block(tmp_path, suffix):
    vertices, faces = convex_hull(CORNERS * [0.03, 0.05, 0.08])
    path = tmp_path / f"block.{suffix}"
    trimesh.Trimesh(vertices, faces, process=False).export(path)
    prepared = prepare_file(path)
    np.testing.assert_allclose(prepared.extents, [0.03, 0.05, 0.08], rtol=1e-5)
    assert (prepared.name, prepared.source, prepared.notes) == ("block", "file", ())
    assert prepared.mass == pytest.approx(0.06, rel=1e-5)
    assert len(prepared.hulls) == 1


@pytest.mark.parametrize(("unit", "size"), [("mm", 50.0), ("cm", 5.0), ("in", 50 / 25.4), ("m", 0.05)])
def test_a_stated_unit_converts(tmp_path, unit, size):
    path = write_block(tmp_path / "cube.obj", size)
    np.testing.assert_allclose(prepare_file(path, unit=unit).extents, 0.05, rtol=1e-6)
    name = Catalog().names("file", location=path, unit=unit)[0]
    np.testing.assert_allclose(Catalog().prepare(name, "none", source="file").extents, 0.05, rtol=1e-6)


def test_suspected_millimetres_are_refused_with_the_option(tmp_path):
    path = write_block(tmp_path / "cube.obj", 50.0)
    with pytest.raises(MeshError, match=r"50 m long.*--unit mm"):
        prepare_file(path)
    with pytest.raises(MeshError, match="too large"):
        prepare_file(path, unit="m")
    with pytest.raises(MeshError, match="too long in millimetres as well"):
        prepare_file(write_block(tmp_path / "huge.obj", 8e30))
    with pytest.raises(InputError, match="unknown unit 'ft'"):
        prepare_file(path, unit="ft")


def test_missing_empty_and_foreign_files_are_named(tmp_path):
    with pytest.raises(MeshError, match=r"can't read .*gone.obj"):
        prepare_file(tmp_path / "gone.obj")
    with pytest.raises(MeshError, match="is a folder"):
        prepare_file(tmp_path)
    for suffix in ("obj", "stl", "ply"):
        (tmp_path / f"empty.{suffix}").write_bytes(b"")
        with pytest.raises(MeshError, match=rf"empty.{suffix}: the file is empty"):
            prepare_file(tmp_path / f"empty.{suffix}")
    (tmp_path / "a.glb").write_bytes(b"x")
    with pytest.raises(MeshError, match=r"'.glb' are not known"):
        prepare_file(tmp_path / "a.glb")
    (tmp_path / "points.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    with pytest.raises(MeshError, match="the mesh is empty"):
        prepare_file(tmp_path / "points.obj")


@pytest.mark.parametrize("value", ["nan", "inf", "1e400"])
def test_vertices_that_are_not_finite_are_refused(tmp_path, value):
    path = write_block(tmp_path / "bad.obj", 0.05)
    path.write_text(path.read_text().replace("v 0.05 0.05 0.05", f"v 0.05 {value} 0.05"))
    with pytest.raises(MeshError, match="1 of 8 vertices are NaN or infinite"):
        prepare_file(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [("v 1 2", "not a valid OBJ line"), ("v a b c", "not a valid"), ("f 1 2 x", "not a valid"),
     ("f 1 2 99", r"line \d+: a face names vertex 99, but the file has 8"), ("f 0 1 2", "vertex 0 does not exist")],
)  # fmt: skip
def test_malformed_obj_lines_are_refused(tmp_path, line, message):
    path = write_block(tmp_path / "bad.obj", 0.05)
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(MeshError, match=message):
        prepare_file(path)


def test_obj_polygons_negative_indices_and_groups():
    document = parse_obj(b"o a\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1/1 2//2 3/3/3 4\ng b\nf -4 -3 -2\n# f 9\n")
    assert [part.tolist() for part in document.parts] == [[[0, 1, 2], [0, 2, 3]], [[0, 1, 2]]]
    with pytest.raises(MeshError, match="line 2"):
        parse_obj(b"v 0 0 0\nf -4 -3 -2\n")


def test_materials_are_never_opened(tmp_path):
    secret = tmp_path / "secret.mtl"
    secret.mkdir()  # reading it would fail
    path = write_block(tmp_path / "cube.obj", 0.05)
    path.write_text(
        f"mtllib {secret}\nmtllib ../../../../etc/passwd\nmtllib https://localhost:9/x.mtl\n" + path.read_text()
    )
    assert prepare_file(path).volume == pytest.approx(0.05**3)


def test_inside_out_and_open_meshes_are_mended_and_say_so(tmp_path):
    turned = prepare_file(write_block(tmp_path / "turned.obj", 0.05, lambda faces: faces[:, ::-1]))
    opened = prepare_file(write_block(tmp_path / "opened.obj", 0.05, lambda faces: faces[1:]))
    assert "inside out" in turned.notes[0]
    assert "not watertight" in opened.notes[0]
    for prepared in (turned, opened):
        assert prepared.volume == pytest.approx(0.05**3, rel=1e-6)


def test_too_flat_too_long_and_too_thick_objects_are_refused(tmp_path):
    for size, message in (
        ((0.08, 0.08, 0.002), r"2 mm thick, too flat"),
        ((0.05, 0.05, 0.4), r"0.4 m long, too large"),
        ((0.1, 0.1, 0.12), r"smallest side is 100 mm, too large for the gripper's 85 mm"),
    ):
        with pytest.raises(MeshError, match=message):
            prepare_file(write_block(tmp_path / "block.obj", size))
    assert prepare_file(write_block(tmp_path / "block.obj", (0.1, 0.1, 0.12)), rule="A").extents[0] <= 0.04 + 1e-9
    (tmp_path / "sheet.obj").write_text(obj_text(CORNERS[[0, 2, 4, 6]] * 0.1, [[0, 1, 2], [1, 3, 2]]))
    with pytest.raises(MeshError, match="plane"):
        prepare_file(tmp_path / "sheet.obj")


def test_files_that_would_exhaust_memory_are_refused_early(tmp_path, monkeypatch):
    ply = b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\nproperty float x\nend_header\n"
    (tmp_path / "bomb.ply").write_bytes(ply)
    with pytest.raises(MeshError, match="claims more elements"):
        prepare_file(tmp_path / "bomb.ply")
    (tmp_path / "bomb.stl").write_bytes(b"\0" * 80 + struct.pack("<I", 2**32 - 1) + b"\0" * 50)
    with pytest.raises(MeshError, match="not a valid STL"):
        prepare_file(tmp_path / "bomb.stl")
    (tmp_path / "torn.stl").write_bytes(trimesh.creation.box().export(file_type="stl")[:300])
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    with pytest.raises(MeshError, match="not a valid STL file") as caught:
        prepare_file(tmp_path / "torn.stl")
    assert "module" not in caught.value.problem
    monkeypatch.setattr("keygrasp.objects.objfile.MAX_ELEMENTS", 7)
    with pytest.raises(MeshError, match="more than 7"):
        prepare_file(write_block(tmp_path / "many.obj", 0.05))
    monkeypatch.setattr(meshfiles, "MAX_FILE_BYTES", 10)
    with pytest.raises(MeshError, match="MiB, more than"):
        prepare_file(write_block(tmp_path / "big.obj", 0.05))


@pytest.mark.parametrize("suffix", ["stl", "ply"])
@pytest.mark.parametrize("seed", range(8))
def test_damaged_binary_files_never_give_anything_but_a_mesh_error(tmp_path, suffix, seed):
    vertices, faces = convex_hull(CORNERS * 0.05)
    path = tmp_path / f"block.{suffix}"
    trimesh.Trimesh(vertices, faces, process=False).export(path)
    rng, data = np.random.default_rng(seed), bytearray(path.read_bytes())
    for place in rng.integers(0, len(data), 12):
        data[place] = rng.integers(256)
    path.write_bytes(data[: rng.integers(len(data) // 2, len(data))])
    with pytest.raises(MeshError):
        prepare_file(path)


def test_a_folder_lists_its_meshes(tmp_path):
    for name in ("b.OBJ", "a.stl", "notes.txt"):
        (tmp_path / name).write_text("x")
    assert [path.name for path in mesh_files(tmp_path)] == ["a.stl", "b.OBJ"]
    assert [Path(name).name for name in Catalog().names("file", location=tmp_path)] == ["a.stl", "b.OBJ"]
    (tmp_path / "none").mkdir()
    with pytest.raises(MeshError, match="holds no mesh file"):
        mesh_files(tmp_path / "none")
    with pytest.raises(MeshError, match="can't read the folder"):
        mesh_files(tmp_path / "gone")


@pytest.mark.slow
@pytest.mark.skipif(not ADVERSARIAL.is_dir(), reason="the adversarial objects are not part of the project")
def test_the_pawn_is_repaired_and_the_clamp_needs_no_repair(monkeypatch):
    monkeypatch.delenv("KEYGRASP_CACHE")  # cutting takes long: keep it between runs
    pawn, clamp = prepare_file(ADVERSARIAL / "pawn.obj"), prepare_file(ADVERSARIAL / "bar_clamp.obj")
    assert any("inside out" in note for note in pawn.notes)
    assert pawn.volume == pytest.approx(166e-6, rel=0.01)
    assert clamp.notes == ()
    np.testing.assert_allclose(clamp.extents, [0.056, 0.076, 0.109], atol=0.001)
    assert len(pawn.hulls) > 3
    assert len(clamp.hulls) > 3
