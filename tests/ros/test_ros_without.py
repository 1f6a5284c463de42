"""Says why the ROS tests don't run where ROS is missing: those files can't even be imported there."""

import importlib.util

import pytest

HAVE_ROS = all(importlib.util.find_spec(name) for name in ("rclpy", "keygrasp_interfaces", "keygrasp_ros"))


@pytest.mark.ros
@pytest.mark.skipif(
    not HAVE_ROS, reason="ROS 2 or the built workspace is not in the environment: 'make setup', then '. scripts/env.sh'"
)
def test_ros_is_here():
    from keygrasp_interfaces.action import Pick

    assert Pick.Goal().target.choice == 0
