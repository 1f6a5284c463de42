"""RViz on a running graph: ``ros2 launch keygrasp_bringup view.launch.py``."""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch_ros.actions import Node

from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Start RViz with the project's view."""
    view = Path(get_package_share_directory("keygrasp_bringup")) / "rviz" / "keygrasp.rviz"
    return LaunchDescription([Node(package="rviz2", executable="rviz2", arguments=["-d", str(view)], output="screen")])
