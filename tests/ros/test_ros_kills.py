"""Kill -9 in each stage of a pick, of the node that is at work and of the pick server; see test_ros_stages.py."""

import time

import pytest
from documented import DOCS
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.lifelines import NOTICED_SECONDS
from keygrasp_ros.stages import STAGES, PlanningStage
from keygrasp_ros.waiting import wait_until
from ros_calls import never
from ros_processes import alive
from ur5_graph import ARM, PATIENCE, WORKERS

pytestmark = [pytest.mark.ros, pytest.mark.slow]
#: In the first stage the pick server itself is at work, and is killed as such.
WITH_WORKER = [stage for stage in STAGES if WORKERS.get(stage, ARM) != "pick_server"]


def test_the_docs_say_in_which_time_a_lost_node_is_noticed():
    assert f"outcome `robot_fault` within {NOTICED_SECONDS:g} s" in (DOCS / "ros.md").read_text(encoding="utf-8")


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
