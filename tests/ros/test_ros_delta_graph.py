"""The Delta's whole graph with an emulated robot: from the image to the closed gripper, and no word of success."""

import os
import signal
import sys

import numpy as np
import pytest
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.client import PickClient
from keygrasp_ros.frames import listen
from keygrasp_ros.graph import nodes_for
from keygrasp_ros.isolation import free_domain
from ros_processes import children_of, running
from test_ros_launch import launch, needs_launch  # noqa: F401 - a fixture

from keygrasp.errors import ConfigurationError
from keygrasp.robots.delta_x import Calibration, MotionConfig, save_calibration
from keygrasp.robots.delta_x.description import BASE

pytest.importorskip("serial")
pytestmark = [pytest.mark.ros, pytest.mark.hardware, pytest.mark.slow]
UP = [sys.executable, "-m", "keygrasp_ros.up", "delta", "--planner", "geometric"]


def check_pick(client):
    stages = []
    result = client.pick(on_feedback=lambda feedback: stages.append(feedback.stage)).result
    assert result.outcome.outcome == TrialOutcome.EMPTY, result.outcome.message
    assert "told to close to 2.0 mm, but nothing tells whether the object is held" in result.outcome.message
    assert "'keygrasp up delta --holding assumed'" in result.outcome.message
    assert result.outcome.opening == pytest.approx(0.002)
    assert not result.outcome.success
    assert stages[-4:] == ["approach", "descend", "close", "lift"]
    assert result.plan.grasp.width <= 0.04, "planned for another gripper"


def test_an_emulated_pick_from_image_to_lift_claims_no_success(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    camera = np.eye(4)
    camera[:3, :3], camera[:3, 3] = np.diag([1.0, -1.0, -1.0]), (0.0, 0.0, 0.26)
    save_calibration(tmp_path / "camera.yaml", Calibration("camera_optical", camera, np.empty(0)))
    child = run([*UP, "--emulate", "--emulator-scale", "5", "--hand-eye", str(tmp_path / "camera.yaml")])
    with PickClient() as client:
        client.wait_ready(120.0, running(child))
        check_pick(client)
        found = listen(client.node).wait_for_pose("camera_depth_optical_frame", BASE, 10.0)
        np.testing.assert_allclose(found, camera, atol=1e-9)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 0, output
    assert "Traceback" not in output


def test_a_robot_file_that_cannot_be_used_ends_it_with_one_line(run, tmp_path):
    bad = tmp_path / "robot.yaml"
    bad.write_text("serial_number: 1.23E+5\n")
    child = run([*UP, "--robot-file", str(bad)])
    output, _ = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "serial_number" in output
    assert "Traceback" not in output


def test_parameters_and_the_robots_file_make_one_set_up(tmp_path):
    from keygrasp_ros.delta_setup import PARAMETERS, robot_config, table_of

    values = {parameter.name: parameter.default for parameter in PARAMETERS}
    file = tmp_path / "robot.yaml"
    file.write_text('serial_number: "123E5"\nmotion: {speed: 0.4}\n')
    given = {**values, "robot_file": str(file), "speed": 0.25, "model": "V2"}
    config = robot_config(given.get)
    assert (config.serial_number, config.model, config.assume_held) == ("123E5", "V2", False)
    assert config.motion.speed == pytest.approx(0.1)
    assert config.motion.descend_speed == pytest.approx(0.25 * MotionConfig().descend_speed)
    assert robot_config({**given, "port": "/dev/ttyUSB7"}.get).serial_number is None, "the port was named"
    assert robot_config({**given, "holding": "assumed"}.get).assume_held
    assert table_of(config, given.get) is None, "nobody said where the table is"
    assert table_of(config, {**given, "emulate": True}.get).pose[2, 3] == pytest.approx(-0.442)
    assert table_of(config, {**given, "table_height": -0.4}.get).pose[2, 3] == pytest.approx(-0.4)
    save_calibration(tmp_path / "camera.yaml", Calibration("camera_optical", np.eye(4), np.empty(0)))
    wrong = robot_config({**given, "calibration": str(tmp_path / "camera.yaml")}.get)
    with pytest.raises(ConfigurationError, match="camera_optical"):
        table_of(wrong, given.get)


@needs_launch
def test_a_launched_graph_with_an_emulated_robot_picks_and_ends_with_ctrl_c(launch):  # noqa: F811 - the fixture
    child = launch("delta", "planner:=geometric", "emulate:=true", "emulator_scale:=5.0")
    with PickClient() as client:
        client.wait_ready(120.0, running(child))
        check_pick(client)
        assert len(children_of(child.pid)) == len(nodes_for("geometric", "delta", ("scene_camera",)))
    os.killpg(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 0, output
    assert "Traceback" not in output
