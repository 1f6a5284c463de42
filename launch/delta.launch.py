"""Picking with a Delta X: ``ros2 launch keygrasp_bringup delta.launch.py port:=/dev/ttyUSB0 robot_file:=delta.yaml``.

``emulate:=true`` needs neither robot nor camera: it emulates the robot on a pseudo-terminal and a camera over a table.
"""

from keygrasp_ros.launching import describe

from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """The node that drives the robot, and the nodes that plan and pick."""
    return describe("delta")
