"""The planning nodes of the Delta's graph plan only what the robot can reach from where TF says that it stands."""

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from keygrasp_interfaces.msg import GraspPlan
from keygrasp_ros.client import PickClient
from keygrasp_ros.delta_graph import overrides
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.robot_state import transform
from keygrasp_ros.scene_conversions import scene_message
from keygrasp_ros.topics import GENERATE, REFINE, TF_STATIC
from node_nursery import run_node
from ros_calls import Calls
from std_msgs.msg import Header
from test_ros_refiner import have_weights
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.geometry.poses import make_pose
from keygrasp.perception import perceive
from keygrasp.robots.delta_x.description import BASE
from keygrasp.scene import OverheadView

pytestmark = [pytest.mark.ros, pytest.mark.slow]
needs_weights = pytest.mark.skipif(not have_weights(), reason="the refiner's weights are not in models/")


@pytest.mark.parametrize(
    ("node", "service"), [("grasp_generator", GENERATE), pytest.param("pose_refiner", REFINE, marks=needs_weights)]
)
def test_plans_are_within_the_deltas_reach(fork, monkeypatch, node, service):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    depth = np.full((128, 128), 0.7, np.float32)
    depth[58:70, 60:68] = 0.66
    view = OverheadView(depth, Intrinsics(128, 128, 256.0, 256.0, 63.5, 63.5), overhead_pose(0.7))
    header = Header(stamp=Time(sec=5), frame_id="workspace")
    request = service.type.Request(scene=scene_message(perceive(view), header))
    if service is REFINE:
        request.plan = GraspPlan(header=header)
    given = overrides(node, {"model": "X1"})
    assert (given["reach"], given["model"]) == ("delta", "X1")
    arguments = [word for name, value in given.items() for word in ("-p", f"{name}:={value}")]
    fork(run_node(node, *arguments, "-p", "frame_timeout:=2.0"))
    with PickClient() as client:
        stand = client.node.create_publisher(TF_STATIC.type, TF_STATIC.name, TF_STATIC.qos)
        call = Calls(client.node)
        unknown = call(service.type, service.name, request)
        answers = []
        for depth_below in (0.44, 0.9):
            pose = transform("workspace", BASE, make_pose((0.0, 0.0, -depth_below), np.eye(3)), Time())
            stand.publish(TFMessage(transforms=[pose]))
            answers.append(call(service.type, service.name, request))
    near, far = answers
    assert not unknown.ok
    assert BASE in unknown.message
    assert near.ok, near.message
    assert near.plan.found, near.plan.reason
    assert far.ok, far.message
    assert not far.plan.found
    assert "reach" in far.plan.reason
