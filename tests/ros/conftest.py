"""The ROS tests need ROS 2 and the built workspace: `make test` provides both, else they are skipped with a reason."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

HAVE_ROS = all(importlib.util.find_spec(name) for name in ("rclpy", "keygrasp_interfaces", "keygrasp_ros"))
if not HAVE_ROS:
    collect_ignore_glob = ["test_ros_[!w]*.py"]


@pytest.fixture(scope="session", autouse=True)
def own_corner():
    """A domain of this test run's own, on this machine only."""
    if not HAVE_ROS:
        yield
        return
    from keygrasp_ros.isolation import free_domain

    before = dict(os.environ)
    # Workers of one run start at the same time: each looks in another order.
    os.environ["ROS_DOMAIN_ID"] = str(free_domain(random.Random(os.getpid())))
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def graph(tmp_path_factory, own_corner):
    """The simulated graph with the UR5 and the geometric planner, one process a node; and a client of it."""
    from keygrasp_ros.client import PickClient
    from keygrasp_ros.graph import default_params, nodes_for
    from keygrasp_ros.processes import NodeProcesses
    from keygrasp_ros.up import ros_arguments

    log: Path = tmp_path_factory.mktemp("graph") / "nodes.log"
    specs = nodes_for("geometric")
    arguments = ros_arguments(specs, "geometric", default_params())
    processes = NodeProcesses(specs, arguments, log=log)
    with processes, PickClient("test_client") as client:
        client.wait_ready(120.0)
        client.processes = processes
        yield client
        assert processes.ended() == {}, log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.fixture
def run():
    """Start commands that are ended when the test ends."""
    started: list[subprocess.Popen] = []

    def start(command: list[str], **options: object) -> subprocess.Popen:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


@pytest.fixture(scope="session")
def refined_graph(tmp_path_factory, own_corner):
    """The whole simulated graph with the refiner, in one process and on a domain of its own; and a client of it."""
    from keygrasp_ros.client import PickClient
    from keygrasp_ros.isolation import isolated_environment

    environment = isolated_environment()
    log: Path = tmp_path_factory.mktemp("refined_graph") / "nodes.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "keygrasp_ros.up", "sim"], env=environment, stdout=output, stderr=output
        )
    try:
        with pytest.MonkeyPatch.context() as patch:  # clients of other graphs must not land on this domain
            patch.setenv("ROS_DOMAIN_ID", environment["ROS_DOMAIN_ID"])
            client = PickClient("test_viewer")
        with client:
            client.wait_ready(120.0)
            client.environment = environment
            yield client
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert "Traceback" not in log.read_text()
