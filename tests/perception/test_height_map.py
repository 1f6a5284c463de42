import numpy as np
import pytest
from synthetic_views import KG1, box, cylinder, nothing, placed, pyramid, render, ring, union

from keygrasp.geometry.cameras import Intrinsics
from keygrasp.perception import (
    PerceptionConfig,
    build_height_map,
    estimate_table,
    in_workspace,
    perceive,
    segment,
    smooth_heights,
)
from keygrasp.scene import OverheadView


def map_of(view):
    return build_height_map(view, estimate_table(view))


def test_grid_is_the_contract():
    height_map = map_of(render(nothing()))
    assert height_map.heights.shape == (144, 144)
    assert height_map.heights.dtype == np.float32
    assert height_map.cell == 0.0025
    assert np.allclose(height_map.origin, -0.17875)


def test_heights_within_two_millimetres_inside_a_box():
    height_map = map_of(render(placed(box(0.09, 0.06, 0.05), 0.03, -0.02, 0.3), noise=np.random.default_rng(0)))
    grid = np.stack(np.meshgrid(np.linspace(-0.03, 0.03, 9), np.linspace(-0.02, 0.02, 7)), -1).reshape(-1, 2)
    c, s = np.cos(0.3), np.sin(0.3)
    inside = grid @ np.array([[c, s], [-s, c]]) + [0.03, -0.02]
    errors = height_map.sample(inside) - 0.05
    assert abs(np.median(errors)) < 0.002
    assert np.mean(np.abs(errors) < 0.005) > 0.95


def test_slopes_are_read():
    height_map = map_of(render(pyramid(0.12, 0.06)))
    x = np.linspace(0.01, 0.05, 9)
    heights = height_map.sample(np.column_stack([x, np.zeros(9)]))
    assert np.max(np.abs(heights - 0.06 * (1 - x / 0.06))) < 0.003


def test_y_runs_up_the_rows():
    height_map = map_of(render(placed(cylinder(0.02, 0.04), 0.05, 0.10)))
    assert height_map.sample(np.array([0.05, 0.10])) > 0.03
    assert height_map.sample(np.array([0.10, 0.05])) < 0.005
    assert height_map.heights[int((0.10 + 0.17875) / 0.0025), int((0.05 + 0.17875) / 0.0025)] > 0.03


def test_holes_are_filled_without_inventing_height():
    view = render(placed(box(0.08, 0.08, 0.05)), noise=np.random.default_rng(1))
    depth = view.depth.copy()
    depth[60:68, 60:68] = np.nan
    holed = map_of(OverheadView(depth, KG1, view.camera_in_workspace))
    middle = holed.heights[66:78, 66:78]
    assert not holed.measured[70:74, 70:74].any()
    assert np.all(np.isfinite(holed.heights))
    assert middle.max() < 0.056
    assert middle.min() > 0.043


def test_missing_depth_beside_an_object_is_not_grasped():
    view = render(placed(box(0.08, 0.05, 0.05)))
    depth = view.depth.copy()
    depth[:40, :40] = np.nan
    assert map_of(OverheadView(depth, KG1, view.camera_in_workspace)).heights[-40:, :40].max() < 0.01


def test_smoothed_heights_are_kept_for_the_map_and_cant_be_changed():
    first, second = (perceive(render(placed(box(0.05, 0.05, height)))).height_map for height in (0.03, 0.06))
    kept = smooth_heights(first)
    assert smooth_heights(second).max() > kept.max() + 0.02
    assert smooth_heights(first) is kept
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0] = 1.0


def test_the_shadow_behind_a_tall_wall_is_table():
    height_map = map_of(render(placed(box(0.02, 0.10, 0.12), 0.10)))
    assert height_map.sample(np.array([[0.125, 0.0], [0.130, 0.0]])).max() < 0.02


def test_a_single_flying_pixel_is_removed():
    view = render(nothing())
    depth = view.depth.copy()
    depth[64, 64] = 0.6
    assert map_of(OverheadView(depth, KG1, view.camera_in_workspace)).heights.max() < 0.06
    assert perceive(OverheadView(depth, KG1, view.camera_in_workspace)).segments == ()


def test_large_image_gives_the_same_map():
    surface = placed(box(0.08, 0.05, 0.04), 0.02, 0.01, 0.5)
    small = map_of(render(surface))
    large = map_of(render(surface, intrinsics=Intrinsics(320, 240, 480.0, 480.0, 159.5, 119.5)))
    assert large.measured[12:-12, 12:-12].mean() > 0.95
    assert np.mean(np.abs(small.heights - large.heights)[20:-20, 20:-20] > 0.004) < 0.02


def test_segments_are_largest_first_with_area_centroid_and_top():
    view = render(
        union(placed(box(0.08, 0.06, 0.05), -0.07, 0.02), placed(cylinder(0.025, 0.03), 0.08, -0.05)),
        noise=np.random.default_rng(2),
    )
    first, second = perceive(view).segments
    assert first.area == pytest.approx(0.0048, rel=0.15)
    assert second.area == pytest.approx(np.pi * 0.025**2, rel=0.25)
    assert np.linalg.norm(first.centroid - [-0.07, 0.02]) < 0.003
    assert np.linalg.norm(second.centroid - [0.08, -0.05]) < 0.003
    assert first.top == pytest.approx(0.05, abs=0.004)
    assert second.top == pytest.approx(0.03, abs=0.004)
    assert not first.touches_border


@pytest.mark.parametrize("seed", range(8))
def test_an_empty_table_has_no_segments_and_says_so(seed):
    perceived = perceive(render(nothing(), noise=np.random.default_rng(seed)))
    assert perceived.segments == ()
    assert perceived.keypoints == ()
    assert "nothing stands on the table" in perceived.note


def test_an_object_at_the_image_edge_is_flagged():
    assert perceive(render(placed(box(0.08, 0.05, 0.04), 0.16))).segments[0].touches_border
    assert not perceive(render(placed(box(0.08, 0.05, 0.04), 0.08))).segments[0].touches_border


@pytest.mark.parametrize("turn", [0.0, 0.5 * np.pi, np.pi, 1.5 * np.pi])
def test_an_object_that_the_images_edge_cuts_off_goes_on_beyond_it(turn):
    x, y = 0.16 * np.cos(turn), 0.16 * np.sin(turn)
    view = render(placed(box(0.10, 0.10, 0.08), x, y), noise=np.random.default_rng(4))
    perceived = perceive(view)
    beyond = np.array([[0.178 * np.cos(turn), 0.178 * np.sin(turn)]])  # no pixel shows the box there
    assert map_of(view).sample(beyond)[0] < 0.02
    assert perceived.height_map.sample(beyond)[0] == pytest.approx(0.08, abs=0.01)


def test_a_whole_object_near_the_edge_changes_nothing():
    view = render(placed(box(0.08, 0.05, 0.04), 0.11), noise=np.random.default_rng(5))
    assert np.array_equal(perceive(view).height_map.heights, map_of(view).heights)


def test_a_ring_keeps_its_hole():
    mask = perceive(render(ring(0.05, 0.03, 0.03), noise=np.random.default_rng(3))).segments[0].mask
    assert not mask[69:75, 69:75].any()


def test_small_specks_are_not_objects():
    assert perceive(render(placed(cylinder(0.004, 0.03)))).segments == ()


def test_a_workspace_that_leaves_nothing_says_so():
    config = PerceptionConfig(workspace_x=(-0.02, 0.02))
    view = render(placed(box(0.05, 0.05, 0.04), 0.1))
    perceived = perceive(view, config)
    assert perceived.segments == ()
    assert "1 object(s) stand on the table, but none in the workspace" in perceived.note
    found = segment(map_of(view))
    assert len(found) == 1
    assert in_workspace(found, config) == ()
