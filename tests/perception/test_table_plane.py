import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_views import KG1, box, nothing, placed, render, tilted_overhead, union

from keygrasp.errors import ConfigurationError, ImageError
from keygrasp.geometry.cameras import overhead_pose
from keygrasp.geometry.poses import make_pose
from keygrasp.perception import PerceptionConfig, estimate_table, perceive
from keygrasp.perception.table import median
from keygrasp.scene import OverheadView


def turned(angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def test_level_table_is_found_without_noise():
    plane = estimate_table(render(placed(box(0.1, 0.05, 0.04))))
    assert plane.tilt < math.radians(0.05)
    assert abs(plane.offset) < 2e-4


def test_noise_is_measured():
    plane = estimate_table(render(nothing(), noise=np.random.default_rng(0)))
    assert 0.0012 < plane.noise < 0.0024
    assert plane.tilt < math.radians(0.3)
    assert abs(plane.offset) < 0.001


@pytest.mark.parametrize("degrees", [0, 20, 40])
def test_tilted_camera_gives_the_same_table_and_object(degrees):
    view = render(
        placed(box(0.08, 0.05, 0.04), yaw=0.4),
        pose=tilted_overhead(math.radians(degrees)),
        noise=np.random.default_rng(1),
    )
    perceived = perceive(view)
    assert perceived.table.tilt < math.radians(0.6)
    assert len(perceived.segments) == 1
    assert abs(perceived.segments[0].top - 0.04) < 0.004
    assert np.linalg.norm(perceived.segments[0].centroid) < 0.012


@pytest.mark.parametrize("degrees", [3.0, 10.0])
def test_a_wrong_camera_pose_is_reported_as_tilt(degrees):
    error = make_pose([0, 0, 0.02], turned(math.radians(degrees)))
    view = render(placed(box(0.1, 0.05, 0.04)), reported_pose=error @ overhead_pose(0.70))
    plane = estimate_table(view)
    assert math.degrees(plane.tilt) == pytest.approx(degrees, abs=0.1)
    assert plane.offset == pytest.approx(0.02 * math.cos(math.radians(degrees)), abs=5e-4)
    assert perceive(view).segments[0].top == pytest.approx(0.04, abs=0.002)


def test_an_object_over_half_of_the_image_is_not_taken_for_the_table():
    view = render(box(0.30, 0.17, 0.06), noise=np.random.default_rng(2))
    plane = estimate_table(view)
    assert abs(plane.offset) < 0.001
    assert plane.support < 0.6
    perceived = perceive(view)
    assert perceived.segments[0].top == pytest.approx(0.06, abs=0.004)


def test_thin_objects_do_not_lift_the_table():
    thin = union(*(placed(box(0.08, 0.05, 0.006), x, y) for x in (-0.1, 0.0, 0.1) for y in (-0.08, 0.08)))
    assert abs(estimate_table(render(thin, noise=np.random.default_rng(3))).offset) < 0.001


def test_same_image_same_plane():
    view = render(placed(box(0.1, 0.05, 0.04)), noise=np.random.default_rng(4))
    first, second = estimate_table(view), estimate_table(view)
    assert np.array_equal(first.normal, second.normal)
    assert first.offset == second.offset


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=40))
def test_the_median_is_the_median(values):
    assert median(np.array(values)) == np.median(values)


def test_of_nothing_there_is_no_median():
    assert math.isnan(median(np.zeros(0)))


def test_heights_of_points():
    plane = estimate_table(render(nothing()))
    assert plane.heights_of(np.array([[0.0, 0.0, 0.05], [0.1, 0.0, 0.0]])) == pytest.approx([0.05, 0.0], abs=5e-4)


def test_no_plane_is_an_error_that_names_the_cause():
    rng = np.random.default_rng(5)
    depth = rng.uniform(0.3, 1.2, (128, 128)).astype(np.float32)
    with pytest.raises(ImageError, match="no table plane"):
        estimate_table(OverheadView(depth, KG1, overhead_pose(0.70)))


def test_almost_no_valid_pixels_is_an_error():
    depth = np.full((128, 128), np.nan, np.float32)
    depth[:5, :5] = 0.7
    with pytest.raises(ImageError, match="25 of 16384 depth pixels"):
        estimate_table(OverheadView(depth, KG1, overhead_pose(0.70)))


def test_a_table_far_from_the_workspace_is_an_error():
    view = render(nothing(), reported_pose=overhead_pose(0.95))
    with pytest.raises(ImageError, match="250 mm from the workspace"):
        estimate_table(view)


def test_a_steep_table_is_an_error():
    view = render(nothing(), reported_pose=make_pose([0, 0, 0], turned(math.radians(30))) @ overhead_pose(0.70))
    with pytest.raises(ImageError, match=r"tilted by 30\.0"):
        estimate_table(view)


def test_wrong_focal_length_still_stands_on_the_table_but_scales():
    view = render(placed(box(0.08, 0.05, 0.04)))
    doubled = dataclasses.replace(view, intrinsics=dataclasses.replace(KG1, fx=512.0, fy=512.0))
    assert perceive(doubled).segments[0].area < 0.4 * perceive(view).segments[0].area


@pytest.mark.parametrize("change", [{"cell": 0.0}, {"cells": 4}, {"cells": 100_000}, {"workspace_x": (0.1, -0.1)}])
def test_settings_out_of_range_are_refused(change):
    with pytest.raises(ConfigurationError, match=next(iter(change))):
        PerceptionConfig(**change)
