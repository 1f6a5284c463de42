"""Launch files start the nodes of the one list; only where a ROS 2 distribution brings `launch`."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.ros
LAUNCH = Path(__file__).parents[2] / "launch"
needs_launch = pytest.mark.skipif(
    importlib.util.find_spec("launch_ros") is None,
    reason="'launch' comes with a ROS 2 distribution, not with the wheels",
)


def load(name):
    spec = importlib.util.spec_from_file_location(name, LAUNCH / f"{name}.launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_launch
@pytest.mark.parametrize("planner", ["refined", "geometric"])
def test_the_launch_file_starts_the_nodes_of_the_list(planner):
    from keygrasp_ros.graph import default_params, nodes_for

    from launch import LaunchContext

    context = LaunchContext()
    context.launch_configurations.update(planner=planner, params_file=str(default_params()), namespace="")
    nodes = load("sim")._nodes(context)
    assert [node.node_executable for node in nodes] == [spec.name for spec in nodes_for(planner)]


@needs_launch
@pytest.mark.parametrize("name", ["sim", "view"])
def test_launch_files_describe_themselves(name):
    assert load(name).generate_launch_description().entities


def test_every_node_of_the_list_is_installed_as_an_executable():
    from ament_index_python.packages import get_package_prefix
    from keygrasp_ros.graph import NODES, PACKAGE

    folder = Path(get_package_prefix(PACKAGE)) / "lib" / PACKAGE
    assert {spec.name for spec in NODES} <= {path.name for path in folder.iterdir()}
