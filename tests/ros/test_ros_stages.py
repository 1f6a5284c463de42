"""A cancel, Ctrl-C and SIGTERM in each stage of a pick, whatever stages there are; kill -9: test_ros_kills.py."""

import signal
import time

import pytest
from action_msgs.msg import GoalStatus
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.stages import STAGES, PlanningStage
from keygrasp_ros.waiting import wait_until
from ros_calls import never
from ur5_graph import ARM, PATIENCE, WORKERS

pytestmark = [pytest.mark.ros, pytest.mark.slow]
#: Seconds in which whatever was stopped stands.
STOPPED = 3.0


def assert_stands(graph):
    wait_until(lambda: not graph.of_driver("moving"), "the arm still moves", STOPPED, never)


def test_the_stages_of_the_list_are_those_that_a_pick_goes_through(ur5_graph):
    result, stages = ur5_graph.pick()
    assert result.outcome.outcome == TrialOutcome.SUCCESS, result.outcome.message
    assert stages == [stage for stage in STAGES if stage != "place"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_cancel_ends_the_pick_at_once_with_a_standing_arm_and_a_known_gripper(ur5_graph, stage):
    with ur5_graph.at(stage) as pick:
        asked = time.monotonic()
        pick.cancel()
        answer = pick.answer()
        assert time.monotonic() - asked < STOPPED
        assert not ur5_graph.of_driver("moving")
        holds = ur5_graph.of_driver("holding")
    outcome = answer.result.outcome
    assert outcome.outcome == TrialOutcome.CANCELLED, outcome.message
    assert answer.status == GoalStatus.STATUS_CANCELED
    if stage in PlanningStage:
        assert "the robot did not move" in outcome.message
    else:
        assert f"cancelled in stage '{stage}': the gripper {'holds the object' if holds else 'is empty'}, " in (
            outcome.message
        )


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_ends_all_nodes_in_order_and_stops_the_arm(ur5_graph, stage):
    with ur5_graph.at(stage):
        for child in ur5_graph.nodes.children.values():
            child.send_signal(signal.SIGINT)
            child.send_signal(signal.SIGCONT)
        statuses = {name: child.wait(PATIENCE) for name, child in ur5_graph.nodes.children.items()}
        assert_stands(ur5_graph)
    assert set(statuses.values()) == {0}, statuses


@pytest.mark.parametrize("stage", STAGES)
def test_sigterm_ends_the_node_that_is_at_work_in_order_and_stops_the_arm(ur5_graph, stage):
    with ur5_graph.at(stage) as pick:
        process = ur5_graph.process(WORKERS.get(stage, ARM))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE) == 0
        assert_stands(ur5_graph)
    ur5_graph.revive()  # or the pick would wait for the node
    if stage != PlanningStage.LOOK:  # in which the pick server itself has gone
        outcome = pick.answer().result.outcome.outcome
        # A pick whose planning was already answered, or which does without the refiner, goes on.
        assert stage in PlanningStage or outcome in (TrialOutcome.CANCELLED, TrialOutcome.ROBOT_FAULT)


def test_the_graph_picks_after_all_that(ur5_graph):
    """As each test above has shown for the one before, up to its stage."""
    ur5_graph.wait_for_success()
