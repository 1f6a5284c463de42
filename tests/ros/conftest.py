"""The ROS tests need ROS 2 and the built workspace: `make test` provides both, else they are skipped with a reason."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from keygrasp.errors import RobotError

HAVE_ROS = all(importlib.util.find_spec(name) for name in ("rclpy", "keygrasp_interfaces", "keygrasp_ros"))
if not HAVE_ROS:
    collect_ignore_glob = ["test_ros_[!w]*.py"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Who waited in vain is told what all the others were about."""
    report = yield
    if call.excinfo is not None and call.excinfo.errisinstance(RobotError):
        from node_nursery import all_whereabouts

        report.sections.append(("Whereabouts of this test's processes", all_whereabouts()))
    return report


@pytest.fixture(scope="session", autouse=True)
def own_corner():
    """A domain of this test run's own, on this machine only."""
    if not HAVE_ROS:
        yield
        return
    from keygrasp_ros import isolation

    before, domains = dict(os.environ), isolation._DOMAINS
    # Workers of one run look for domains at the same time: each among others.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    isolation._DOMAINS = domains[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    os.environ["ROS_DOMAIN_ID"] = str(isolation.free_domain())
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    yield
    isolation._DOMAINS = domains
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def graph(tmp_path_factory, own_corner):
    """The simulated graph with the UR5 and the geometric planner, one process a node; and a client of it."""
    from keygrasp_ros.client import PickClient
    from keygrasp_ros.graph import default_params, nodes_for
    from keygrasp_ros.up import ros_arguments
    from node_nursery import ForkedNodes

    log: Path = tmp_path_factory.mktemp("graph") / "nodes.log"
    specs = nodes_for("geometric")
    arguments = ros_arguments(specs, "geometric", default_params())
    processes = ForkedNodes(specs, arguments, log=log)
    with processes, PickClient("test_client") as client:
        client.wait_ready(120.0)
        client.processes = processes
        yield client
        assert processes.ended() == {}, log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.fixture(scope="session")
def ur5_graph_of_all(tmp_path_factory, own_corner):
    """A graph for a UR5 with the tests' own camera and driver, on a domain of its own."""
    from keygrasp_ros.isolation import isolated_environment
    from ur5_graph import Ur5Graph

    log, environment = tmp_path_factory.mktemp("ur5_graph") / "log", isolated_environment()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", environment["ROS_DOMAIN_ID"])
        graph = Ur5Graph(log, environment)
    yield graph
    graph.close()
    assert "Traceback" not in log.read_text()


@pytest.fixture
def ur5_graph(ur5_graph_of_all):
    """The same, whole."""
    ur5_graph_of_all.revive()
    return ur5_graph_of_all


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


@pytest.fixture
def fork(tmp_path):
    """Start functions of ``node_nursery`` in processes that are ended when the test ends."""
    from node_nursery import Forked

    started = []

    def start(function):
        started.append(Forked(function, os.environ, tmp_path / f"fork-{len(started)}.log"))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.wait()


@pytest.fixture(scope="session")
def refined_graph(tmp_path_factory, own_corner):
    """The whole simulated graph with the refiner, in one process and on a domain of its own; and a client of it."""
    from keygrasp_ros.client import PickClient
    from keygrasp_ros.isolation import isolated_environment
    from node_nursery import Forked, run_up

    environment = isolated_environment()
    log: Path = tmp_path_factory.mktemp("refined_graph") / "nodes.log"
    process = Forked(run_up("sim"), environment, log)
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
        status = process.wait(60)
    assert status == 0
    assert "Traceback" not in log.read_text()
