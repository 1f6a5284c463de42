"""Faults of the camera during picks, on a graph with the tests' own camera and the tests' own UR5 driver."""

import pytest
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.stages import STAGES
from rclpy.qos import ReliabilityPolicy

pytestmark = [pytest.mark.ros, pytest.mark.slow]


@pytest.fixture
def graph(ur5_graph):
    yield ur5_graph
    ur5_graph.camera.fault = ""


@pytest.mark.parametrize("reliability", [ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE])
def test_any_camera_and_an_arm_of_others_pick_together(graph, reliability):
    graph.camera.advertise(reliability)
    result, stages = graph.pick()
    assert result.outcome.outcome == TrialOutcome.SUCCESS, result.outcome.message
    assert stages == [stage for stage in STAGES if stage != "place"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("stopped", "no depth image on"),
        ("stale", "no new depth image"),
        ("no info", "no camera_info on"),
        ("other stamps", "no new depth image whose camera_info has the same stamp"),
        ("sizes", "shape"),
        ("nowhere", "'nowhere'"),
        ("no frame", "frame_id is empty"),
    ],
)
def test_a_camera_that_misbehaves_is_named_and_nothing_moves(graph, fault, words):
    graph.camera.fault = fault
    result, stages = graph.pick()
    assert result.outcome.outcome in (TrialOutcome.ROBOT_FAULT, TrialOutcome.REFUSED)
    assert words in result.outcome.message
    assert "approach" not in stages
    graph.camera.fault = ""
    assert graph.succeeds()
