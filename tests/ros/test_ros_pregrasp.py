"""A pick of what lies too close to something: with pushes allowed, the graph makes room and looks again."""

import math

import pytest
from action_msgs.msg import GoalStatus
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.client import PickClient
from keygrasp_ros.isolation import isolated_environment
from keygrasp_ros.stages import PUSH_STAGE, PlanningStage
from keygrasp_ros.topics import PUSH
from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until
from node_nursery import Forked, run_up
from ros_calls import never

from keygrasp.errors import InputError
from keygrasp.skills.manipulator import ManipulatorSkills, save_skills

pytestmark = [pytest.mark.ros, pytest.mark.slow]


@pytest.fixture(scope="module")
def pushing_graph(tmp_path_factory, own_corner):
    """The simulated graph whose pick server may push, with skills from a file; and a client of it."""
    folder = tmp_path_factory.mktemp("pushing")
    save_skills(ManipulatorSkills(), folder / "skills.json")
    environment = isolated_environment()
    parameters = ("pregrasp.pushes:=4", f"pregrasp.skills:={folder / 'skills.json'}")
    given = [text for each in parameters for text in ("-p", f"pick_server:{each}")]
    process = Forked(run_up("sim", "--planner", "geometric", "--ros-args", *given), environment, folder / "log")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ROS_DOMAIN_ID", environment["ROS_DOMAIN_ID"])
            client = PickClient("push_tester")
        with client:
            client.wait_ready(120.0)
            yield client
    finally:
        process.terminate()
        status = process.wait(60)
    assert status == 0
    assert "Traceback" not in (folder / "log").read_text()


@pytest.mark.parametrize("kind", ["wall", "pair"])
def test_a_pick_pushes_looks_again_and_lifts(pushing_graph, kind):
    pushing_graph.load_object(kind, seed=5, source="clutter")
    heard = []
    answer = pushing_graph.pick(on_feedback=heard.append)
    stages = [feedback.stage for feedback in heard]
    assert PUSH_STAGE in stages, answer.result.outcome.message
    assert stages[stages.index(PUSH_STAGE) + 1] == PlanningStage.LOOK
    assert any("mm of room" in feedback.message for feedback in heard)
    assert answer.result.outcome.outcome == TrialOutcome.SUCCESS, answer.result.outcome.message


def test_an_object_that_can_be_grasped_is_not_pushed(pushing_graph):
    pushing_graph.load_object("013", seed=1)
    stages = []
    answer = pushing_graph.pick(on_feedback=lambda feedback: stages.append(feedback.stage))
    assert answer.result.outcome.outcome == TrialOutcome.SUCCESS
    assert PUSH_STAGE not in stages


def test_without_leave_nothing_is_pushed(graph):
    graph.load_object("wall", seed=5, source="clutter")
    stages = []
    answer = graph.pick(on_feedback=lambda feedback: stages.append(feedback.stage))
    assert answer.result.outcome.outcome == TrialOutcome.NO_GRASP
    assert PUSH_STAGE not in stages
    with pytest.raises(InputError, match="heap"):
        graph.load_object("heap", source="clutter")


@pytest.mark.parametrize(
    ("frame", "change", "words"),
    [("camera", {}, "'camera'"), ("workspace", {"length": -1.0}, "negative"), ("workspace", {"x": math.nan}, "nan")],
)
def test_pushes_that_are_none_are_refused(pushing_graph, frame, change, words):
    goal = PUSH.type.Goal(z=0.01, length=0.05)
    goal.header.frame_id = frame
    for name, value in change.items():
        setattr(goal, name, value)
    client = SureActionClient(pushing_graph.node, PUSH.type, PUSH.name)
    try:
        wait_until(Acquaintance(client.server_is_ready), "nobody pushes", 60.0, never)
        handle = wait_for(client.send_goal_async(goal), "no answer", 60.0, never)
        answer = wait_for(handle.get_result_async(), "no result", 60.0, never)
    finally:
        client.destroy()
    assert answer.status == GoalStatus.STATUS_ABORTED
    assert answer.result.outcome.outcome == TrialOutcome.REFUSED
    assert words in answer.result.outcome.message
