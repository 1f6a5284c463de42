"""What the launch files of the graphs have in common; needs ``launch``, which a ROS 2 distribution brings."""

from __future__ import annotations

import functools
import json
import tempfile
from typing import Any

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from keygrasp_ros import delta_graph
from keygrasp_ros.graph import DEFAULT_PLANNER, OPTIONAL, PACKAGE, PLANNERS, Settings, default_params, nodes_for
from launch import LaunchContext, LaunchDescription


def describe(graph: str) -> LaunchDescription:
    """Declare the arguments and start one process a node, from the list that ``keygrasp up`` uses too."""
    switches = {
        "use_sim_time": "Follow the clock on /clock.",
        **{name: f"Also start the node {name}." for name in OPTIONAL},
    }
    settings = delta_graph.SETTINGS if graph == "delta" else ()
    return LaunchDescription(
        [
            DeclareLaunchArgument("planner", default_value=DEFAULT_PLANNER, choices=list(PLANNERS)),
            DeclareLaunchArgument("params_file", default_value=str(default_params(graph))),
            DeclareLaunchArgument("namespace", default_value="", description="Put the whole graph into a namespace."),
            *(
                DeclareLaunchArgument(name, default_value="false", choices=["false", "true"], description=text)
                for name, text in switches.items()
            ),
            *(DeclareLaunchArgument(each.name, default_value="", description=each.description) for each in settings),
            OpaqueFunction(function=functools.partial(nodes, graph=graph)),
        ]
    )


def nodes(context: LaunchContext, graph: str) -> list[Node]:
    """The nodes of a graph for the arguments of a launch."""
    planner, params, namespace, sim_time = (
        LaunchConfiguration(name).perform(context) for name in ("planner", "params_file", "namespace", "use_sim_time")
    )
    extra = [name for name in OPTIONAL if LaunchConfiguration(name).perform(context) == "true"]
    delta: Settings | None = None
    if graph == "delta":
        names = (setting.name for setting in delta_graph.SETTINGS)
        delta = delta_graph.given({name: LaunchConfiguration(name, default="").perform(context) for name in names})
        extra += delta_graph.optional_nodes(delta)
    return [
        Node(
            package=PACKAGE,
            executable=spec.name,
            name=spec.name,
            namespace=namespace,
            parameters=[params, _file(spec.overrides(planner, sim_time=sim_time == "true", delta=delta))],
            remappings=delta_graph.renames(delta or {}),
            output="screen",
            emulate_tty=True,
        )
        for spec in nodes_for(planner, graph, extra)
    ]


def _file(values: dict[str, Any]) -> str:
    """A parameter file: launch's own would let a text that looks like a number (a serial number) become one."""
    with tempfile.NamedTemporaryFile("w", prefix="keygrasp-launch-", suffix=".yaml", delete=False) as file:
        json.dump({"/**": {"ros__parameters": values}}, file)
    return file.name
