import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from synthetic_views import box, cylinder, l_shape, placed, render, ring

from keygrasp.perception import perceive
from keygrasp.perception.keypoints import _ridge
from keygrasp.scene import ROWS, KeypointKind


def rows_of(keypoints, kind):
    return keypoints.mask & (keypoints.kind == kind)


def keypoints_of(surface, seed=None):
    noise = None if seed is None else np.random.default_rng(seed)
    return perceive(render(surface, noise=noise)).keypoints[0]


def test_rows_are_filled_by_kind():
    keypoints = keypoints_of(box(0.09, 0.05, 0.04), seed=0)
    assert rows_of(keypoints, KeypointKind.CONTOUR).sum() == ROWS[KeypointKind.CONTOUR]
    assert rows_of(keypoints, KeypointKind.SURFACE).sum() == ROWS[KeypointKind.SURFACE]
    assert 3 <= rows_of(keypoints, KeypointKind.SKELETON).sum() <= ROWS[KeypointKind.SKELETON]
    unused = ~keypoints.mask
    assert np.all(keypoints.position[unused] == 0)
    used = keypoints.mask[: ROWS[KeypointKind.CONTOUR]]
    assert np.all(np.diff(used.astype(int)) <= 0)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_cylinder_contour_radius_and_normals(seed):
    keypoints = keypoints_of(placed(cylinder(0.04, 0.03), 0.02, -0.03), seed)
    contour = rows_of(keypoints, KeypointKind.CONTOUR)
    offsets = keypoints.position[contour, :2] - [0.02, -0.03]
    radii = np.linalg.norm(offsets, axis=1)
    assert abs(radii.mean() - 0.04) < 0.002
    cosines = np.sum(keypoints.normal[contour] * offsets, axis=1) / radii
    assert np.quantile(cosines, 0.05) > 0.85
    assert np.allclose(np.linalg.norm(keypoints.normal[contour], axis=1), 1, atol=1e-5)


def test_ring_normals_point_into_its_hole():
    keypoints = keypoints_of(ring(0.055, 0.03, 0.03))
    contour = rows_of(keypoints, KeypointKind.CONTOUR)
    xy = keypoints.position[contour, :2]
    outward = np.sum(keypoints.normal[contour] * xy, axis=1)
    inner = np.linalg.norm(xy, axis=1) < 0.0425
    assert inner.sum() > 12
    assert np.all(outward[inner] < 0)
    assert np.all(outward[~inner] > 0)


@pytest.mark.parametrize("seed", [None, 3])
def test_skeleton_of_a_box_has_its_half_width_and_opposite_contacts(seed):
    keypoints = keypoints_of(placed(box(0.12, 0.04, 0.04), 0.0, 0.0, 0.0), seed)
    skeleton = rows_of(keypoints, KeypointKind.SKELETON)
    radii = keypoints.radius[skeleton]
    assert np.all(np.diff(radii) <= 0)
    assert radii[0] == pytest.approx(0.02, abs=0.002)
    middle = np.abs(keypoints.position[skeleton, 0]) < 0.03
    assert np.all(np.abs(keypoints.position[skeleton, 1][middle & (radii > 0.017)]) < 0.004)
    lines = np.diff(keypoints.contacts[skeleton][radii > 0.018], axis=1)[:, 0]
    assert np.all(np.abs(lines[:, 1]) > 0.9 * np.linalg.norm(lines, axis=1))
    assert np.allclose(np.linalg.norm(lines, axis=1), 0.04, atol=0.0055)


def test_skeleton_circles_touch_their_contacts():
    keypoints = keypoints_of(placed(l_shape(0.10, 0.03, 0.04), yaw=0.4), seed=4)
    skeleton = rows_of(keypoints, KeypointKind.SKELETON)
    nearest = np.linalg.norm(keypoints.contacts[skeleton, 0] - keypoints.position[skeleton, :2], axis=1)
    assert np.allclose(nearest, keypoints.radius[skeleton], atol=1e-5)


def test_heights_are_the_surface_and_not_the_edge():
    keypoints = keypoints_of(box(0.09, 0.05, 0.04), seed=5)
    for kind in KeypointKind:
        heights = keypoints.position[rows_of(keypoints, kind), 2]
        assert abs(np.median(heights) - 0.04) < 0.003, kind
    assert np.quantile(keypoints.position[rows_of(keypoints, KeypointKind.CONTOUR), 2], 0.1) > 0.02


def test_surface_samples_are_in_raster_order():
    keypoints = keypoints_of(placed(cylinder(0.04, 0.03)))
    y = keypoints.position[rows_of(keypoints, KeypointKind.SURFACE), 1]
    assert np.all(np.diff(y) >= 0)


def test_same_view_same_order():
    view = render(placed(l_shape(0.10, 0.03, 0.04), yaw=0.4), noise=np.random.default_rng(6))
    first, second = perceive(view).keypoints[0], perceive(view).keypoints[0]
    for name in ("position", "normal", "radius", "contacts", "mask"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def test_the_ridge_is_the_same_wherever_buffers_lie_in_memory():
    """OpenCV's distances differed in their last bit between runs, and with it the choice of circles."""
    mask = perceive(render(placed(l_shape(0.1, 0.04, 0.03), 0.02, 0.01, 0.5))).segments[0].mask
    blocks, seen = [], set()
    for size in range(1, 4000, 40):
        blocks.append(np.empty(size, np.uint8))
        rows, columns, distances = _ridge(mask)
        seen.add((rows.tobytes(), columns.tobytes(), distances.tobytes()))
    assert len(seen) == 1
    squares = np.rint(distances.astype(float) ** 2)
    np.testing.assert_array_equal(distances, np.sqrt(squares.astype(np.float32)))


def test_the_outline_runs_counter_clockwise_from_the_farthest_point():
    keypoints = keypoints_of(placed(l_shape(0.10, 0.03, 0.04)))
    xy = keypoints.position[rows_of(keypoints, KeypointKind.CONTOUR), :2].astype(float)
    following = np.roll(xy, -1, axis=0)
    assert np.sum(xy[:, 0] * following[:, 1] - xy[:, 1] * following[:, 0]) > 0
    distances = np.linalg.norm(xy - xy.mean(axis=0), axis=1)
    assert distances[0] > distances.max() - 0.003


@pytest.fixture(scope="module")
def unmoved():
    return keypoints_of(l_shape(0.11, 0.03, 0.03))


@settings(max_examples=8, deadline=None)
@given(x=st.floats(-0.05, 0.05), y=st.floats(-0.05, 0.05), yaw=st.floats(-3.1, 3.1))
@example(x=0.046875, y=0.0, yaw=1.75)
def test_keypoints_move_along_with_the_object(unmoved, x, y, yaw):
    """An asymmetric shape's outline, circles and heights follow its pose, row by row for the outline."""
    base = unmoved
    moved = keypoints_of(placed(l_shape(0.11, 0.03, 0.03), x, y, yaw))
    c, s = np.cos(yaw), np.sin(yaw)
    turn = np.array([[c, -s], [s, c]])

    def expected(kind):
        return base.of(kind)[:, :2] @ turn.T + [x, y]

    outline, circles = moved.of(KeypointKind.CONTOUR)[:, :2], moved.of(KeypointKind.SKELETON)[:, :2]
    gaps = np.linalg.norm(outline[:, None] - expected(KeypointKind.CONTOUR)[None], axis=2).min(axis=1)
    assert np.quantile(gaps, 0.95) < 0.005
    assert np.max(moved.radius) == pytest.approx(np.max(base.radius), abs=0.003)  # a cell and a half
    reach = np.linalg.norm(circles[:, None] - expected(KeypointKind.SKELETON)[None], axis=2).min(axis=1)
    assert np.quantile(reach, 0.8) < 0.010
