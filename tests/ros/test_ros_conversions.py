"""Messages to nouns and back: nothing is lost, nothing bad gets through."""

import math

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Quaternion
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keygrasp_interfaces.msg import GraspPlan as PlanMessage
from keygrasp_ros import conversions as convert
from keygrasp_ros.scene_conversions import keypoints_message, keypoints_of, scene_message, scene_of
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Header

from keygrasp.errors import ImageError, InputError
from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.perception import perceive
from keygrasp.scene import GraspPlan, Outcome, OverheadView, PlanarGrasp, TrialOutcome

pytestmark = pytest.mark.ros
HEADER = Header(stamp=Time(sec=5, nanosec=7), frame_id="camera")
metres = st.floats(-5, 5)
grasps = st.builds(PlanarGrasp, metres, metres, metres, st.floats(-1.5, 1.5), st.floats(0, 0.1), st.floats(-1e6, 1e6))


def same_grasp(a, b):
    return np.allclose([a.x, a.y, a.z, a.yaw, a.width, a.score], [b.x, b.y, b.z, b.yaw, b.width, b.score], atol=1e-12)


@given(hnp.arrays(np.float32, (5, 7), elements=st.one_of(st.floats(0.125, 8, width=32), st.just(float("nan")))))
def test_depth_survives_the_message(depth):
    back = convert.depth_of(convert.depth_message(depth, HEADER))
    np.testing.assert_array_equal(back, depth)


@pytest.mark.parametrize(("big", "order"), [(0, "<u2"), (1, ">u2")])
def test_millimetres_of_either_byte_order_with_padded_rows(big, order):
    raw = np.zeros((2, 4), order)  # two columns of padding
    raw[:, :2] = [[1000, 0], [250, 65535]]
    image = Image(height=2, width=2, encoding="16UC1", is_bigendian=big, step=8, data=raw.tobytes())
    np.testing.assert_allclose(convert.depth_of(image), [[1.0, np.nan], [0.25, 65.535]], rtol=1e-6)


@pytest.mark.parametrize(
    "change",
    [{"encoding": "rgb8"}, {"encoding": ""}, {"height": 3}, {"step": 4}, {"step": 9}, {"width": 0}, {"data": b""}],
)
def test_images_whose_parts_do_not_fit_are_refused(change):
    image = convert.depth_message(np.ones((2, 2), np.float32), HEADER)
    for name, value in change.items():
        setattr(image, name, value)
    with pytest.raises(ImageError):
        convert.depth_of(image)


def test_camera_info_survives_the_message():
    intrinsics = Intrinsics(8, 6, 200.0, 210.0, 3.5, 2.5)
    assert convert.intrinsics_of(convert.camera_info_message(intrinsics, HEADER)) == intrinsics


def test_binned_and_cropped_camera_info():
    info = convert.camera_info_message(Intrinsics(640, 480, 500.0, 500.0, 320.0, 240.0), HEADER)
    info.binning_x = info.binning_y = 2
    info.roi.x_offset, info.roi.y_offset, info.roi.width, info.roi.height = 100, 40, 400, 400
    assert convert.intrinsics_of(info) == Intrinsics(200, 200, 250.0, 250.0, 110.0, 100.0)


def test_distorted_and_empty_camera_info_are_refused():
    info = convert.camera_info_message(Intrinsics(8, 6, 200.0, 210.0, 3.5, 2.5), HEADER)
    info.d = [0.1, 0.0, 0.0, 0.0, 0.0]
    with pytest.raises(ImageError, match="rectified"):
        convert.intrinsics_of(info)
    with pytest.raises(ImageError):
        convert.intrinsics_of(CameraInfo())


@pytest.mark.parametrize(
    ("frame", "stamp", "size", "match"),
    [("other", 5, 8, "frame"), ("", 5, 8, "frame_id"), ("camera", 6, 8, "stamp"), ("camera", 5, 9, "shape")],
)
def test_camera_info_of_another_image_is_refused(frame, stamp, size, match):
    image = convert.depth_message(np.ones((8, 8), np.float32), HEADER)
    info_header = Header(stamp=Time(sec=stamp, nanosec=7), frame_id=frame)
    info = convert.camera_info_message(Intrinsics(size, size, 20.0, 20.0, 3.5, 3.5), info_header)
    with pytest.raises(InputError, match=match):
        convert.view_of(image, info, overhead_pose(0.7))


@given(grasps)
def test_grasps_survive_the_message(grasp):
    assert same_grasp(convert.grasp_of(convert.grasp_message(grasp)), grasp)


@pytest.mark.parametrize("name", ["x", "y", "z", "yaw", "width", "score"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_grasp_that_is_not_finite_is_refused_both_ways(name, value):
    message = convert.grasp_message(PlanarGrasp(0, 0, 0, 0, 0.05))
    setattr(message, name, value)
    with pytest.raises(InputError):
        convert.grasp_of(message)
    if name == "score":
        with pytest.raises(InputError):
            convert.grasp_message(PlanarGrasp(0, 0, 0, 0, 0.05, value))


@given(st.lists(grasps, max_size=3), st.lists(grasps, max_size=3), st.one_of(st.none(), st.floats(0, 1)))
def test_plans_survive_the_message(candidates, path, probability):
    plan = GraspPlan(
        grasp=candidates[0] if candidates else None,
        candidates=tuple(candidates),
        rejections={"collision": 3},
        reason="" if candidates else "nothing",
        path=tuple(path),
        success_probability=probability,
        evaluations=9,
        timings_ms={"generate": 1.5},
    )
    back = convert.plan_of(convert.plan_message(plan, HEADER, "geometric", 2))
    assert (back.grasp is None) == (plan.grasp is None)
    assert all(same_grasp(a, b) for a, b in zip(back.candidates + back.path, plan.candidates + plan.path, strict=True))
    for name in ("rejections", "reason", "success_probability", "evaluations", "timings_ms"):
        assert getattr(back, name) == getattr(plan, name)


def test_a_probability_beyond_one_is_refused():
    with pytest.raises(InputError, match="probability"):
        convert.plan_of(PlanMessage(success_probability_known=True, success_probability=1.5))


@given(st.sampled_from(Outcome), st.floats(-1, 1), st.text(max_size=20))
def test_outcomes_survive_the_message(outcome, rise, text):
    text = text.replace("\0", "").encode("utf-8", "ignore").decode()
    before = TrialOutcome(outcome, rise, 0.02, 3.0, 4.0, text)
    assert convert.outcome_of(convert.outcome_message(before, Time())) == before


@pytest.mark.parametrize(
    ("position", "quaternion"),
    [((math.nan, 0, 0), (0, 0, 0, 1)), ((0, 0, 0), (0, 0, 0, 0)), ((0, 0, 0), (0, 0, math.nan, 1))],
)
def test_poses_that_are_none_are_refused(position, quaternion):
    point = Point(**dict(zip("xyz", map(float, position), strict=True)))
    turn = Quaternion(**dict(zip("xyzw", map(float, quaternion), strict=True)))
    with pytest.raises(InputError, match="thing"):
        convert.pose_matrix(point, turn, "thing")


@given(metres, metres, metres, st.floats(-math.pi, math.pi))
def test_poses_survive_the_message(x, y, z, yaw):
    pose = convert.grasp_pose(PlanarGrasp(x, y, z, yaw, 0.05))
    message = convert.pose_message(pose)
    np.testing.assert_allclose(convert.pose_matrix(message.position, message.orientation, "pose"), pose, atol=1e-9)


def test_a_grasp_pose_points_down_with_x_along_the_closing_axis():
    grasp = PlanarGrasp(0.1, 0.2, 0.3, 0.4, 0.05)
    pose = convert.grasp_pose(grasp)
    np.testing.assert_allclose(pose[:2, 0], grasp.closing_axis)
    np.testing.assert_allclose(pose[:3, 2], [0, 0, -1])
    assert np.linalg.det(pose[:3, :3]) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def perceived():
    """Two boxes on a table, seen from above."""
    intrinsics = Intrinsics(128, 128, 256.0, 256.0, 63.5, 63.5)
    depth = np.full((128, 128), 0.7, np.float32)
    depth[30:60, 20:50], depth[80:100, 80:104] = 0.65, 0.66
    return perceive(OverheadView(depth, intrinsics, overhead_pose(0.7)))


def test_perceived_scenes_survive_the_message(perceived):
    back = scene_of(scene_message(perceived, HEADER))
    assert len(back.segments) == len(perceived.segments) == 2
    np.testing.assert_array_equal(back.height_map.heights, perceived.height_map.heights)
    np.testing.assert_array_equal(back.height_map.measured, perceived.height_map.measured)
    np.testing.assert_array_equal(back.height_map.origin, perceived.height_map.origin)
    for ours, theirs in zip(back.segments, perceived.segments, strict=True):
        np.testing.assert_array_equal(ours.mask, theirs.mask)
        assert (ours.area, ours.top, ours.touches_border) == (theirs.area, theirs.top, theirs.touches_border)
    for ours, theirs in zip(back.keypoints, perceived.keypoints, strict=True):
        for name in ("kind", "mask"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        for name in ("position", "normal", "radius", "contacts"):
            np.testing.assert_array_equal(getattr(ours, name)[ours.mask], getattr(theirs, name)[theirs.mask])
    np.testing.assert_allclose(back.table.normal, perceived.table.normal)
    assert back.table.tilt == pytest.approx(perceived.table.tilt, abs=1e-6)


def test_damaged_scenes_are_refused(perceived):
    for damage in (
        lambda s: setattr(s.height_map, "rows", 143),
        lambda s: setattr(s.height_map, "rows", 2**31),
        lambda s: s.height_map.heights.__setitem__(0, math.nan),
        lambda s: setattr(s.table, "normal", np.zeros(3)),
        lambda s: s.objects[0].keypoints.kinds.__setitem__(0, 9),
        lambda s: s.objects[0].keypoints.kinds.reverse(),
        lambda s: s.objects[0].keypoints.positions.__setitem__(0, math.nan),
        lambda s: s.objects[0].keypoints.contacts.pop(),
        lambda s: setattr(s.objects[0], "area", math.nan),
    ):
        scene = scene_message(perceived, HEADER)
        damage(scene)
        with pytest.raises(InputError):
            scene_of(scene)


def test_more_keypoints_than_rows_are_refused(perceived):
    message = keypoints_message(perceived.keypoints[0])
    for name in ("kinds", "positions", "normals", "radii", "contacts"):
        setattr(message, name, getattr(message, name) * 20)
    with pytest.raises(InputError, match="too many"):
        keypoints_of(message)
