from __future__ import annotations

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.sim.hulls import deflated, hulls_as_obj


def test_deflated_box_is_smaller_by_the_margin():
    corners = np.array(trimesh.creation.box((0.04, 0.06, 0.08)).vertices)
    small = deflated(corners, 0.001)
    assert np.ptp(small, axis=0) == pytest.approx([0.038, 0.058, 0.078])


def test_thin_hull_stays_as_it_is():
    sheet = np.array(trimesh.creation.box((0.04, 0.06, 0.001)).vertices)
    assert deflated(sheet, 0.001) is sheet
    flat = sheet * [1, 1, 0]
    assert deflated(flat, 0.001) is flat


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_deflated_hull_lies_a_margin_inside(seed):
    points = np.random.default_rng(seed).normal(size=(20, 3)) * 0.03
    hull = trimesh.convex.convex_hull(points)
    small = deflated(points, 0.001)
    if small is not points:
        offsets = small[None] - hull.triangles_center[:, None]
        distances = np.einsum("fpk,fk->fp", offsets, hull.face_normals)
        assert distances.max() == pytest.approx(-0.001, abs=1e-6)


def test_obj_mentions_every_point():
    text = hulls_as_obj([np.eye(3), np.ones((4, 3))])
    mentioned = {int(index) for line in text.splitlines() if line.startswith("f") for index in line.split()[1:]}
    assert mentioned == set(range(1, 8))
    assert text.count("o hull") == 2
