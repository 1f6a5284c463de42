"""What a Delta can reach, for the nodes that plan: its file says how it is built, TF where it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keygrasp.scene import ReachFilter
from keygrasp_ros.delta_graph import config_in
from keygrasp_ros.parameters import Parameter
from keygrasp_ros.steps import Perceiver

ROBOT_FILE = Parameter("robot_file", "", "The robot's YAML file, see real-robot.md; empty for defaults.")
MODEL = Parameter("model", "", "X1, V2 or the path of a model's YAML file; empty for the robot file's.")
#: Parameters of every node that plans.
REACH = (
    Parameter(
        "reach",
        "none",
        "Whose reach limits the grasps that are planned: nobody's, or that of the Delta X whose pose is on TF.",
        choices=("none", "delta"),
    ),
    ROBOT_FILE,
    MODEL,
)


def reach_of(read: Callable[[str], Any], perceiver: Perceiver) -> Callable[[], ReachFilter | None]:
    """Gives the filter for planners; ``None`` where the gripper is the only limit.

    Args:
        read: Reads the node's parameters, :data:`REACH` among them.
        perceiver: Knows where the workspace is in the robot's frame.

    Raises:
        ConfigurationError: If the robot's file can't be used. What is returned raises ``InputError`` as long as
            nobody says where the robot stands.
    """
    if read("reach") == "none":
        return lambda: None
    from keygrasp.robots.delta_x import load_model
    from keygrasp.robots.delta_x.description import BASE
    from keygrasp.robots.delta_x.robot import reach_of_robot

    config = config_in(read("robot_file"))
    model = load_model(read("model") or config.model)
    return lambda: reach_of_robot(model, config, perceiver.workspace_in(BASE))
