"""What a newcomer can have wrong before the first node lives: one line that names it, no traceback."""

import os
from pathlib import Path

import pytest
from keygrasp_ros.client import PickClient
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.joining import join
from node_nursery import Forked, run_node
from rclpy.context import Context

from keygrasp.errors import ConfigurationError

pytestmark = pytest.mark.ros


@pytest.fixture(autouse=True)
def domain(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))


@pytest.fixture
def context():
    context = Context()
    yield context
    context.try_shutdown()


@pytest.mark.parametrize("value", ["abc", "-1", "233", "1e3", "9" * 20])
def test_domains_that_are_none_are_named(context, monkeypatch, value):
    monkeypatch.setenv("ROS_DOMAIN_ID", value)
    with pytest.raises(ConfigurationError, match=f"ROS_DOMAIN_ID is '{value}'.*from 0 to 232"):
        join((), context)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-p", "planner"], "'-p planner'"),
        (["-p"], "trailing -p"),
        (["-r", "a"], "'-r a'"),
        (["-r", "__ns:=left"], "'-r __ns:=left'"),
        (["-r", "__node:=a b"], "'-r __node:=a b'"),
        (["--nonsense"], "--nonsense"),
        (["--log-level", "noisy"], "noisy"),
        (["--params-file", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_bad_arguments_are_named(context, arguments, words):
    with pytest.raises(ConfigurationError) as error:
        join(["--ros-args", *arguments], context)
    assert words in str(error.value)
    assert "/project/" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [b"a: [1\n", b"/**:\n\tros__parameters:\n", b"- 1\n", b"/**:\n  planner: x\n", bytes(range(256)), b"a: \xe9"],
)
def test_bad_parameter_files_are_named(context, tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text)
    with pytest.raises(ConfigurationError, match=r"mine\.yaml"):
        join(["--ros-args", "--params-file", str(path)], context)


def test_a_namespace_that_is_none_is_named():
    with pytest.raises(ConfigurationError, match="le ft"):
        PickClient(namespace="/le ft")


@pytest.mark.parametrize("home", [None, "file"])
def test_nodes_start_where_no_log_can_be_written_and_one_line_says_so(tmp_path, home):
    """As on a read-only system, and where the user has no home."""
    (tmp_path / "file").touch()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOME", "ROS_LOG", "ROS_HOME"))
    }
    if home is not None:
        environment["HOME"] = str(tmp_path / home)
    child = Forked(run_node("pick_server", "-p", "planner:=clever"), environment, tmp_path / "log")
    output, _ = child.communicate(60)
    assert output.count("ROS 2 writes no log files") == 1
    assert "planner" in output.splitlines()[-1]
    assert "Traceback" not in output


def test_a_peer_that_is_none_ends_the_start_with_one_line(tmp_path):
    environment = {**os.environ, "ROS_STATIC_PEERS": "no.such.host.example"}
    child = Forked(run_node("pick_server"), environment, tmp_path / "log")
    output, _ = child.communicate(60)
    assert child.returncode == 2, output
    assert "no.such.host.example" in output.splitlines()[-1]
    assert "Traceback" not in Path(tmp_path / "log").read_text()
