"""The nodes of each graph: the one list behind launch files, ``keygrasp up`` and tests."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ament_index_python.packages import get_package_share_directory

from keygrasp_ros import delta_graph

if TYPE_CHECKING:
    from rclpy.node import Node

PACKAGE = "keygrasp_ros"
#: Module that ``python -m`` runs with a node's name.
EXECUTABLES = "keygrasp_ros.executables"
#: With the simulated table and arm, with a UR5 that its own driver moves (and any depth camera), with a Delta X.
GRAPHS = ("sim", "ur5", "delta")
PLANNERS = ("refined", "geometric")
DEFAULT_PLANNER = "refined"
#: Those of :data:`keygrasp_ros.delta_graph.SETTINGS` that were given.
Settings = Mapping[str, str]


@dataclass(frozen=True)
class NodeSpec:
    """One node.

    Attributes:
        name: Name of the node, of its module and of its executable.
        class_name: Name of its class in that module.
        planners: Planners that need it.
        graphs: Graphs that hold it.
        optional: Whether it is in a graph only where it is asked for.
    """

    name: str
    class_name: str
    planners: tuple[str, ...] = PLANNERS
    graphs: tuple[str, ...] = GRAPHS
    optional: bool = False

    @property
    def module(self) -> str:
        """Module that holds the class."""
        return f"{PACKAGE}.nodes.{self.name}"

    def create(
        self, planner: str, *, sim_time: bool = False, delta: Settings | None = None, given: Sequence[str] = ()
    ) -> Node:
        """Make the node with ROS arguments of its own in ``given``; others come from the process's."""
        kind = getattr(importlib.import_module(self.module), self.class_name)
        node: Node = kind(cli_args=["--ros-args", *self.arguments(planner, sim_time=sim_time, delta=delta), *given])
        return node

    def arguments(self, planner: str, *, sim_time: bool = False, delta: Settings | None = None) -> list[str]:
        """ROS arguments that set :meth:`overrides`; without the node's name, whose rule would miss a namespace."""
        values = delta_graph.as_json(self.overrides(planner, sim_time=sim_time, delta=delta))
        pairs = [("-p", f"{name}:={value}") for name, value in values.items()]
        pairs += [("-r", f"{topic}:={name}") for topic, name in delta_graph.renames(delta or {})]
        return [text for pair in pairs for text in pair]

    def overrides(self, planner: str, *, sim_time: bool = False, delta: Settings | None = None) -> dict[str, Any]:
        """Parameters that the choice of planner sets, and following the simulator's clock, and a Delta's settings."""
        values: dict[str, Any] = {"planner": planner} if self.name == "pick_server" else {}
        if delta is not None:
            values |= delta_graph.overrides(self.name, delta)
        if sim_time:
            values["use_sim_time"] = True
            if self.name == "sim_robot":
                values["publish_clock"] = True
        return values


NODES = (
    NodeSpec("sim_robot", "SimRobot", graphs=("sim",)),
    NodeSpec("trajectory_arm", "TrajectoryArm", graphs=("ur5",)),
    NodeSpec("delta_robot", "DeltaRobotNode", graphs=("delta",)),
    NodeSpec(delta_graph.SCENE_CAMERA, "SceneCamera", graphs=("delta",), optional=True),
    NodeSpec("keypoint_extractor", "KeypointExtractor"),
    NodeSpec("grasp_generator", "GraspGeneratorNode"),
    NodeSpec("pose_refiner", "PoseRefiner", planners=("refined",)),
    NodeSpec("pick_server", "PickServer"),
    NodeSpec("shaped_reward", "ShapedReward", optional=True),
    NodeSpec("world_model", "WorldModelNode", optional=True),
    NodeSpec("skill_robot", "SkillRobot", optional=True),
)
#: Nodes that a graph holds only where they are asked for.
OPTIONAL = tuple(spec.name for spec in NODES if spec.optional)


def nodes_for(planner: str, graph: str = GRAPHS[0], extra: Collection[str] = ()) -> tuple[NodeSpec, ...]:
    """The nodes that a planner needs in a graph, and those of :data:`OPTIONAL` that ``extra`` names."""
    return tuple(
        spec
        for spec in NODES
        if graph in spec.graphs and planner in spec.planners and (not spec.optional or spec.name in extra)
    )


def default_params(graph: str = GRAPHS[0]) -> Path:
    """The installed parameter file of a graph."""
    return Path(get_package_share_directory(PACKAGE)) / "config" / f"{graph}.yaml"
