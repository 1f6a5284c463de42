"""Races of rclpy with several threads: handles that vanish while they are taken up, answers that come too early."""

import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")

import rclpy
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.nodes.sim_robot import SimRobot
from keygrasp_ros.running import _Spinner
from keygrasp_ros.signals import Stop
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor

pytestmark = pytest.mark.ros


def test_a_fault_in_a_callback_ends_the_spinning_and_is_kept():
    def spin():
        raise ValueError("a callback broke")

    stop = Stop()
    spinner = _Spinner(SimpleNamespace(spin=spin, shutdown=lambda timeout_sec: True), stop)
    assert stop.wait(5)
    spinner.end([])
    assert [str(fault) for fault in spinner.faults] == ["a callback broke"]


#: Ends with 0 when it was woken often enough by a signal, now and then while it was just about to wait.
WOKEN = """
import os, signal
from keygrasp_ros.signals import Stop
for _ in range(12000):
    stop = Stop()
    signal.signal(signal.SIGUSR1, lambda *_: stop.set())
    if _ == 0:
        print("ready", flush=True)
    while not stop.wait(1e-5):
        pass
os._exit(0)
"""


def test_a_signal_stops_a_process_that_is_just_about_to_wait():
    """A ``threading.Event``, set by the signal's handler, hangs here."""
    with subprocess.Popen([sys.executable, "-c", WOKEN], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            deadline = time.monotonic() + 20.0
            while child.poll() is None and time.monotonic() < deadline:
                child.send_signal(signal.SIGUSR1)
                time.sleep(0.0001)
        finally:
            child.kill()
    assert child.returncode == 0


@pytest.mark.parametrize("method", ["send_goal_async", "_cancel_goal_async", "_get_result_async"])
def test_no_answer_is_taken_between_a_request_and_its_note(monkeypatch, method):
    client, order = SureActionClient.__new__(SureActionClient), []
    client._sending = threading.Lock()
    taker = threading.Thread(target=client.take_data)

    def send_and_note(self, _):
        taker.start()  # the answer is here at once
        time.sleep(0.1)
        order.append("noted")

    monkeypatch.setattr(ActionClient, method, send_and_note)
    monkeypatch.setattr(ActionClient, "take_data", lambda self: order.append("taken"))
    getattr(client, method)("goal")
    taker.join(5)
    assert order == ["noted", "taken"]


def test_an_executor_passes_over_a_camera_whose_last_viewer_has_just_left():
    """It had found the timer due; rclpy breaks if the timer was cancelled since, and skips it if it was destroyed."""
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("camera_of_a_robot", context=context)
    robot = SimpleNamespace(
        _watching=threading.Lock(),
        _camera=None,
        _publisher=SimpleNamespace(publish_image=None),
        _when_idle=lambda publish: lambda: None,
        _read=lambda name: 30.0,
        create_timer=node.create_timer,
        destroy_timer=node.destroy_timer,
    )
    SimRobot._send_images(robot, True)
    due = robot._camera
    executor = SingleThreadedExecutor(context=context)
    assert executor._take_timer(due) is not None
    SimRobot._send_images(robot, False)
    assert executor._take_timer(due) is None
    SimRobot._send_images(robot, True)
    assert robot._camera is not due
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown(context=context)
