"""Mass properties, boxes, hulls and repair against solids whose answers are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from keygrasp.errors import MeshError
from keygrasp.geometry.meshes import (
    clean,
    convex_hull,
    is_watertight,
    mass_properties,
    oriented_extents,
    principal_frame,
    union_of_hulls,
)
from keygrasp.geometry.repair import repair

CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
side = st.floats(0.005, 0.5)


def box(size):
    return convex_hull((CORNERS - 0.5) * size)


def rotation(seed):
    return Rotation.random(rng=np.random.default_rng(seed)).as_matrix()


@given(a=side, b=side, c=side, seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_box_has_the_textbook_volume_inertia_and_extents_in_any_pose(a, b, c, seed):
    vertices, faces = box((a, b, c))
    turn, shift = rotation(seed), np.array([0.3, -2.0, 0.1])
    solid = mass_properties(vertices @ turn.T + shift, faces)
    expected = np.diag([b * b + c * c, a * a + c * c, a * a + b * b]) * a * b * c / 12
    assert solid.volume == pytest.approx(a * b * c, rel=1e-9)
    np.testing.assert_allclose(solid.center, shift, atol=1e-9)
    np.testing.assert_allclose(solid.inertia, turn @ expected @ turn.T, atol=1e-9 * expected.max())
    np.testing.assert_allclose(oriented_extents(vertices @ turn.T + shift), np.sort([a, b, c]), rtol=1e-5)


def test_cylinder_has_the_textbook_inertia():
    n, radius, height = 720, 0.03, 0.12
    angle = 2 * np.pi * np.arange(n) / n
    ring = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    points = np.concatenate([np.column_stack([ring, np.full(n, z)]) for z in (0.0, height)])
    solid = mass_properties(*convex_hull(points))
    volume = np.pi * radius**2 * height
    assert solid.volume == pytest.approx(volume, rel=1e-4)
    np.testing.assert_allclose(solid.center, [0, 0, height / 2], atol=1e-6)
    across, along = volume * (3 * radius**2 + height**2) / 12, volume * radius**2 / 2
    np.testing.assert_allclose(solid.inertia, np.diag([across, across, along]), rtol=2e-4, atol=1e-12)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_principal_frame_is_a_rotation_that_makes_the_tensor_diagonal(seed):
    turn = rotation(seed)
    moments, axes = principal_frame(turn @ np.diag([3.0, 1.0, 2.5]) @ turn.T)
    np.testing.assert_allclose(moments, [1.0, 2.5, 3.0])
    assert np.linalg.det(axes) == pytest.approx(1)
    np.testing.assert_allclose(axes.T @ turn @ np.diag([3.0, 1.0, 2.5]) @ turn.T @ axes, np.diag(moments), atol=1e-9)


def test_union_counts_an_overlap_once():
    one, two = CORNERS * 0.1, CORNERS * 0.1 + np.array([0.05, 0, 0])
    vertices, faces = union_of_hulls((one, two))
    solid = mass_properties(vertices, faces)
    assert is_watertight(faces)
    assert solid.volume == pytest.approx(0.15 * 0.1 * 0.1, rel=1e-9)
    np.testing.assert_allclose(solid.center, [0.075, 0.05, 0.05], atol=1e-9)


def test_hull_faces_point_outward():
    assert mass_properties(*box((0.1, 0.2, 0.3))).volume > 0


def test_clean_merges_and_refuses():
    vertices, faces = box((1, 1, 1))
    soup = vertices[faces].reshape(-1, 3)
    merged, kept = clean(soup, np.arange(len(soup)).reshape(-1, 3))
    assert len(merged) == 8
    assert is_watertight(kept)
    broken = vertices.copy()
    broken[2, 1] = np.nan
    with pytest.raises(MeshError, match="1 of 8 vertices are NaN"):
        clean(broken, faces)
    with pytest.raises(MeshError, match="names vertex 99"):
        clean(vertices, np.array([[0, 1, 99]]))
    with pytest.raises(MeshError, match="empty"):
        clean(np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(MeshError, match="same place"):
        clean(np.zeros((3, 3)), np.array([[0, 1, 2]]))


def test_flat_points_enclose_nothing():
    flat = CORNERS * [1, 1, 0]
    with pytest.raises(MeshError, match="plane"):
        convex_hull(flat)
    with pytest.raises(MeshError, match="plane"):
        repair(flat, np.array([[0, 2, 4], [2, 4, 6]]))


def test_sound_mesh_is_left_alone():
    vertices, faces = box((0.1, 0.2, 0.3))
    result = repair(vertices, faces)
    assert result.notes == ()
    assert mass_properties(result.vertices, result.faces).volume == pytest.approx(0.006)


def test_inside_out_mesh_is_turned():
    vertices, faces = box((0.1, 0.2, 0.3))
    result = repair(vertices, faces[:, ::-1])
    assert "inside out" in result.notes[0]
    assert mass_properties(result.vertices, result.faces).volume == pytest.approx(0.006)


@pytest.mark.parametrize("seed", range(4))
def test_single_faces_turned_the_wrong_way_are_mended(seed):
    vertices, faces = box((0.1, 0.2, 0.3))
    wrong = np.random.default_rng(seed).choice(len(faces), 4, replace=False)
    faces[wrong] = faces[wrong][:, ::-1]
    result = repair(vertices, faces)
    assert result.notes
    assert is_watertight(result.faces)
    assert mass_properties(result.vertices, result.faces).volume == pytest.approx(0.006)


def test_holes_are_filled_and_named():
    vertices, faces = box((0.1, 0.2, 0.3))
    normals = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    lidless = faces[normals[:, 2] <= 1e-12]
    assert len(lidless) == len(faces) - 2
    result = repair(vertices, lidless)
    assert "1 hole(s)" in " ".join(result.notes)
    assert is_watertight(result.faces)
    assert mass_properties(result.vertices, result.faces).volume == pytest.approx(0.006)


def test_flap_of_two_opposite_faces_is_dropped():
    vertices, faces = box((0.1, 0.2, 0.3))
    tip = np.concatenate([vertices, [[0.0, 0.0, 0.5]]])
    flap = np.array([[0, 1, 8], [1, 0, 8]])
    result = repair(tip, np.concatenate([faces, flap]))
    assert "2 doubled" in result.notes[0]
    assert len(result.vertices) == 8
    assert mass_properties(result.vertices, result.faces).volume == pytest.approx(0.006)


def test_two_sided_export_is_made_one_sided():
    vertices, faces = box((0.1, 0.2, 0.3))
    result = repair(vertices, np.concatenate([faces, faces[:, ::-1]]))
    assert len(result.faces) == len(faces)
    assert mass_properties(result.vertices, result.faces).volume == pytest.approx(0.006)


def test_cavity_stays_hollow_but_a_turned_neighbour_does_not():
    outer, faces = box((0.2, 0.2, 0.2))
    inner, inner_faces = box((0.1, 0.1, 0.1))
    hollow = repair(np.concatenate([outer, inner]), np.concatenate([faces, inner_faces[:, ::-1] + 8]))
    assert mass_properties(hollow.vertices, hollow.faces).volume == pytest.approx(0.008 - 0.001)
    apart = repair(np.concatenate([outer, inner + 1.0]), np.concatenate([faces, inner_faces[:, ::-1] + 8]))
    assert mass_properties(apart.vertices, apart.faces).volume == pytest.approx(0.008 + 0.001)


def test_hopeless_mesh_becomes_its_hull_and_says_so():
    rng = np.random.default_rng(0)
    vertices = rng.random((60, 3))
    faces = rng.permutation(60).reshape(-1, 3)[:4]
    result = repair(vertices, np.concatenate([faces, faces[:, [0, 1]] @ np.eye(2, 3, dtype=int) + [0, 0, 7]]) % 60)
    assert is_watertight(result.faces)
    assert mass_properties(result.vertices, result.faces).volume > 0
    assert result.notes
