"""The running graph, one process a node, over real DDS: picks, refusals, cancels, bad input, and what RViz needs."""

import math
import time
from pathlib import Path

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from keygrasp_interfaces.action import ExecuteGrasp, Pick
from keygrasp_interfaces.msg import Target, TrialOutcome
from keygrasp_interfaces.srv import ExtractKeypoints, GenerateGrasps
from keygrasp_ros import topics
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.camera_feed import CameraFeed
from keygrasp_ros.lifelines import NOTICED_SECONDS
from keygrasp_ros.reference import BEGIN, END, tables
from keygrasp_ros.stages import STAGES, PlanningStage
from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from ros_calls import Calls, never

from keygrasp.errors import InputError
from keygrasp.scene import Stage

pytestmark = [pytest.mark.ros, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
#: Grasped robustly from this seed: six of six perturbed executions succeed.
OBJECT = "013"


@pytest.fixture(scope="module")
def call(graph):
    return Calls(graph.node)


@pytest.fixture
def set_factor(call):
    """Sets the arm's speed, 1 for that of a real one, so that there is time to interfere."""

    def change(value):
        number = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=value)
        if isinstance(value, int):  # which passes for a double
            number = ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=value)
        request = SetParameters.Request(parameters=[ParameterMessage(name="real_time_factor", value=number)])
        assert call(SetParameters, "sim_robot/set_parameters", request).results[0].successful

    yield change
    change(0)


@pytest.fixture
def slow(set_factor):
    set_factor(1)


@pytest.fixture(scope="module")
def pair(graph):
    """A depth image and its camera_info, as the graph's camera publishes them."""
    with CameraFeed(graph.node) as feed:
        wait_until(lambda: feed.latest is not None, "no image", 60.0, never)
        return feed.latest


def place_goal():
    goal = Pick.Goal(place=True)
    goal.place_pose.header.frame_id = "workspace"
    goal.place_pose.pose.position.x, goal.place_pose.pose.position.y = 0.08, -0.06
    goal.place_pose.pose.orientation.w = 1.0
    return goal


def test_a_pick_from_image_to_lift(graph):
    graph.load_object(OBJECT, seed=1)
    heard = []
    answer = graph.pick(on_feedback=heard.append)
    outcome, plan = answer.result.outcome, answer.result.plan
    assert outcome.outcome == TrialOutcome.SUCCESS, outcome.message
    assert outcome.rise > 0.1
    stages = list(dict.fromkeys(feedback.stage for feedback in heard))
    assert stages == [stage for stage in STAGES if stage not in (PlanningStage.REFINE, Stage.PLACE)]
    assert heard[-1].grasp_known
    assert heard[-1].grasp == plan.grasp
    assert heard[-1].header.frame_id == plan.header.frame_id == "workspace"
    assert plan.planner == "geometric"
    assert answer.record.depth.header.stamp == plan.header.stamp
    assert answer.record.scene.objects[plan.object_index].keypoints.kinds
    assert answer.picture.shape == (360, 480, 3)
    assert answer.picture.std() > 10


def test_the_graph_plans_what_the_library_plans(graph):
    from keygrasp_ros.conversions import grasp_of

    from keygrasp.grasps import GeometricPlanner
    from keygrasp.protocol.scenes import SceneSpec, build_scene
    from keygrasp.scene import GripperSpec

    graph.load_object(OBJECT, seed=5)
    goal = Pick.Goal(target=Target(choice=Target.OBJECT, object_index=0))
    ours = graph.pick(goal).result.plan
    with build_scene(SceneSpec(OBJECT, "E", 5)) as scene:
        theirs = GeometricPlanner().plan(scene.view, GripperSpec(), rng=np.random.default_rng(0))
    assert grasp_of(ours.grasp) == theirs.grasp
    assert len(ours.candidates) == len(theirs.candidates)


def test_place_puts_the_object_where_it_was_asked_for(graph):
    graph.load_object(OBJECT, seed=1)
    stages = []
    answer = graph.pick(place_goal(), on_feedback=lambda feedback: stages.append(feedback.stage))
    assert answer.result.outcome.outcome == TrialOutcome.SUCCESS, answer.result.outcome.message
    assert stages[-1] == "place"
    assert "shake" not in stages
    before = answer.record.scene.objects[0].centroid
    after = graph.pick(Pick.Goal(target=Target(choice=Target.REGION, x=5.0, y=5.0, radius=0.01))).record.scene
    moved = np.array(after.objects[0].centroid) - before
    grasp = answer.result.plan.grasp
    np.testing.assert_allclose(moved, [0.08 - grasp.x, -0.06 - grasp.y], atol=0.08)
    assert np.linalg.norm(moved) > 0.03


def test_a_region_without_objects_is_answered(graph):
    goal = Pick.Goal(target=Target(choice=Target.REGION, x=3.0, y=3.0, radius=0.01))
    result = graph.pick(goal).result
    assert result.outcome.outcome == TrialOutcome.NO_GRASP
    assert "region" in result.outcome.message


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target(choice=Target.OBJECT, object_index=99), "object 99"),
        (Target(choice=Target.REGION, radius=math.nan), "region"),
        (Target(choice=7), "unknown"),
    ],
)
def test_targets_that_are_none_are_refused(graph, target, words):
    result = graph.pick(Pick.Goal(target=target)).result
    assert result.outcome.outcome == TrialOutcome.REFUSED
    assert words in result.outcome.message


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda p: setattr(p.header, "frame_id", ""), "frame_id is empty"),
        (lambda p: setattr(p.header, "frame_id", "nowhere"), "'nowhere'"),
        (lambda p: setattr(p.pose.position, "x", math.nan), "not finite"),
        (lambda p: setattr(p.pose.orientation, "w", 0.0), "not a rotation"),
    ],
)
def test_place_poses_that_are_none_are_refused_before_anything_moves(graph, damage, words):
    goal = place_goal()
    damage(goal.place_pose)
    stages = []
    result = graph.pick(goal, on_feedback=lambda feedback: stages.append(feedback.stage)).result
    assert result.outcome.outcome == TrialOutcome.REFUSED
    assert words in result.outcome.message
    assert stages == []


def test_a_second_goal_is_refused_with_the_reason_while_the_first_goes_on(graph, slow):
    graph.load_object(OBJECT, seed=1)
    first = graph.send()
    second = graph.result(graph.send())
    assert second.outcome.outcome == TrialOutcome.REFUSED
    assert "busy" in second.outcome.message
    wait_for(first.cancel_goal_async(), "no answer to the cancel", 60.0, never)
    assert graph.result(first).outcome.outcome == TrialOutcome.CANCELLED


@pytest.mark.parametrize("stage", Stage)
def test_a_cancel_stops_the_arm_at_once_and_says_what_the_gripper_holds(graph, set_factor, slow, stage):
    graph.load_object(OBJECT, seed=1)
    seen = []
    handle = graph.send(
        place_goal() if stage == Stage.PLACE else Pick.Goal(), on_feedback=lambda feedback: seen.append(feedback.stage)
    )
    if stage == Stage.HOLD:  # it lasts 0.2 simulated seconds
        wait_until(lambda: Stage.SHAKE in seen, "it was not shaken", 60.0, never)
        set_factor(0.5)
    wait_until(lambda: stage in seen, f"stage {stage} never came", 60.0, never)
    asked = time.monotonic()
    wait_for(handle.cancel_goal_async(), "no answer to the cancel", 60.0, never)
    answer = wait_for(handle.get_result_async(), "no result", 60.0, never)
    assert time.monotonic() - asked < 3.0
    assert answer.status == GoalStatus.STATUS_CANCELED
    outcome = answer.result.outcome
    assert outcome.outcome == TrialOutcome.CANCELLED
    stage = seen[-1]  # a cancel that was late meets the next one
    said = outcome.message.partition(f"cancelled in stage '{stage}': the gripper ")[2]
    if stage != Stage.CLOSE:  # in which it may have come to either
        assert said.startswith("holds the object" if stage in STAGES[STAGES.index(Stage.CLOSE) :] else "is empty")
    assert said.endswith(" mm open")


def test_the_graph_picks_again_after_a_cancel(graph):
    graph.load_object(OBJECT, seed=1)
    assert graph.pick().result.outcome.outcome == TrialOutcome.SUCCESS


def test_the_simulator_can_be_put_to_sleep_cleaned_up_and_woken(graph, call):
    def change(transition):
        request = ChangeState.Request()
        request.transition.id = transition
        assert call(ChangeState, "sim_robot/change_state", request).success

    change(Transition.TRANSITION_DEACTIVATE)
    with pytest.raises(InputError, match="not active"):
        graph.load_object(OBJECT)
    change(Transition.TRANSITION_CLEANUP)
    change(Transition.TRANSITION_CONFIGURE)
    change(Transition.TRANSITION_ACTIVATE)
    graph.load_object(OBJECT, seed=1)
    assert graph.pick().result.outcome.outcome == TrialOutcome.SUCCESS


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda d, i: setattr(d, "encoding", "bgr8"), "not a depth image"),
        (lambda d, i: setattr(d.header, "frame_id", ""), "frame_id is empty"),
        (lambda d, i: [setattr(m.header, "frame_id", "nowhere") for m in (d, i)], "'nowhere'"),
        (lambda d, i: setattr(i.header.stamp, "sec", 1), "stamps"),
        (lambda d, i: setattr(i, "width", 640), "shape"),
        (lambda d, i: setattr(i, "k", np.zeros(9)), "focal"),
        (lambda d, i: setattr(d, "data", bytes(len(d.data))), "no valid pixel"),
        (lambda d, i: setattr(d, "step", 3), "step"),
    ],
)
def test_bad_images_are_answered_in_words(call, pair, damage, words):
    from copy import deepcopy

    depth, info = deepcopy(pair)
    damage(depth, info)
    answer = call(ExtractKeypoints, "extract_keypoints", ExtractKeypoints.Request(depth=depth, camera_info=info))
    assert not answer.ok
    assert words in answer.message
    request = GenerateGrasps.Request(depth=depth, camera_info=info)
    assert words in call(GenerateGrasps, "generate_grasps", request).message


def test_services_take_an_image_alone(call, pair):
    depth, info = pair
    answer = call(GenerateGrasps, "generate_grasps", GenerateGrasps.Request(depth=depth, camera_info=info))
    assert answer.ok, answer.message
    assert answer.plan.candidates


@pytest.mark.parametrize(
    ("frame", "x", "words"), [("", 0.0, "empty"), ("camera", 0.0, "'camera'"), ("workspace", math.nan, "nan")]
)
def test_the_robot_refuses_grasps_that_are_none(graph, frame, x, words):
    goal = ExecuteGrasp.Goal()
    goal.header.frame_id = frame
    goal.grasp.x, goal.grasp.width = x, 0.05
    client = SureActionClient(graph.node, ExecuteGrasp, "execute_grasp")
    try:
        wait_until(Acquaintance(client.server_is_ready), "no robot", 60.0, never)
        handle = wait_for(client.send_goal_async(goal), "no answer", 60.0, never)
        answer = wait_for(handle.get_result_async(), "no result", 60.0, never)
    finally:
        client.destroy()
    assert answer.status == GoalStatus.STATUS_ABORTED
    assert answer.result.outcome.outcome == TrialOutcome.REFUSED
    assert words in answer.result.outcome.message


@pytest.mark.parametrize("change", [{"name": "no such object"}, {"rule": "Z"}, {"source": "moon"}])
def test_unknown_objects_are_named_and_the_scene_stays(graph, change):
    with pytest.raises(InputError) as error:
        graph.load_object(**{"name": OBJECT, **change})
    assert next(iter(change.values())) in str(error.value)


def test_every_topic_service_and_action_of_the_list_is_there(graph):
    here = dict(graph.node.get_topic_names_and_types())
    absent = ("pose_refiner", "shaped_reward", "world_model", "skill_robot", "delta_robot", "anybody")
    for topic in topics.TOPICS:
        # The clock is published only where it was asked for.
        if topic.publisher not in absent and topic is not topics.CLOCK:
            name = topic.name if topic.name.startswith("/") else f"/{topic.name}"
            assert here.get(name), name
    services = {name for name, _ in graph.node.get_service_names_and_types()}
    assert {f"/{s.name}" for s in topics.SERVICES if s.server not in absent} <= services


def test_a_robot_that_is_killed_during_a_pick_ends_it_and_comes_back(graph, slow):
    graph.load_object(OBJECT, seed=1)
    robot, seen = graph.processes.children["sim_robot"], []
    handle = graph.send(on_feedback=lambda feedback: seen.append(feedback.stage))
    wait_until(lambda: "descend" in seen, "the arm did not move", 60.0, never)
    robot.kill()
    killed = time.monotonic()
    result = graph.result(handle, 60.0)
    assert time.monotonic() - killed < NOTICED_SECONDS  # DDS alone takes 20 s
    assert result.outcome.outcome == TrialOutcome.ROBOT_FAULT
    assert "vanished" in result.outcome.message
    robot.wait()
    graph.processes.start_one("sim_robot")
    graph.wait_ready(120.0)
    graph.load_object(OBJECT, seed=1)
    assert graph.pick().result.outcome.outcome == TrialOutcome.SUCCESS


def test_the_docs_hold_the_generated_tables():
    text = (ROOT / "docs/ros.md").read_text(encoding="utf-8")
    assert text.split(BEGIN)[1].split(END)[0].strip() == tables().strip(), (
        "run: python -m keygrasp_ros.reference docs/ros.md"
    )
