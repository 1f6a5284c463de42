"""The simulated graph: ``ros2 launch keygrasp_bringup sim.launch.py [planner:=geometric] [params_file:=FILE]``."""

from keygrasp_ros.launching import describe

from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Simulated table, camera and arm, and the nodes that plan and pick."""
    return describe("sim")
