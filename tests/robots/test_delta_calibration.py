"""Where the table is: exact on exact points, honest about bad ones."""

import math

import numpy as np
import pytest
from delta_setup import config, emulator
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.geometry.poses import make_pose, rotation_from_quaternion, rotation_z, transform_points
from keygrasp.robots.delta_x import DeltaX, calibrate, load_calibration, save_calibration
from keygrasp.robots.delta_x.jogging import parse_step, touch_points

CORNERS = np.array([[0.08, 0.08, 0], [-0.08, 0.08, 0], [-0.08, -0.08, 0], [0.08, -0.08, 0], [0, 0, 0.03]], dtype=float)


@given(st.floats(-math.pi, math.pi), st.tuples(*[st.floats(-1, 1)] * 3))
@settings(max_examples=30, deadline=None)
def test_exact_points_give_the_exact_pose(yaw, position):
    pose = make_pose(position, rotation_z(yaw))
    found = calibrate(CORNERS, transform_points(pose, CORNERS))
    np.testing.assert_allclose(found.pose, pose, atol=1e-9)
    assert found.rms < 1e-9


def test_a_camera_may_look_from_anywhere():
    pose = make_pose((0.1, 0.2, -0.05), rotation_from_quaternion((0.9, 0.1, 0.3, 0.2)))
    found = calibrate(CORNERS, transform_points(pose, CORNERS), "camera_optical")
    np.testing.assert_allclose(found.pose, pose, atol=1e-9)


def test_noise_of_half_a_millimetre_is_accepted_and_shown():
    rng = np.random.default_rng(0)
    pose = make_pose((0, 0, -0.44), rotation_z(0.3))
    noisy = transform_points(pose, CORNERS) + rng.normal(0, 5e-4, CORNERS.shape)
    found = calibrate(CORNERS, noisy)
    assert 1e-4 < found.rms < 1.5e-3
    np.testing.assert_allclose(found.pose[:3, 3], pose[:3, 3], atol=1e-3)


def test_one_wrong_point_is_refused_and_named():
    touched = transform_points(make_pose((0, 0, -0.44)), CORNERS)
    touched[2] += [0.02, 0, 0]
    with pytest.raises(InputError, match="point 3 again"):
        calibrate(CORNERS, touched)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda p: p * [1, -1, 1],  # a left-handed frame
        lambda p: p * 1e3,  # millimetres
        lambda p: p[[1, 0, 2, 3, 4]],  # the order
    ],
)
def test_systematic_mistakes_are_refused(mistake):
    touched = transform_points(make_pose((0, 0, -0.44)), CORNERS)
    with pytest.raises(InputError, match="residuals"):
        calibrate(mistake(CORNERS), touched)


def test_degenerate_points_are_refused():
    line = np.outer(np.arange(5), [0.02, 0.0, 0.0])
    with pytest.raises(InputError, match="in a line"):
        calibrate(line, line)
    with pytest.raises(InputError, match="enough"):
        calibrate(CORNERS[:3], CORNERS[:3])
    with pytest.raises(InputError, match="same points"):
        calibrate(CORNERS, CORNERS[:4])
    with pytest.raises(InputError, match="finite"):
        calibrate(CORNERS * np.nan, CORNERS)
    with pytest.raises(InputError, match="no positive length"):
        calibrate(CORNERS, CORNERS, limit=math.nan)


def test_a_tilted_table_is_refused():
    tilt = rotation_from_quaternion((math.sin(math.radians(2)), 0, 0, math.cos(math.radians(2))))  # 4 degrees
    touched = transform_points(make_pose((0, 0, -0.44), tilt), CORNERS)
    with pytest.raises(InputError, match=r"tilted by 4\.0°"):
        calibrate(CORNERS, touched)


def test_files_keep_the_pose(tmp_path):
    pose = make_pose((0.01, 0.02, -0.44), rotation_z(0.7))
    save_calibration(tmp_path / "table.yaml", calibrate(CORNERS, transform_points(pose, CORNERS)))
    np.testing.assert_allclose(load_calibration(tmp_path / "table.yaml").pose, pose, atol=1e-12)
    with pytest.raises(ConfigurationError):
        load_calibration(tmp_path / "missing.yaml")


@pytest.mark.parametrize("text", ["", "x", "w 3", "x 1 2", "x nan", "x 500", "x 0.01", "ok ok", "x five"])
def test_steps_that_are_none_are_refused(text):
    with pytest.raises(InputError):
        parse_step(text)


def test_steps():
    assert parse_step("X 5").offset == pytest.approx((0.005, 0, 0))
    assert parse_step("z -2.5\n").offset == pytest.approx((0, 0, -0.0025))
    assert parse_step("ok").done


@pytest.mark.hardware
def test_points_are_touched_with_typed_steps():
    pytest.importorskip("serial")
    said = []
    with emulator() as robot, DeltaX(config(robot.path)) as driver:
        lines = ["x 5", "z -50", "z -50", "x 30", "up", "ok", "x -60", "z 300", "ok"]
        touched = touch_points(driver, CORNERS[:2], lines, said.append)
        home = driver.model.home_z
        with pytest.raises(InputError, match="point 1 of 2"):
            touch_points(driver, CORNERS[:2], ["x 1"], said.append)
    np.testing.assert_allclose(touched, [[0.03, 0, home - 0.16], [-0.03, 0, home - 0.16]], atol=2e-5)
    assert any("is not a step" in text for text in said)
    assert any("300" in text for text in said)
    refused = next(text for text in said if "an arm would be above its home position" in text)
    assert refused.startswith("not moved: tip at 1.00, 0.00, -260.31 mm")  # 60 mm below the platform, as 'tip at' says
    assert refused.endswith("go down first: z -20")
