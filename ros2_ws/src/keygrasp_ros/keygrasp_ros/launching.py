"""What the launch files of the graphs have in common; needs ``launch``, which a ROS 2 distribution brings."""

from __future__ import annotations

import functools

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from keygrasp_ros.graph import DEFAULT_PLANNER, OPTIONAL, PACKAGE, PLANNERS, default_params, nodes_for
from launch import LaunchContext, LaunchDescription


def describe(graph: str) -> LaunchDescription:
    """Declare the arguments and start one process a node, from the list that ``keygrasp up`` uses too."""
    switches = {
        "use_sim_time": "Follow the clock on /clock.",
        **{name: f"Also start the node {name}." for name in OPTIONAL},
    }
    return LaunchDescription(
        [
            DeclareLaunchArgument("planner", default_value=DEFAULT_PLANNER, choices=list(PLANNERS)),
            DeclareLaunchArgument("params_file", default_value=str(default_params(graph))),
            DeclareLaunchArgument("namespace", default_value="", description="Put the whole graph into a namespace."),
            *(
                DeclareLaunchArgument(name, default_value="false", choices=["false", "true"], description=text)
                for name, text in switches.items()
            ),
            OpaqueFunction(function=functools.partial(nodes, graph=graph)),
        ]
    )


def nodes(context: LaunchContext, graph: str) -> list[Node]:
    """The nodes of a graph for the arguments of a launch."""
    planner, params, namespace, sim_time = (
        LaunchConfiguration(name).perform(context) for name in ("planner", "params_file", "namespace", "use_sim_time")
    )
    extra = [name for name in OPTIONAL if LaunchConfiguration(name).perform(context) == "true"]
    return [
        Node(
            package=PACKAGE,
            executable=spec.name,
            name=spec.name,
            namespace=namespace,
            parameters=[params, spec.overrides(planner, sim_time=sim_time == "true")],
            output="screen",
            emulate_tty=True,
        )
        for spec in nodes_for(planner, graph, extra)
    ]
