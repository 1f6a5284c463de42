"""The planning nodes of the Delta's graph plan only what the robot can reach from where TF says that it stands."""

import functools

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
from keygrasp_ros.waiting import wait_until
from node_nursery import run_node
from ros_calls import Calls, never
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

        def is_found(expected):
            answers.append(call(service.type, service.name, request))
            return answers[-1].ok and answers[-1].plan.found == expected

        found = []
        for depth_below, expected in ((0.44, True), (0.9, False)):
            pose = transform("workspace", BASE, make_pose((0.0, 0.0, -depth_below), np.eye(3)), Time())
            stand.publish(TFMessage(transforms=[pose]))
            # A transform and a request that follow each other may be taken up the other way round.
            wait_until(functools.partial(is_found, expected), f"no plan as expected: {answers}", 20.0, never)
            found.append(answers[-1])
    near, far = found
    assert not unknown.ok
    assert BASE in unknown.message
    assert near.ok, near.message
    assert near.plan.found, near.plan.reason
    assert far.ok, far.message
    assert not far.plan.found
    assert "reach" in far.plan.reason
