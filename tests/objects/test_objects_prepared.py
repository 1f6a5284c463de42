"""KG-1's scaling, mass and inertia; the body frame; the round trip through the cache."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.errors import InputError, MeshError
from keygrasp.geometry.meshes import convex_hull, mass_properties
from keygrasp.objects.prepared import assemble, from_arrays, scale_factor, to_arrays

CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
sides = st.lists(st.floats(1e-3, 2.0), min_size=3, max_size=3).map(np.sort)


def block(size, rule="none", **options):
    vertices, faces = convex_hull(CORNERS * size)
    return assemble("block", "file", vertices, faces, (vertices,), rule=rule, **options)


@given(sides)
def test_rule_e_makes_the_middle_ten_centimetres_unless_too_long(extents):
    scaled = extents * scale_factor(extents, "E")
    assert scaled[2] <= 0.22 + 1e-12
    assert scaled[1] == pytest.approx(0.10) or (scaled[1] < 0.10 and scaled[2] == pytest.approx(0.22))


@given(sides)
def test_rule_m_is_rule_e_with_a_middle_side_of_seven_centimetres(extents):
    scaled = np.array(extents) * scale_factor(extents, "M")
    assert scaled[2] <= 0.22 + 1e-12
    assert scaled[1] == pytest.approx(0.07) or (scaled[1] < 0.07 and scaled[2] == pytest.approx(0.22))


@given(sides)
def test_rule_a_shrinks_the_smallest_to_four_centimetres_and_never_enlarges(extents):
    scale = scale_factor(extents, "A")
    assert scale <= 1
    assert extents[0] * scale == pytest.approx(min(0.04, extents[0]))


@given(sides)
def test_rule_s_shrinks_to_small_objects_and_never_enlarges(extents):
    scaled = np.array(extents) * scale_factor(extents, "S")
    assert scaled[0] <= 0.02 + 1e-12
    assert scaled[2] <= 0.20 + 1e-12
    assert np.all(scaled <= extents)
    assert np.allclose(scaled, extents) or np.isclose(scaled[0], 0.02) or np.isclose(scaled[2], 0.20)


def test_no_rule_keeps_the_size_and_an_unknown_one_is_named():
    assert scale_factor(np.array([1.0, 2.0, 3.0]), "none") == 1
    with pytest.raises(InputError, match=r"unknown scaling rule 'B'.*E, A, S, M, none"):
        scale_factor(np.array([1.0, 2.0, 3.0]), "B")


@given(sides, st.sampled_from(["E", "A", "S", "M", "none"]))
@settings(max_examples=40, deadline=None)
def test_mass_and_inertia_of_a_block(extents, rule):
    prepared = block(extents, rule)
    a, b, c = extents * scale_factor(extents, rule)
    assert prepared.volume == pytest.approx(a * b * c, rel=1e-6)
    assert prepared.mass == pytest.approx(np.clip(500 * a * b * c, 0.02, 0.5), rel=1e-6)
    expected = prepared.mass / 12 * np.sort([b * b + c * c, a * a + c * c, a * a + b * b])
    np.testing.assert_allclose(prepared.inertia, expected, rtol=1e-5)


def test_everything_is_in_the_centre_of_mass_principal_frame():
    prepared = block((0.03, 0.05, 0.11))
    solid = mass_properties(prepared.vertices, prepared.faces)
    np.testing.assert_allclose(solid.center, 0, atol=1e-12)
    np.testing.assert_allclose(solid.inertia * prepared.mass / prepared.volume, np.diag(prepared.inertia), atol=1e-12)
    np.testing.assert_allclose(np.ptp(prepared.hulls[0], axis=0), np.ptp(prepared.vertices, axis=0))
    np.testing.assert_allclose(np.ptp(prepared.vertices, axis=0), [0.11, 0.05, 0.03])  # least inertia: long axis


def test_inside_out_input_is_turned_and_flat_pieces_are_left_out():
    vertices, faces = convex_hull(CORNERS * 0.1)
    sheet = CORNERS * [0.1, 0.1, 0.0]
    prepared = assemble("block", "file", vertices, faces[:, ::-1], (vertices, sheet), rule="none")
    assert prepared.volume == pytest.approx(1e-3)
    assert len(prepared.hulls) == 1
    assert "inside out" in prepared.notes[0]
    with pytest.raises(MeshError, match="no convex piece has a volume"):
        assemble("block", "file", vertices, faces, (sheet,), rule="none")


@pytest.mark.parametrize(
    ("size", "category"),
    [((0.1, 0.1, 0.02), "flat"), ((0.05, 0.05, 0.1), "elongated"), ((0.1, 0.1, 0.12), "compact")],
)
def test_shape_class_of_blocks(size, category):
    assert block(size).category == category


def test_shape_class_of_a_corner_bracket_is_concave():
    from keygrasp.geometry.meshes import union_of_hulls

    pieces = tuple(CORNERS * size for size in ((0.1, 0.01, 0.01), (0.01, 0.1, 0.01), (0.01, 0.01, 0.1)))
    vertices, faces = union_of_hulls(pieces)
    assert assemble("bracket", "file", vertices, faces, pieces, rule="none").category == "concave"


def test_a_given_category_is_kept():
    assert block((0.1, 0.1, 0.1), category="tool").category == "tool"


def test_arrays_bring_the_same_object_back():
    prepared = block((0.03, 0.05, 0.11), notes=("mended",))
    again = from_arrays(to_arrays(prepared))
    for name in ("name", "source", "category", "mass", "volume", "notes"):
        assert getattr(again, name) == getattr(prepared, name)
    for name in ("vertices", "faces", "inertia", "extents"):
        np.testing.assert_array_equal(getattr(again, name), getattr(prepared, name))
    np.testing.assert_array_equal(again.hulls[0], prepared.hulls[0])
