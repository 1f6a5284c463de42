"""The commands of docs/own-hardware.md, with a camera and robots that are not the project's."""

import contextlib
import functools
import subprocess
import sys

import numpy as np
import pytest
from documented import commands, forked
from keygrasp_interfaces.action import ExecuteGrasp
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.client import PickClient
from keygrasp_ros.goals import accept_cancel
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.topics import SCENE
from keygrasp_ros.waiting import wait_until
from rclpy.action import ActionServer
from rclpy.callback_groups import ReentrantCallbackGroup
from ros_calls import never
from sensor_msgs.msg import Image
from ur5_graph import Camera, run_fake_ur5

pytestmark = [pytest.mark.ros, pytest.mark.slow]
PAGE = "own-hardware.md"
REALSENSE = ("/camera/camera/depth/image_rect_raw", "/camera/camera/depth/camera_info")


@pytest.fixture
def mine(monkeypatch):
    """A node of others, with a camera like a RealSense: millimetres, on topics of its own."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    with (
        PickClient("hardware_of_others", "/cell") as client,
        contextlib.closing(Camera(client.node, REALSENSE, millimetres)),
    ):
        yield client


def millimetres(depth, header):
    pixels = np.nan_to_num(depth * 1e3, nan=0.0).round().astype("<u2")
    height, width = pixels.shape
    return Image(header=header, height=height, width=width, encoding="16UC1", step=2 * width, data=pixels.tobytes())


def start(fork, heading):
    """Start what a section of the page starts; returns its other commands."""
    given = commands(PAGE, heading)
    for words in given:
        if forked(words) is not None:
            fork(forked(words))
    return [words for words in given if forked(words) is None]


def run_all(given):
    for words in given:
        assert words[0] == "python"
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, timeout=120, check=False)
        lines = done.stdout.splitlines()
        assert lines, done.stderr
        assert lines[-1].partition(":")[0] == TrialOutcome.SUCCESS, done.stdout
        assert done.returncode == 0


def test_perception_alone_on_a_camera_of_others(mine, fork):
    start(fork, "Perception alone")
    heard = []
    mine.node.create_subscription(SCENE.type, f"/{SCENE.name}", heard.append, SCENE.qos)
    wait_until(lambda: heard, "nothing perceived", 60.0, never)
    assert heard[0].header.frame_id == "workspace"
    assert len(heard[0].objects) == 1


def test_planning_for_a_robot_of_others(mine, fork):
    goals = []

    def execute(handle):
        goals.append(handle.request)
        handle.succeed()
        return ExecuteGrasp.Result(outcome=TrialOutcome(outcome=TrialOutcome.SUCCESS, success=True, message="mine"))

    ActionServer(
        mine.node, ExecuteGrasp, "execute_grasp", execute,
        callback_group=ReentrantCallbackGroup(), cancel_callback=accept_cancel,
    )  # fmt: skip
    run_all(start(fork, "Planning for a robot of yours"))
    (goal,) = goals
    assert goal.header.frame_id == "workspace"
    assert np.hypot(goal.grasp.x, goal.grasp.y) < 0.2


def test_a_ur5_with_its_own_driver(mine, fork):
    fork(functools.partial(run_fake_ur5, ()))
    run_all(start(fork, "A UR5 with its own driver"))
