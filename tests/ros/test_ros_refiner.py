"""The refiner's node alone: another graph's scene in, a refined grasp out."""

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from keygrasp_interfaces.msg import GraspPlan
from keygrasp_interfaces.srv import RefineGrasp
from keygrasp_ros.client import PickClient
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.scene_conversions import scene_message
from node_nursery import run_node
from ros_calls import Calls
from std_msgs.msg import Header

from keygrasp.errors import InputError
from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.perception import perceive
from keygrasp.refine.network import default_weights
from keygrasp.scene import OverheadView

pytestmark = [pytest.mark.ros, pytest.mark.slow]


def have_weights():
    try:
        return default_weights().is_file()
    except InputError:
        return False


@pytest.fixture
def domain(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))


@pytest.mark.skipif(not have_weights(), reason="the refiner's weights are not in models/")
def test_the_same_scene_gives_the_same_refined_grasp_and_bad_indices_are_answered(fork, domain):
    depth = np.full((128, 128), 0.7, np.float32)
    depth[50:80, 55:70] = 0.65
    view = OverheadView(depth, Intrinsics(128, 128, 256.0, 256.0, 63.5, 63.5), overhead_pose(0.7))
    header = Header(stamp=Time(sec=5), frame_id="workspace")
    request = RefineGrasp.Request(scene=scene_message(perceive(view), header), plan=GraspPlan(header=header))
    fork(run_node("pose_refiner"))
    with PickClient() as client:
        call = Calls(client.node)
        answers = [call(RefineGrasp, "refine_grasp", request, 120.0) for _ in range(2)]
        request.plan.object_index = 7
        bad = call(RefineGrasp, "refine_grasp", request)
    assert answers[0].ok, answers[0].message
    plan = answers[0].plan
    assert plan.found
    assert plan.path[-1] == plan.grasp == answers[1].plan.grasp
    assert plan.success_probability_known
    assert 0.0 <= plan.success_probability <= 1.0
    assert plan.header == header
    assert not bad.ok
    assert "object 7" in bad.message


def run_without_weights():
    """The node on a partial checkout: the weights that ship with the project are not there."""
    from keygrasp_ros.nodes import pose_refiner

    def missing():
        raise InputError("the weights are not installed")

    pose_refiner.default_weights = missing
    return run_node("pose_refiner")()


def test_without_weights_the_node_starts_says_so_and_answers_so(fork, domain):
    child = fork(run_without_weights)
    with PickClient() as client:
        answer = Calls(client.node)(RefineGrasp, "refine_grasp", RefineGrasp.Request(), 60.0)
    assert not answer.ok
    assert "the weights are not installed" in answer.message
    child.terminate()
    output, _ = child.communicate(60)
    assert child.returncode == 0
    assert output.count("no refinement: the weights are not installed") == 1


def test_weights_that_were_named_but_are_not_there_end_the_start(fork, domain):
    child = fork(run_node("pose_refiner", "-p", "weights:=/nowhere.safetensors"))
    output, _ = child.communicate(timeout=60)
    assert child.returncode > 0
    assert "/nowhere.safetensors" in output
    assert "Traceback" not in output
