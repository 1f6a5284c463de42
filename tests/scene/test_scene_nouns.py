import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keygrasp.errors import ImageError, InputError
from keygrasp.geometry.cameras import Intrinsics, depth_in_metres, overhead_pose
from keygrasp.scene import (
    ROWS,
    TOTAL_ROWS,
    GripperSpec,
    HeightMap,
    KeypointKind,
    Keypoints,
    Outcome,
    OverheadView,
    PlanarGrasp,
    TrialOutcome,
)

INTRINSICS = Intrinsics(8, 6, 10.0, 10.0, 3.5, 2.5)
DEPTH = np.full((6, 8), 0.7, np.float32)


def test_a_right_view_is_taken():
    view = OverheadView(DEPTH, INTRINSICS, overhead_pose(0.7), stamp=3.0)
    assert view.stamp == 3.0


def test_depth_in_millimetres_is_named():
    with pytest.raises(ImageError, match="millimetres"):
        OverheadView(DEPTH * np.float32(1000), INTRINSICS, overhead_pose(0.7))


def test_missing_depth_as_zero_is_refused():
    depth = DEPTH.copy()
    depth[2, 3] = 0.0
    with pytest.raises(ImageError, match="must be NaN, not 0"):
        OverheadView(depth, INTRINSICS, overhead_pose(0.7))


def test_converted_depth_never_holds_zero():
    raw = np.full((6, 8), 700, np.uint16)
    raw[0, 0] = 0
    depth = depth_in_metres(raw, "16UC1")
    assert np.isnan(depth[0, 0])
    assert depth[1, 1] == pytest.approx(0.7)
    OverheadView(depth, INTRINSICS, overhead_pose(0.7))


def test_an_image_resized_without_its_intrinsics_is_refused():
    with pytest.raises(ImageError, match="Crop or resize the intrinsics together with the image"):
        OverheadView(np.full((12, 16), 0.7, np.float32), INTRINSICS, overhead_pose(0.7))


@pytest.mark.parametrize(
    ("depth", "message"),
    [
        (DEPTH.astype(np.float64), "float32"),
        (np.full((6, 8), np.nan, np.float32), "no valid pixel"),
        (DEPTH * np.float32(-1), "≤ 0"),
    ],
)
def test_unusable_depth_is_refused(depth, message):
    with pytest.raises(ImageError, match=message):
        OverheadView(depth, INTRINSICS, overhead_pose(0.7))


@pytest.mark.parametrize("pose", [np.eye(3), np.full((4, 4), np.nan), np.diag([2.0, 2.0, 2.0, 1.0])])
def test_unusable_camera_poses_are_refused(pose):
    with pytest.raises(ImageError, match="camera_in_workspace"):
        OverheadView(DEPTH, INTRINSICS, pose)


@given(yaw=st.floats(-50, 50))
def test_yaw_is_wrapped_without_turning_the_closing_axis(yaw):
    grasp = PlanarGrasp(0, 0, 0.01, yaw, 0.05)
    assert -math.pi / 2 <= grasp.yaw < math.pi / 2
    assert abs(grasp.closing_axis @ [math.cos(yaw), math.sin(yaw)]) == pytest.approx(1.0, abs=1e-9)


def test_a_grasp_must_be_finite():
    with pytest.raises(InputError, match="width is nan"):
        PlanarGrasp(0, 0, 0, 0, math.nan)


def test_replace_changes_a_copy():
    grasp = PlanarGrasp(0, 0, 0.01, 0.2, 0.05)
    assert grasp.replace(z=0.02) == PlanarGrasp(0, 0, 0.02, 0.2, 0.05)
    assert grasp.z == 0.01


@pytest.mark.parametrize("change", [{"max_opening": 0.0}, {"force": math.nan}, {"min_opening": 0.1}])
def test_impossible_grippers_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        GripperSpec(**change)


def small_map():
    heights = np.arange(12, dtype=np.float32).reshape(3, 4)
    return HeightMap(heights, np.ones((3, 4), bool), np.array([-0.01, 0.02]), 0.005)


@given(row=st.floats(-10, 10), column=st.floats(-10, 10))
def test_cells_and_points_are_inverse(row, column):
    height_map = small_map()
    cells = np.array([row, column])
    assert np.allclose(height_map.cells_of(height_map.xy_of(cells)), cells)


def test_sampling_takes_the_nearest_cell_and_the_table_outside():
    height_map = small_map()
    assert height_map.sample(np.array([-0.01 + 0.005 * 2 + 0.002, 0.02 + 0.005])) == 6.0
    assert height_map.sample(np.array([[-0.02, 0.02], [1.0, 1.0]])).tolist() == [0.0, 0.0]
    assert height_map.sample(np.zeros((2, 3, 2))).shape == (2, 3)


def test_a_map_must_be_consistent():
    with pytest.raises(InputError, match="one 2-D shape"):
        HeightMap(np.zeros((3, 4), np.float32), np.ones((4, 3), bool), np.zeros(2), 0.005)
    with pytest.raises(InputError, match="cell must be positive"):
        HeightMap(np.zeros((3, 4), np.float32), np.ones((3, 4), bool), np.zeros(2), 0.0)


def keypoint_arrays():
    return {
        "position": np.arange(TOTAL_ROWS * 3, dtype=np.float32).reshape(-1, 3),
        "normal": np.zeros((TOTAL_ROWS, 2), np.float32),
        "radius": np.zeros(TOTAL_ROWS, np.float32),
        "contacts": np.zeros((TOTAL_ROWS, 2, 2), np.float32),
        "kind": np.repeat([int(k) for k in ROWS], list(ROWS.values())).astype(np.int8),
        "mask": np.ones(TOTAL_ROWS, bool),
    }


def test_keypoints_of_a_kind_are_the_used_rows():
    arrays = keypoint_arrays()
    arrays["mask"][ROWS[KeypointKind.CONTOUR] + 5 :] = False
    keypoints = Keypoints(**arrays)
    assert len(keypoints.of(KeypointKind.CONTOUR)) == 64
    assert len(keypoints.of(KeypointKind.SKELETON)) == 5
    assert len(keypoints.of(KeypointKind.SURFACE)) == 0


@pytest.mark.parametrize("name", ["position", "normal", "radius", "contacts", "kind", "mask"])
def test_keypoints_of_another_shape_are_refused(name):
    arrays = keypoint_arrays()
    arrays[name] = arrays[name][:-1]
    with pytest.raises(InputError, match=name):
        Keypoints(**arrays)


def test_only_success_is_success():
    assert [o for o in Outcome if TrialOutcome(o).success] == [Outcome.SUCCESS]
