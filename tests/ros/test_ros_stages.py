"""A cancel, Ctrl-C, SIGTERM and kill -9 in each stage of a pick, whatever stages there are."""

import signal
import time

import pytest
from action_msgs.msg import GoalStatus
from documented import DOCS
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.lifelines import NOTICED_SECONDS
from keygrasp_ros.stages import STAGES, PlanningStage
from keygrasp_ros.waiting import wait_until
from ros_calls import never
from ros_processes import alive
from ur5_graph import ARM, PATIENCE, WORKERS

pytestmark = [pytest.mark.ros, pytest.mark.slow]
#: Seconds in which whatever was stopped stands.
STOPPED = 3.0
#: In the first stage the pick server itself is at work, and is killed as such.
WITH_WORKER = [stage for stage in STAGES if WORKERS.get(stage, ARM) != "pick_server"]


def assert_stands(graph):
    wait_until(lambda: not graph.of_driver("moving"), "the arm still moves", STOPPED, never)


def test_the_stages_of_the_list_are_those_that_a_pick_goes_through(ur5_graph):
    result, stages = ur5_graph.pick()
    assert result.outcome.outcome == TrialOutcome.SUCCESS, result.outcome.message
    assert stages == [stage for stage in STAGES if stage != "place"]


def test_the_docs_say_in_which_time_a_lost_node_is_noticed():
    assert f"outcome `robot_fault` within {NOTICED_SECONDS:g} s" in (DOCS / "ros.md").read_text(encoding="utf-8")


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
    ur5_graph.wait_for_success()


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_ends_all_nodes_in_order_and_stops_the_arm(ur5_graph, stage):
    with ur5_graph.at(stage):
        for child in ur5_graph.nodes.children.values():
            child.send_signal(signal.SIGINT)
            child.send_signal(signal.SIGCONT)
        statuses = {name: child.wait(PATIENCE) for name, child in ur5_graph.nodes.children.items()}
        assert_stands(ur5_graph)
    assert set(statuses.values()) == {0}, statuses
    ur5_graph.revive()
    ur5_graph.wait_for_success()


@pytest.mark.parametrize("stage", STAGES)
def test_sigterm_ends_the_node_that_is_at_work_in_order_and_stops_the_arm(ur5_graph, stage):
    with ur5_graph.at(stage) as pick:
        process = ur5_graph.process(WORKERS.get(stage, ARM))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE) == 0
        assert_stands(ur5_graph)
    ur5_graph.revive()
    if stage not in PlanningStage:
        outcome = pick.answer().result.outcome.outcome
        assert outcome in (TrialOutcome.CANCELLED, TrialOutcome.ROBOT_FAULT)
    ur5_graph.wait_for_success()


@pytest.mark.parametrize("stage", WITH_WORKER)
def test_kill_of_the_node_that_is_at_work_is_noticed_within_seconds(ur5_graph, stage):
    name = WORKERS.get(stage, ARM)
    with ur5_graph.at(stage) as pick:
        ur5_graph.process(name).kill()
        killed = time.monotonic()
        if stage == PlanningStage.REFINE:  # its absence costs the refinement, not the pick
            warned = lambda: any("not refined, taking the geometric" in heard.message for heard in pick.heard)  # noqa: E731
            wait_until(warned, "no warning", PATIENCE, never)
        else:
            outcome = pick.answer().result.outcome
            assert outcome.outcome == TrialOutcome.ROBOT_FAULT
            assert "vanished" in outcome.message
        assert time.monotonic() - killed < NOTICED_SECONDS
    if stage == PlanningStage.REFINE:
        answer = pick.answer().result
        assert answer.outcome.outcome == TrialOutcome.SUCCESS, answer.outcome.message
        assert answer.plan.planner == "geometric"
    ur5_graph.process(name).wait()
    ur5_graph.revive()
    ur5_graph.wait_for_success()


@pytest.mark.parametrize("stage", STAGES)
def test_kill_of_the_pick_server_leaves_an_arm_that_ends_its_grasp_and_takes_the_next(ur5_graph, stage):
    with ur5_graph.at(stage):
        ur5_graph.process("pick_server").kill()
        ur5_graph.process("pick_server").wait()
    assert all(alive(child.pid) for name, child in ur5_graph.nodes.children.items() if name != "pick_server")
    ur5_graph.revive()
    ur5_graph.wait_for_success()
