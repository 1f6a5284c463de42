"""Picking with a UR5 that its own driver moves: ``ros2 launch keygrasp_bringup ur5.launch.py [params_file:=FILE]``.

Start before it: the UR5's driver, the gripper's driver, a depth camera, and the transforms that connect the camera and
the arm's base with the frame ``workspace``.
"""

from keygrasp_ros.launching import describe

from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """The node that moves the arm, and the nodes that plan and pick."""
    return describe("ur5")
