"""Parameters for one node of a graph: in any namespace, and never passed over without a word."""

import pytest
from keygrasp_ros.graph import GRAPHS, NODES, default_params
from keygrasp_ros.node_parameters import split_by_node, strange_sections
from node_nursery import run_up

from keygrasp.errors import ConfigurationError

pytestmark = pytest.mark.ros
NAMES = [spec.name for spec in NODES]


def test_each_node_gets_its_own_and_all_get_the_rest():
    given = [
        "-r",
        "__ns:=/left",
        "-p",
        "sim_robot:rule:=A",
        "-p",
        "workspace_frame:=a:b",
        "--param",
        "sim_robot:x.y:=1",
    ]
    common, own = split_by_node(given, ["sim_robot", "pick_server"])
    assert common == ["-r", "__ns:=/left", "-p", "workspace_frame:=a:b"]
    assert own == {"sim_robot": ["-p", "rule:=A", "--param", "x.y:=1"], "pick_server": []}


def test_what_is_cut_off_is_left_to_ros():
    assert split_by_node(["-r", "a:=b", "-p"], NAMES)[0] == ["-r", "a:=b", "-p"]


def test_a_node_that_the_graph_does_not_hold_is_named(fork):
    with pytest.raises(ConfigurationError, match=r"no node 'pick_servr'.*Did you mean 'pick_server'"):
        split_by_node(["-p", "pick_servr:planner:=geometric"], NAMES)
    child = fork(run_up("sim", "--ros-args", "-p", "trajectory_arm:speed:=0.1"))
    output, _ = child.communicate(60)
    assert child.returncode == 2
    assert "no node 'trajectory_arm'" in output


@pytest.mark.parametrize("key", ["pick_servr", "/pick_servr", "/**/pick_servr", "/left/pick_servr", "nested"])
def test_a_section_for_a_node_that_does_not_exist_is_named(tmp_path, key):
    head = "/left:\n  pick_servr:\n    " if key == "nested" else f"{key}:\n    "
    (tmp_path / "mine.yaml").write_text(f"{head}  ros__parameters:\n        planner: geometric\n")
    (said,) = strange_sections(tmp_path / "mine.yaml", NAMES)
    assert "mine.yaml: no node is called 'pick_servr'. Did you mean 'pick_server'?" in said


@pytest.mark.parametrize("text", [b"/**:\n  ros__parameters: {}\n", b"", b"- 1", b"a: [", bytes(range(256))])
def test_other_files_are_left_to_ros(tmp_path, text):
    (tmp_path / "mine.yaml").write_bytes(text)
    assert list(strange_sections(tmp_path / "mine.yaml", NAMES)) == []


@pytest.mark.parametrize("graph", GRAPHS)
def test_our_own_files_name_our_nodes(graph):
    assert list(strange_sections(default_params(graph), NAMES)) == []
