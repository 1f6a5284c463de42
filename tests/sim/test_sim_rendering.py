from __future__ import annotations

import numpy as np
import pytest

from keygrasp.errors import InputError
from keygrasp.geometry.cameras import Intrinsics, overhead_pose, project
from keygrasp.geometry.poses import invert_pose, make_pose, transform_points
from keygrasp.sim import look_at, pinhole

CAMERAS = [Intrinsics(128, 128, 256, 256, 63.5, 63.5), Intrinsics(160, 120, 210, 230, 60.0, 70.25)]


def _tilted(degrees: float) -> np.ndarray:
    a = np.radians(degrees)
    turn = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    b = np.radians(degrees / 2)
    roll = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    return make_pose((-0.1, 0.2, 0.7), turn @ roll @ np.diag([1.0, -1.0, -1.0]))


def _place_box(world, box):
    handle = world.add_object(box(0.05, 0.04, 0.10), (0.02, 0.03, 0.05))
    return transform_points(world.object_pose(handle), handle.points)


@pytest.mark.parametrize("camera", CAMERAS)
def test_overhead_depth_is_metric(world, box, camera):
    _place_box(world, box)
    depth = world.render_depth(camera, overhead_pose(0.70))
    assert depth.shape == (camera.height, camera.width)
    assert depth.dtype == np.float32
    assert np.nanmin(depth) == pytest.approx(0.60, abs=1e-4)
    assert np.nanmax(depth) == pytest.approx(0.70, abs=1e-4)


@pytest.mark.parametrize("camera", CAMERAS)
def test_box_covers_the_pixels_that_the_pinhole_model_says(world, box, camera):
    corners = _place_box(world, box)
    pose = overhead_pose(0.70)
    pixels = project(transform_points(invert_pose(pose), corners[corners[:, 2] > 0.05]), camera)
    rows, columns = np.nonzero(world.render_depth(camera, pose) < 0.601)
    assert columns.min() - 0.5 == pytest.approx(pixels[:, 0].min(), abs=0.51)
    assert columns.max() + 0.5 == pytest.approx(pixels[:, 0].max(), abs=0.51)
    assert rows.min() - 0.5 == pytest.approx(pixels[:, 1].min(), abs=0.51)
    assert rows.max() + 0.5 == pytest.approx(pixels[:, 1].max(), abs=0.51)


@pytest.mark.parametrize("camera", CAMERAS)
def test_tilted_camera_sees_the_table_where_rays_meet_it(world, camera):
    """Depth along a slanted plane is sensitive to a fifth of a pixel, unlike that of a flat one."""
    pose = _tilted(25)
    depth = world.render_depth(camera, pose)
    rows, columns = np.indices(depth.shape)
    rays = np.stack([(columns - camera.cx) / camera.fx, (rows - camera.cy) / camera.fy, np.ones(depth.shape)], axis=-1)
    expected = -pose[2, 3] / (rays @ pose[:3, :3].T)[..., 2]
    assert np.abs(depth - expected).max() < 5e-5


def test_beyond_the_table_there_is_nothing(world):
    depth = world.render_depth(CAMERAS[0], look_at((0.0, -0.5, 0.1), (0.0, 0.0, 0.12)))
    assert np.isnan(depth[0]).all()
    assert np.isfinite(depth[-1]).all()


def test_picture_shows_the_object(world, box):
    before = world.render_rgb(160, 120)
    _place_box(world, box)
    after = world.render_rgb(160, 120)
    assert after.shape == (120, 160, 3)
    assert after.dtype == np.uint8
    assert (before != after).any(axis=-1).sum() > 50


def test_picture_shows_the_table_top_and_the_depth_image_the_ground(world):
    eye = look_at((0.48, -0.52, 0.42), (-0.06, 0.0, 0.0))
    depth = world.render_depth(CAMERAS[0], eye)
    picture = world.render_rgb(160, 120, eye).astype(int)
    assert np.ptp(picture[-20:].reshape(-1, 3), axis=0).max() < 10, "the ground's chequers show through the table"
    assert picture[-20:].mean() < 230, "there is no table"
    np.testing.assert_array_equal(world.render_depth(CAMERAS[0], eye), depth)


def test_look_at_puts_the_target_in_the_middle():
    camera = pinhole(200, 100, 0.8)
    pose = look_at((0.5, -0.4, 0.6), (0.1, 0.05, 0.02))
    above = transform_points(invert_pose(pose), np.array([[0.1, 0.05, 0.02], [0.1, 0.05, 0.05]]))
    pixels = project(above, camera)
    assert pixels[0] == pytest.approx((99.5, 49.5))
    assert pixels[1, 1] < pixels[0, 1]
    assert np.linalg.det(pose[:3, :3]) == pytest.approx(1.0)
    with pytest.raises(InputError, match="above each other"):
        look_at((0, 0, 1), (0, 0, 0))
