"""Launch files start the nodes of the one list; most need `launch`, which a ROS 2 distribution brings."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from keygrasp_ros.graph import GRAPHS, OPTIONAL, PLANNERS, default_params, nodes_for
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.waiting import wait_until
from ros_processes import children_of, is_ready_for_signals

pytestmark = pytest.mark.ros
LAUNCH = Path(__file__).parents[2] / "launch"
needs_launch = pytest.mark.skipif(
    importlib.util.find_spec("launch_ros") is None,
    reason="'launch' comes with a ROS 2 distribution, not with the wheels",
)
#: What ``ros2 launch FILE ARGUMENT:=VALUE ...`` does, without its package.
RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

given = [tuple(argument.split(":=", 1)) for argument in sys.argv[2:]]
source = PythonLaunchDescriptionSource(sys.argv[1])
service = LaunchService()
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(source, launch_arguments=given)]))
sys.exit(service.run())
"""


def load(name):
    spec = importlib.util.spec_from_file_location(name, LAUNCH / f"{name}.launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def launch(run, monkeypatch, tmp_path):
    """Launch a file as a terminal does: in a process group of its own, which gets each signal."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path / "log"))

    def start(name, *arguments):
        command = [sys.executable, "-c", RUN, str(LAUNCH / f"{name}.launch.py"), *arguments]
        return run(command, start_new_session=True)

    return start


@needs_launch
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_the_launch_file_starts_the_nodes_of_the_list(graph, planner):
    from keygrasp_ros.launching import nodes as launched_nodes

    from launch import LaunchContext

    context = LaunchContext()
    context.launch_configurations.update(
        planner=planner, params_file=str(default_params(graph)), namespace="", use_sim_time="false"
    )
    for asked, extra in (("false", ()), ("true", OPTIONAL)):
        context.launch_configurations.update(dict.fromkeys(OPTIONAL, asked))
        nodes = launched_nodes(context, graph)
        assert [node.node_executable for node in nodes] == [spec.name for spec in nodes_for(planner, graph, extra)]


@needs_launch
@pytest.mark.parametrize("name", [*GRAPHS, "view"])
def test_launch_files_describe_themselves(name):
    assert load(name).generate_launch_description().entities


@needs_launch
@pytest.mark.slow
def test_a_launched_graph_picks_and_ctrl_c_ends_all_of_it(launch, tmp_path):
    from keygrasp_ros.client import PickClient

    params = tmp_path / "quick.yaml"
    params.write_text("/**/sim_robot:\n  ros__parameters:\n    robot: gripper\n")
    child = launch("sim", "planner:=geometric", "namespace:=left", f"params_file:={params}")
    with PickClient(namespace="/left") as client:
        client.wait_ready(120.0)
        assert client.pick().result.plan.planner == "geometric"
        nodes = children_of(child.pid)
    assert len(nodes) == len(nodes_for("geometric"))
    os.killpg(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 0, output
    assert "Traceback" not in output
    assert output.count("process has finished cleanly") == len(nodes), output
    assert not any(Path(f"/proc/{pid}").exists() for pid in nodes)


@needs_launch
@pytest.mark.slow
def test_ctrl_c_while_the_nodes_still_start_ends_them(launch):
    child = launch("sim", "planner:=geometric")
    count = len(nodes_for("geometric"))
    wait_until(lambda: len(children_of(child.pid)) == count, "the nodes were not started", 60.0, lambda: False)
    for pid in children_of(child.pid):
        wait_until(lambda pid=pid: is_ready_for_signals(pid), "no handler", 60.0, lambda: False)
    os.killpg(child.pid, signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 0, output
    assert "Traceback" not in output
    assert output.count("process has finished cleanly") == count, output


@needs_launch
def test_view_without_rviz_says_so_in_one_line(launch):
    from ament_index_python.packages import get_packages_with_prefixes

    if "rviz2" in get_packages_with_prefixes():
        pytest.skip("RViz is installed")
    child = launch("view")
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 1
    assert output.count("RViz is not installed") == 1
    assert "Traceback" not in output


def test_every_node_of_the_list_is_installed_as_an_executable():
    from ament_index_python.packages import get_package_prefix
    from keygrasp_ros.graph import NODES, PACKAGE

    folder = Path(get_package_prefix(PACKAGE)) / "lib" / PACKAGE
    assert {spec.name for spec in NODES} <= {path.name for path in folder.iterdir()}


def test_launch_files_are_installed():
    from ament_index_python.packages import get_package_share_directory

    folder = Path(get_package_share_directory("keygrasp_bringup")) / "launch"
    assert {path.name for path in folder.iterdir()} == {path.name for path in LAUNCH.glob("*.launch.py")}
