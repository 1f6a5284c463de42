"""Starting and ending the graph: exit codes, no traceback, no orphan, faults named in one line."""

import signal
import sys
import time

import pytest
from keygrasp_ros.client import PickClient
from keygrasp_ros.graph import EXECUTABLES, nodes_for
from keygrasp_ros.isolation import free_domain, isolated_environment
from keygrasp_ros.waiting import wait_until
from node_nursery import run_node
from ros_calls import never
from ros_processes import alive, children_of, is_ready_for_signals, running

pytestmark = [pytest.mark.ros, pytest.mark.slow]
UP = [sys.executable, "-m", "keygrasp_ros.up", "sim", "--planner", "geometric"]
QUICK = ["--ros-args", "-p", "sim_robot:robot:=gripper"]


@pytest.fixture
def domain(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))


def test_no_node_outlives_a_killed_parent_even_while_the_arm_moves(run, domain):
    child = run([*UP, "--processes", *QUICK, "-p", "sim_robot:real_time_factor:=0.2"])
    with PickClient() as client:
        client.wait_ready(120.0, running(child))
        seen = []
        client.send(on_feedback=lambda feedback: seen.append(feedback.stage))
        wait_until(lambda: "descend" in seen, "the arm did not move", 60.0, never)
        nodes = children_of(child.pid)
        assert len(nodes) == len(nodes_for("geometric"))
        child.kill()
        wait_until(lambda: not any(alive(pid) for pid in nodes), "orphans", 30.0, never)
    output, _ = child.communicate(timeout=30)
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("node", "argument", "words"),
    [
        ("pick_server", "planner:=clever", "planner"),
        ("keypoint_extractor", "perception.cell:=-1.0", "cell must be positive"),
        ("sim_robot", "object:=nothing", "nothing"),
    ],
)
def test_a_bad_parameter_ends_the_start_with_one_line(fork, domain, node, argument, words):
    child = fork(run_node(node, "-p", argument))
    output, _ = child.communicate(timeout=60)
    assert child.returncode > 0
    assert words in output
    assert "Traceback" not in output


def test_a_missing_parameter_file_is_named(run):
    child = run([*UP, "--params", "/nowhere.yaml"])
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "/nowhere.yaml" in output


@pytest.mark.parametrize("offset", [0, 10, 12])
def test_a_domain_is_taken_where_somebody_listens_on_one_of_its_ports(offset):
    import random
    import socket

    first = free_domain(random.Random(1))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 7400 + 250 * first + offset))
        assert free_domain(random.Random(1)) != first
    assert isolated_environment()["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"


@pytest.mark.parametrize(("wait", "number"), [(0.0, signal.SIGINT), (0.8, signal.SIGTERM), (2.0, signal.SIGINT)])
def test_a_signal_during_the_start_ends_it_without_a_word(run, domain, wait, number):
    children = [run([sys.executable, "-m", EXECUTABLES, "pose_refiner"]), run([*UP, *QUICK])]
    time.sleep(wait)
    for child in children:
        wait_until(lambda pid=child.pid: is_ready_for_signals(pid), "no handler", 60.0, never)
        child.send_signal(number)
    for child in children:
        output, _ = child.communicate(timeout=60)
        assert child.returncode == 0, output
        assert "Traceback" not in output
