"""``keygrasp up GRAPH``: start a graph without ``ros2 launch``, in one process or in one a node."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from keygrasp.errors import KeygraspError
from keygrasp_ros import delta_graph
from keygrasp_ros.graph import (
    DEFAULT_PLANNER,
    GRAPHS,
    NODES,
    OPTIONAL,
    PLANNERS,
    NodeSpec,
    Settings,
    default_params,
    nodes_for,
)
from keygrasp_ros.node_parameters import split_by_node, strange_sections
from keygrasp_ros.signals import end_at_once, leave_at_once
from keygrasp_ros.threads import one_thread_each


def ros_arguments(
    specs: Sequence[NodeSpec],
    planner: str,
    params: Path,
    given: Sequence[str] = (),
    *,
    sim_time: bool = False,
    delta: Settings | None = None,
) -> dict[str, list[str]]:
    """ROS arguments (without ``--ros-args``) of each node where it has a process of its own.

    Args:
        specs: The nodes.
        planner: Which grasp is executed.
        params: Parameter file.
        given: More ROS arguments, such as remappings; they come last and win.
        sim_time: Whether the nodes follow the simulator's clock.
        delta: Settings of a Delta's graph; ``None`` in others.

    Raises:
        ConfigurationError: If a parameter is given for a node that is not among them.
    """
    common, own = split_by_node(given, [spec.name for spec in specs])
    first = ("--params-file", str(params))
    return {
        spec.name: [*first, *spec.arguments(planner, sim_time=sim_time, delta=delta), *common, *own[spec.name]]
        for spec in specs
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; a graph that ran ends the process with its status, which else is returned."""
    given = list(sys.argv[1:] if argv is None else argv)
    given, ros = split_ros(given)
    options = _parser().parse_args(given)
    options.params = options.params or default_params(options.graph)
    if not options.params.is_file():
        print(f"keygrasp: can't read {options.params}. Check the path", file=sys.stderr)
        return 2
    leave_at_once()
    one_thread_each()
    for warning in strange_sections(options.params, [spec.name for spec in NODES]):
        print(f"keygrasp: {warning}", file=sys.stderr)
    try:
        status = _run(options, ros)
    except KeygraspError as error:
        print(f"keygrasp: {error}", file=sys.stderr)
        status = error.exit_code
    return end_at_once(status)


def _run(options: argparse.Namespace, ros: Sequence[str]) -> int:
    delta = delta_graph.given(vars(options)) if options.graph == "delta" else None
    specs = nodes_for(options.planner, options.graph, [*options.extra, *delta_graph.optional_nodes(delta or {})])
    if options.processes:
        from keygrasp_ros.processes import NodeProcesses, run_processes

        arguments = ros_arguments(specs, options.planner, options.params, ros, sim_time=options.sim_time, delta=delta)
        return run_processes(NodeProcesses(specs, arguments))
    from keygrasp_ros.running import run_nodes

    common, own = split_by_node(ros, [spec.name for spec in specs])
    settings = {"sim_time": options.sim_time, "delta": delta}
    create = [functools.partial(spec.create, options.planner, given=own[spec.name], **settings) for spec in specs]
    return run_nodes(create, ["--ros-args", "--params-file", str(options.params), *common])


def split_ros(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before and after ``--ros-args``."""
    if "--ros-args" not in arguments:
        return arguments, []
    at = arguments.index("--ros-args")
    return arguments[:at], [argument for argument in arguments[at + 1 :] if argument != "--"]


def _parser() -> argparse.ArgumentParser:
    note = (
        "" if importlib.util.find_spec("launch") is None else " With a ROS 2 distribution, 'ros2 launch' does the same."
    )
    parser = argparse.ArgumentParser(
        prog="keygrasp up",
        description=f"Start the ROS 2 graph; Ctrl-C ends it.{note}",
        epilog="What follows --ros-args goes to the nodes: -r __ns:=/left, -p sim_robot:rule:=A, ...",
    )
    parser.add_argument(
        "graph",
        choices=GRAPHS,
        help="sim is the simulated table and arm, ur5 an arm that its own driver moves, delta a Delta X",
    )
    parser.add_argument(
        "--planner", choices=PLANNERS, default=DEFAULT_PLANNER, help="which grasp is executed (default: %(default)s)"
    )
    parser.add_argument(
        "--with", dest="extra", action="append", default=[], choices=OPTIONAL, metavar="NODE",
        help=f"also start an optional node: {', '.join(OPTIONAL)}",
    )  # fmt: skip
    parser.add_argument("--processes", action="store_true", help="one process a node instead of one for all")
    parser.add_argument("--sim-time", action="store_true", help="all nodes follow /clock, which sim publishes")
    parser.add_argument("--params", type=Path, metavar="FILE", help="parameter file (default: the graph's own)")
    group = parser.add_argument_group("for the graph delta")
    for setting in delta_graph.SETTINGS:
        option = f"--{setting.name.replace('_', '-')}"
        if setting.kind == "switch":
            group.add_argument(option, action="store_const", const="true", help=setting.description)
        else:
            group.add_argument(option, metavar=setting.kind.upper(), help=setting.description)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
