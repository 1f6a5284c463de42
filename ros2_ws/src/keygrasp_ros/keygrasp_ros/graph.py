"""The nodes of the simulated graph: the one list behind launch files, ``keygrasp up`` and tests."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ament_index_python.packages import get_package_share_directory

if TYPE_CHECKING:
    from rclpy.node import Node

PACKAGE = "keygrasp_ros"
#: Module that ``python -m`` runs with a node's name.
EXECUTABLES = "keygrasp_ros.executables"
PLANNERS = ("refined", "geometric")
DEFAULT_PLANNER = "refined"


@dataclass(frozen=True)
class NodeSpec:
    """One node.

    Attributes:
        name: Name of the node, of its module and of its executable.
        class_name: Name of its class in that module.
        planners: Planners that need it.
    """

    name: str
    class_name: str
    planners: tuple[str, ...] = PLANNERS

    @property
    def module(self) -> str:
        """Module that holds the class."""
        return f"{PACKAGE}.nodes.{self.name}"

    def create(self, planner: str) -> Node:
        """Make the node; other parameters come from the process's ROS arguments."""
        kind = getattr(importlib.import_module(self.module), self.class_name)
        node: Node = kind(cli_args=["--ros-args", *self.arguments(planner)])
        return node

    def arguments(self, planner: str) -> list[str]:
        """ROS arguments that set :meth:`overrides`; without the node's name, whose rule would miss a namespace."""
        return [text for name, value in self.overrides(planner).items() for text in ("-p", f"{name}:={value}")]

    def overrides(self, planner: str) -> dict[str, Any]:
        """Parameters that the choice of planner sets."""
        return {"planner": planner} if self.name == "pick_server" else {}


NODES = (
    NodeSpec("sim_robot", "SimRobot"),
    NodeSpec("keypoint_extractor", "KeypointExtractor"),
    NodeSpec("grasp_generator", "GraspGeneratorNode"),
    NodeSpec("pose_refiner", "PoseRefiner", planners=("refined",)),
    NodeSpec("pick_server", "PickServer"),
)


def nodes_for(planner: str) -> tuple[NodeSpec, ...]:
    """The nodes that a planner needs."""
    return tuple(spec for spec in NODES if planner in spec.planners)


def default_params() -> Path:
    """The installed parameter file."""
    return Path(get_package_share_directory(PACKAGE)) / "config" / "sim.yaml"
