"""The simulated graph: ``ros2 launch keygrasp_bringup sim.launch.py [planner:=geometric] [params_file:=FILE]``."""

from keygrasp_ros.graph import DEFAULT_PLANNER, PACKAGE, PLANNERS, default_params, nodes_for
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription


def _nodes(context: LaunchContext) -> list[Node]:
    planner = LaunchConfiguration("planner").perform(context)
    params = LaunchConfiguration("params_file").perform(context)
    namespace = LaunchConfiguration("namespace").perform(context)
    return [
        Node(
            package=PACKAGE,
            executable=spec.name,
            name=spec.name,
            namespace=namespace,
            parameters=[params, spec.overrides(planner)],
            output="screen",
            emulate_tty=True,
        )
        for spec in nodes_for(planner)
    ]


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments and start one process a node, from the list that ``keygrasp up`` uses too."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("planner", default_value=DEFAULT_PLANNER, choices=list(PLANNERS)),
            DeclareLaunchArgument("params_file", default_value=str(default_params())),
            DeclareLaunchArgument("namespace", default_value="", description="Put the whole graph into a namespace."),
            OpaqueFunction(function=_nodes),
        ]
    )
