"""The node for arms that others drive, against a UR5's driver of the tests' own that behaves and misbehaves."""

import functools
import math
import os
import signal
import time

import pytest
from keygrasp_interfaces.action import ExecuteGrasp
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.action_client import SureActionClient
from keygrasp_ros.client import PickClient
from keygrasp_ros.graph import default_params
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.topics import EXECUTE
from keygrasp_ros.waiting import Acquaintance, wait_for, wait_until
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from node_nursery import Forked, run_node
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from ros_calls import Calls, never
from ur5_graph import run_fake_ur5

pytestmark = [pytest.mark.ros, pytest.mark.slow]
#: Seconds after which joint states are stale: enough for a busy machine.
STALE = 1.5
GIVEN = ("speed:=1.0", "motion_margin:=2.0", f"state_timeout:={STALE}")
STAGES = ["approach", "descend", "close", "lift", "shake", "hold"]


def goal(**change):
    message = ExecuteGrasp.Goal()
    message.header.frame_id = "workspace"
    message.grasp.x, message.grasp.y, message.grasp.z, message.grasp.width = 0.02, -0.03, 0.04, 0.06
    for name, value in change.items():
        setattr(message.grasp, name, value)
    return message


class Bench:
    """The node and the driver, and a client of the node."""

    def __init__(self, start):
        self._start, self._lives = start, 0
        self.client = PickClient("bench")
        self.node = self.client.node
        self._call = Calls(self.node)
        self._robot = SureActionClient(self.node, ExecuteGrasp, EXECUTE.name)
        given = [text for value in GIVEN for text in ("-p", value)]
        self.arm = start(run_node("trajectory_arm", "--params-file", str(default_params("ur5")), *given))
        self.start_driver()
        wait_until(Acquaintance(self._robot.server_is_ready), "no arm", 60.0, never)

    def start_driver(self):
        self._lives += 1  # a name of its own for each: for a while, ROS goes on to know one that was killed
        self._name = f"fake_ur5_{self._lives}"
        self.driver = self._start(functools.partial(run_fake_ur5, ("--ros-args", "-r", f"__node:={self._name}")))

    def behave(self, mode="well", with_object=True):
        text = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=mode)
        flag = ParameterValue(type=ParameterType.PARAMETER_BOOL, bool_value=with_object)
        request = SetParameters.Request(
            parameters=[Parameter(name="mode", value=text), Parameter(name="object", value=flag)]
        )
        assert self._call(SetParameters, f"{self._name}/set_parameters", request).results[0].successful

    def is_moving(self):
        request = GetParameters.Request(names=["moving"])
        return self._call(GetParameters, f"{self._name}/get_parameters", request).values[0].bool_value

    def send(self, message, on_stage=lambda stage: None):
        sent = self._robot.send_goal_async(message, feedback_callback=lambda m: on_stage(m.feedback.stage))
        return wait_for(sent, "no answer", 60.0, never)

    def execute(self, message, on_stage=lambda stage: None):
        return self.result(self.send(message, on_stage)).result.outcome

    def result(self, handle, seconds=60.0):
        return wait_for(handle.get_result_async(), "no result", seconds, never)

    def change_state(self, *transitions):
        for transition in transitions:
            request = ChangeState.Request()
            request.transition.id = transition
            assert self._call(ChangeState, "trajectory_arm/change_state", request).success

    def close(self):
        self._robot.destroy()
        self.client.close()


@pytest.fixture(scope="module")
def bench_of_all(own_corner, tmp_path_factory):
    os.environ["ROS_DOMAIN_ID"] = str(free_domain())
    log = tmp_path_factory.mktemp("arm") / "log"
    started = []

    def start(function):
        started.append(Forked(function, os.environ, log))
        return started[-1]

    bench = Bench(start)
    try:
        # The first goals may come before TF and joint states have arrived.
        wait_until(lambda: "opening" in bench.execute(goal(width=1.0)).message, "never ready", 60.0, never)
        yield bench
    finally:
        bench.close()
        bench.arm.send_signal(signal.SIGTERM)
        status = bench.arm.wait(60)
        for child in started:
            child.kill()
            child.wait()
    assert status == 0, log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.fixture
def bench(bench_of_all):
    bench_of_all.behave()
    yield bench_of_all
    bench_of_all.behave()


def test_a_grasp_in_all_stages(bench):
    stages = []
    outcome = bench.execute(goal(), stages.append)
    assert outcome.outcome == TrialOutcome.SUCCESS, outcome.message
    assert stages == STAGES
    assert outcome.rise == pytest.approx(0.15, abs=0.005)
    assert outcome.opening == pytest.approx(0.04, abs=0.002)


def test_placing_lets_go_where_it_was_asked_for_and_returns_home(bench):
    message = goal()
    message.place = True
    message.place_at.x, message.place_at.y, message.place_at.z = -0.05, 0.06, 0.04
    stages = []
    outcome = bench.execute(message, stages.append)
    assert outcome.outcome == TrialOutcome.SUCCESS, outcome.message
    assert outcome.message == "put down"
    assert stages == ["approach", "descend", "close", "lift", "place"]


def test_closing_on_nothing_is_empty(bench):
    bench.behave(with_object=False)
    outcome = bench.execute(goal())
    assert outcome.outcome == TrialOutcome.EMPTY
    assert outcome.opening < 0.002
    assert "did not return home" not in outcome.message


def test_an_object_that_falls_is_noticed(bench):
    bench.behave("drop")
    assert bench.execute(goal()).outcome == TrialOutcome.SLIPPED


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("reject", "rejected the goal"),
        ("abort", "a motor is too warm"),
        ("endless", "did not finish"),
        ("deaf", "did not end a cancelled goal"),
        ("short", "off its target"),
        ("silent", "joint state"),
        ("gripper_stuck", "the gripper stopped"),
        ("gripper_reject", "the gripper rejected"),
    ],
)
def test_a_driver_that_misbehaves_is_a_robot_fault_with_the_reason(bench, mode, words):
    bench.behave(mode)
    outcome = bench.execute(goal())
    assert outcome.outcome == TrialOutcome.ROBOT_FAULT
    assert words in outcome.message
    assert "the gripper" in outcome.message


def test_leaving_the_path_while_descending_is_a_contact(bench):
    bench.behave("path_left")
    outcome = bench.execute(goal())
    assert outcome.outcome == TrialOutcome.CONTACT_TOO_EARLY
    assert "path tolerance violated" in outcome.message


@pytest.mark.parametrize(("mode", "words"), [("nan", "nan"), ("strangers", "joint state")])
def test_joint_states_that_are_none_refuse_the_goal_before_anything_moves(bench, mode, words):
    bench.behave(mode)
    time.sleep(STALE + 0.2 if mode == "strangers" else 0.2)  # what was heard before gets stale, or is replaced
    stages = []
    outcome = bench.execute(goal(), stages.append)
    assert outcome.outcome == TrialOutcome.REFUSED
    assert words in outcome.message
    assert stages == []


def test_joints_of_another_arm_are_named_where_nothing_else_was_heard(bench):
    bench.change_state(Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP)
    bench.behave("strangers")
    bench.change_state(Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
    time.sleep(0.5)
    message = bench.execute(goal()).message
    assert "other_finger_joint" in message
    assert "joint_prefix" in message


def test_a_driver_that_is_killed_is_noticed_within_seconds_and_may_come_back(bench):
    bench.behave("endless")
    seen = []
    handle = bench.send(goal(), seen.append)
    wait_until(lambda: "approach" in seen and bench.is_moving(), "no start", 60.0, never)
    bench.driver.kill()
    began = time.monotonic()
    outcome = bench.result(handle).result.outcome
    assert time.monotonic() - began < STALE + 3.5  # a cancel that nobody answers takes 2 s
    assert outcome.outcome == TrialOutcome.ROBOT_FAULT
    assert "joint state" in outcome.message
    bench.start_driver()
    wait_until(lambda: bench.execute(goal()).outcome == TrialOutcome.SUCCESS, "no recovery", 60.0, never)


def test_a_second_goal_is_refused_while_the_first_goes_on(bench):
    bench.behave("endless")
    first = bench.send(goal())
    assert "busy" in bench.execute(goal()).message
    wait_for(first.cancel_goal_async(), "no answer", 60.0, never)
    assert bench.result(first).result.outcome.outcome == TrialOutcome.CANCELLED


def test_going_to_sleep_stops_the_arm_and_it_can_be_woken(bench):
    bench.behave("endless")
    handle = bench.send(goal())
    time.sleep(0.5)
    bench.change_state(Transition.TRANSITION_DEACTIVATE)
    assert bench.result(handle).result.outcome.outcome == TrialOutcome.CANCELLED
    assert "not active" in bench.execute(goal()).message
    bench.behave()
    bench.change_state(Transition.TRANSITION_ACTIVATE)
    assert bench.execute(goal()).outcome == TrialOutcome.SUCCESS


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({"x": 0.9}, TrialOutcome.UNREACHABLE, "can't reach"),
        ({"width": 0.2}, TrialOutcome.UNREACHABLE, "outside the gripper's"),
        ({"z": -0.01}, TrialOutcome.UNREACHABLE, "below the table"),
        ({"x": math.nan}, TrialOutcome.REFUSED, "nan"),
    ],
)
def test_grasps_that_cannot_be_are_answered_before_anything_moves(bench, change, outcome, words):
    stages = []
    answer = bench.execute(goal(**change), stages.append)
    assert answer.outcome == outcome
    assert words in answer.message
    assert stages == []


def test_an_unreachable_place_is_said_before_anything_moves(bench):
    message = goal()
    message.place, message.place_at.x = True, 2.0
    stages = []
    assert bench.execute(message, stages.append).outcome == TrialOutcome.UNREACHABLE
    assert stages == []


@pytest.mark.parametrize("frame", ["", "camera"])
def test_a_grasp_in_another_frame_is_refused(bench, frame):
    message = goal()
    message.header.frame_id = frame
    assert bench.execute(message).outcome == TrialOutcome.REFUSED
