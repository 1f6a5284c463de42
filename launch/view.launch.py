"""RViz on a running graph: ``ros2 launch keygrasp_bringup view.launch.py``."""

from pathlib import Path

from ament_index_python.packages import PackageNotFoundError, get_package_prefix, get_package_share_directory
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from launch import LaunchContext, LaunchDescription


def _rviz(_: LaunchContext) -> list[Node]:
    try:
        get_package_prefix("rviz2")
    except PackageNotFoundError:
        raise RuntimeError("RViz is not installed here. Install it: sudo apt install ros-$ROS_DISTRO-rviz2") from None
    view = Path(get_package_share_directory("keygrasp_bringup")) / "rviz" / "keygrasp.rviz"
    return [Node(package="rviz2", executable="rviz2", arguments=["-d", str(view)], output="screen")]


def generate_launch_description() -> LaunchDescription:
    """Start RViz with the project's view, or end with status 1 and the reason where there is none."""
    return LaunchDescription([OpaqueFunction(function=_rviz)])
