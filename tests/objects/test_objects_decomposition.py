"""Cutting into convex pieces, and what happens when the cutter dies."""

import sys

import numpy as np
import pytest

from keygrasp.geometry.meshes import convex_hull, hull_volume, mass_properties, union_of_hulls
from keygrasp.objects import decomposition
from keygrasp.objects.decomposition import DecompositionConfig, decompose, few_vertices

CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
BRACKET = (CORNERS * [0.1, 0.02, 0.04], CORNERS * [0.02, 0.1, 0.04])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path))
    return tmp_path


def test_convex_object_is_one_piece_and_needs_no_cutter(monkeypatch):
    monkeypatch.setattr(decomposition, "_run_worker", None)
    result = decompose(*convex_hull(CORNERS * 0.1))
    assert [len(piece) for piece in result.pieces] == [8]
    assert result.notes == ()


@pytest.mark.slow
def test_bracket_is_cut_and_the_result_cached(folder, monkeypatch, capfd):
    vertices, faces = union_of_hulls(BRACKET)
    result = decompose(vertices, faces)
    volume = mass_properties(vertices, faces).volume
    assert result.notes == ()
    assert len(result.pieces) >= 2
    assert mass_properties(*union_of_hulls(result.pieces)).volume == pytest.approx(volume, rel=0.05)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(decomposition, "_run_worker", None)  # calling it again would fail
    again = decompose(vertices, faces)
    for piece, same in zip(result.pieces, again.pieces, strict=True):
        np.testing.assert_array_equal(piece, same)
    assert len(list((folder / "decompositions").iterdir())) == 1


@pytest.mark.parametrize("fault", ["dies", "hangs"])
def test_cutter_that_dies_or_hangs_leaves_the_hull_with_a_note(folder, monkeypatch, tmp_path, fault):
    script = tmp_path / "cutter"
    script.write_text("#!/bin/sh\n" + {"dies": "kill -SEGV $$\n", "hangs": "exec sleep 60\n"}[fault])
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    vertices, faces = union_of_hulls(BRACKET)
    result = decompose(vertices, faces, DecompositionConfig(timeout=1.0))
    assert "CONVEX HULL" in result.notes[0]
    assert hull_volume(result.pieces[0]) == pytest.approx(hull_volume(vertices))
    assert not list(folder.glob("decompositions/*"))


def test_few_vertices_keeps_a_ball_round():
    points = np.random.default_rng(0).normal(size=(4000, 3))
    points *= 0.05 / np.linalg.norm(points, axis=1, keepdims=True)
    thin = few_vertices(points)
    assert 100 <= len(thin) <= 128
    directions = np.random.default_rng(1).normal(size=(500, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lost = (directions @ points.T).max(axis=1) - (directions @ thin.T).max(axis=1)
    assert lost.min() >= 0
    assert lost.max() < 0.002


def test_makeshift_object_is_not_kept(folder, monkeypatch, tmp_path):
    from keygrasp.objects import prepare_file

    path = tmp_path / "bracket.obj"
    vertices, faces = union_of_hulls(BRACKET)
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    path.write_text("\n".join(lines))
    broken = tmp_path / "cutter"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    assert "status 3" in prepare_file(path).notes[0]
    assert not list(folder.glob("objects/*"))
