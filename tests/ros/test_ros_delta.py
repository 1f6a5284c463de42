"""The Delta's node on an emulated X1, over a real pseudo-terminal, each in a process of its own."""

import math
import os
import threading
import time
from pathlib import Path
from urllib.parse import urlparse
from xml.etree import ElementTree

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from delta_bench import TABLE, DeltaBench, goal
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.frames import listen
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.topics import JOINT_STATES, RESET_STOP, ROBOT_DESCRIPTION, STOP
from keygrasp_ros.waiting import wait_for, wait_until
from lifecycle_msgs.msg import Transition
from ros_calls import never

from keygrasp.errors import InputError
from keygrasp.geometry.poses import transform_points
from keygrasp.robots.delta_x import MODELS, DeltaConfig, DeltaX, State, ToolConfig, forward
from keygrasp.robots.delta_x.description import ARM_JOINTS, BASE, PALM, PLATFORM, describe

pytest.importorskip("serial")
pytestmark = [pytest.mark.ros, pytest.mark.hardware, pytest.mark.slow]
STAGES = ["approach", "descend", "close", "lift", "hold"]


@pytest.fixture(scope="module")
def bench_of_all(own_corner, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(free_domain()))
        bench = DeltaBench(tmp_path_factory.mktemp("delta"), "holding:=topic").start().wait_ready()
    yield bench
    assert bench.close() == 0, bench.log.read_text()
    assert "Traceback" not in bench.log.read_text()


@pytest.fixture
def bench(bench_of_all):
    bench_of_all.holding = True
    return bench_of_all.revive()


def test_a_grasp_in_all_stages(bench):
    stages = []
    outcome = bench.execute(goal(), stages.append)
    assert outcome.outcome == TrialOutcome.SUCCESS, outcome.message
    assert stages == STAGES
    assert outcome.opening == pytest.approx(ToolConfig().table[0][0])


def test_placing(bench):
    message = goal()
    message.place = True
    message.place_at.x, message.place_at.y, message.place_at.z = -0.05, 0.06, 0.01
    stages = []
    outcome = bench.execute(message, stages.append)
    assert outcome.outcome == TrialOutcome.SUCCESS, outcome.message
    assert stages == [*STAGES, "place"]


@pytest.mark.parametrize(
    ("holding", "outcome", "words"),
    [(False, TrialOutcome.SLIPPED, "nothing is held"), (None, TrialOutcome.ROBOT_FAULT, "nothing came on 'holding'")],
)
def test_a_success_needs_somebody_who_says_that_it_is_held(bench, holding, outcome, words):
    bench.holding = holding
    answer = bench.execute(goal())
    assert answer.outcome == outcome
    assert words in answer.message
    assert not answer.success


def test_joint_states_and_tf_are_the_robots_own_position_with_closed_loops(bench):
    frames, states = listen(bench.client.node), []
    bench.client.node.create_subscription(JOINT_STATES.type, JOINT_STATES.name, states.append, JOINT_STATES.qos)
    bench.execute(goal())
    begun = bench.emulator.lines("G1 ")[-1]
    said = 1e-3 * np.array([float(word[1:]) for word in begun.split()[1:4]])
    count = len(states)
    wait_until(lambda: len(states) > count + 1, "no joint states", 10.0, never)
    angles = np.array([dict(zip(states[-1].name, states[-1].position, strict=True))[name] for name in ARM_JOINTS])
    np.testing.assert_allclose(forward(MODELS["X1"].geometry, angles), said, atol=2e-5)
    frames.wait_for_pose(PALM, "workspace", 10.0)
    np.testing.assert_allclose(frames.pose(PLATFORM, BASE)[:3, 3], said, atol=2e-5)
    np.testing.assert_allclose(frames.pose(BASE, "workspace")[:3, 3], [0, 0, -TABLE], atol=1e-9)
    for closure in describe(MODELS["X1"], ToolConfig()).closures:
        end = transform_points(frames.pose(closure.rod, BASE), np.array(closure.rod_point))
        hinge = transform_points(frames.pose(closure.platform, BASE), np.array(closure.platform_point))
        np.testing.assert_allclose(end, hinge, atol=1e-6)
    # While it moved, states came often, and no arm ever jumped.
    moving = np.array([[dict(zip(s.name, s.position, strict=True))[name] for name in ARM_JOINTS] for s in states])
    assert len(moving) > 10
    assert np.abs(np.diff(moving, axis=0)).max() < 0.6


def test_the_description_names_meshes_that_are_there(bench):
    heard = []
    bench.client.node.create_subscription(
        ROBOT_DESCRIPTION.type, ROBOT_DESCRIPTION.name, heard.append, ROBOT_DESCRIPTION.qos
    )
    wait_until(lambda: heard, "no description", 10.0, never)
    urdf = ElementTree.fromstring(heard[0].data)  # noqa: S314 - our own text
    meshes = {mesh.get("filename") for mesh in urdf.iter("mesh")}
    assert len(meshes) == 9
    assert all(Path(urlparse(mesh).path).stat().st_size > 84 for mesh in meshes)


def test_diagnostics_tell_the_state_of_the_link(bench):
    bench.execute(goal())
    bench.health.clear()
    wait_until(lambda: bench.health, "no diagnostics", 10.0, never)
    health = bench.health
    assert (health["message"], health["link"]) == ("running", State.READY)
    assert float(health["position_lag_mm"]) < 0.02
    assert float(health["position_age_s"]) < 30
    assert int(health["commands"]) > 5
    assert int(health["missing"]) == 0
    assert float(health["answer_p50_ms"]) > 0
    assert health["tool"] == "as last told"


def test_a_second_goal_is_refused_while_the_first_goes_on(bench):
    first = bench.begun(goal(), "descend")
    assert "busy" in bench.execute(goal()).message
    assert bench.result(first).result.outcome.outcome == TrialOutcome.SUCCESS


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({"x": 0.15, "z": 0.12}, TrialOutcome.UNREACHABLE, "an arm would be above its home position"),
        ({"x": 0.9}, TrialOutcome.UNREACHABLE, "too far from the axis"),
        ({"y": 0.171}, TrialOutcome.UNREACHABLE, "mm on move 1"),
        ({"width": 0.2}, TrialOutcome.UNREACHABLE, "outside the gripper's"),
        ({"z": -0.01}, TrialOutcome.UNREACHABLE, "below the table"),
        ({"x": math.nan}, TrialOutcome.REFUSED, "nan"),
    ],
)
def test_grasps_that_cannot_be_are_refused_with_the_first_bad_point_and_nothing_is_sent(bench, change, outcome, words):
    before, stages = len(bench.emulator.lines()), []
    answer = bench.execute(goal(**change), stages.append)
    assert answer.outcome == outcome, answer.message
    assert words in answer.message
    assert stages == []
    assert len(bench.emulator.lines()) == before


def test_an_unreachable_place_is_said_before_anything_moves(bench):
    before, message = len(bench.emulator.lines()), goal()
    message.place, message.place_at.x = True, 2.0
    answer = bench.execute(message)
    assert answer.outcome == TrialOutcome.UNREACHABLE
    assert "where to place" in answer.message
    assert len(bench.emulator.lines()) == before


@pytest.mark.parametrize("frame", ["", BASE])
def test_a_grasp_in_another_frame_is_refused(bench, frame):
    message = goal()
    message.header.frame_id = frame
    assert bench.execute(message).outcome == TrialOutcome.REFUSED


@pytest.mark.parametrize("stage", ["approach", "descend", "lift"])
def test_a_cancel_stops_the_motion(bench, stage):
    handle = bench.begun(goal(), stage)
    wait_for(handle.cancel_goal_async(), "no answer", 60.0, never)
    answer = bench.result(handle)
    assert answer.status == GoalStatus.STATUS_CANCELED
    assert answer.result.outcome.outcome == TrialOutcome.CANCELLED
    assert "the tool is" in answer.result.outcome.message
    assert bench.emulator.is_still()


def test_deactivating_stops_and_activating_goes_on(bench):
    handle = bench.begun(goal(), "descend")
    bench.change_state(Transition.TRANSITION_DEACTIVATE)
    assert bench.emulator.is_still()
    assert bench.result(handle).result.outcome.outcome == TrialOutcome.CANCELLED
    assert "not active" in bench.execute(goal()).message
    bench.change_state(Transition.TRANSITION_ACTIVATE)
    assert bench.execute(goal()).outcome == TrialOutcome.SUCCESS


def test_cleaning_up_lets_go_and_frees_the_port_and_configuring_homes_again(bench):
    assert bench.execute(goal()).outcome == TrialOutcome.SUCCESS
    bench.change_state(Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP)
    assert bench.emulator.lines()[-1] == "M05"
    homings = len(bench.emulator.lines("G28"))
    with DeltaX(DeltaConfig(port=str(bench.emulator.link), boot_seconds=0.1, guardian=False)) as other:
        assert other.state is State.READY
    bench.change_state(Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
    assert len(bench.emulator.lines("G28")) == homings + 2
    assert bench.execute(goal()).outcome == TrialOutcome.SUCCESS


def test_a_port_that_somebody_else_has_is_said_and_can_be_tried_again(bench):
    bench.change_state(Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP)
    with DeltaX(DeltaConfig(port=str(bench.emulator.link), boot_seconds=0.1, guardian=False)):
        with pytest.raises(AssertionError):
            bench.change_state(Transition.TRANSITION_CONFIGURE)
        assert "in use by another program" in bench.log.read_text()
    bench.change_state(Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)


@pytest.mark.parametrize("stage", ["approach", "descend", "lift"])
def test_an_emergency_stop_in_motion(bench, stage):
    handle = bench.begun(goal(), stage)
    bench.emergency_stop()
    outcome = bench.result(handle).result.outcome
    assert outcome.outcome == TrialOutcome.ROBOT_FAULT
    wait_until(lambda: bench.emulator.lines()[-1] == "M05", "the tool was not opened", 10.0, never)
    assert bench.emulator.is_still()
    refused = bench.execute(goal())
    assert refused.outcome == TrialOutcome.REFUSED
    assert RESET_STOP.name in refused.message
    wait_until(lambda: "emergency stop" in bench.health.get("message", ""), "nobody is told", 10.0, never)
    assert bench.health["level"] == b"\x02"
    answer = bench.trigger(RESET_STOP.name)
    assert answer.success, answer.message
    assert bench.execute(goal()).outcome == TrialOutcome.SUCCESS


def test_an_emergency_stop_is_heard_while_every_thread_of_the_node_waits(bench):
    handle = bench.begun(goal(), "descend")
    waiting = [threading.Thread(target=bench.trigger, args=(RESET_STOP.name,)) for _ in range(12)]
    for thread in waiting:
        thread.start()
    time.sleep(0.1)
    bench.emergency_stop()
    assert bench.result(handle).result.outcome.outcome == TrialOutcome.ROBOT_FAULT
    for thread in waiting:
        thread.join(60)
    assert bench.trigger(RESET_STOP.name).success


def test_a_stop_holds_through_cleaning_up_until_it_is_reset(bench):
    assert bench.trigger(STOP.name).success
    bench.change_state(Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP)
    homings = len(bench.emulator.lines("G28"))
    with pytest.raises(AssertionError):
        bench.change_state(Transition.TRANSITION_CONFIGURE)
    assert len(bench.emulator.lines("G28")) == homings
    assert bench.trigger(RESET_STOP.name).success
    bench.change_state(Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE)
    assert bench.execute(goal()).outcome == TrialOutcome.SUCCESS


@pytest.mark.parametrize("stage", ["approach", "descend", "close", "lift"])
def test_a_robot_that_vanishes_in_mid_stage_is_a_fault_and_comes_back(bench, stage):
    handle = bench.begun(goal(), stage)
    bench.emulator.kill()
    outcome = bench.result(handle, 30.0).result.outcome
    assert outcome.outcome == TrialOutcome.ROBOT_FAULT
    assert "vanished" in outcome.message or "can't write" in outcome.message
    wait_until(lambda: "lost" in bench.health.get("message", ""), "nobody is told", 10.0, never)
    bench.emulator.start()
    outcome = bench.execute(goal())
    assert outcome.outcome == TrialOutcome.SUCCESS, outcome.message


def test_a_cancel_ends_the_wait_for_a_port_that_stays_away(bench):
    handle = bench.begun(goal(), "approach")
    bench.emulator.kill()
    bench.result(handle)
    handle = bench.send(goal())
    time.sleep(0.3)
    began = time.monotonic()
    wait_for(handle.cancel_goal_async(), "no answer", 60.0, never)
    assert bench.result(handle).result.outcome.outcome == TrialOutcome.CANCELLED
    assert time.monotonic() - began < 5.0
    bench.emulator.start()
    assert bench.execute(goal()).outcome == TrialOutcome.SUCCESS


def test_settings_are_parameters_of_the_node_and_numbers_stay_texts():
    from keygrasp_ros.delta_graph import SETTINGS, as_json, optional_nodes, overrides
    from keygrasp_ros.delta_setup import PARAMETERS

    kinds = {p.name: type(p.default) for p in PARAMETERS}
    for setting in SETTINGS:
        if not setting.topic:
            expected = {"text": str, "number": float, "switch": bool}[setting.kind]
            assert kinds[setting.name] is expected
    found = overrides("delta_robot", {"serial_number": "123E5", "emulate": "true", "speed": "1"})
    assert found == {"serial_number": "123E5", "emulate": True, "speed": 1.0}
    assert as_json(found)["serial_number"] == '"123E5"'
    assert optional_nodes({"emulate": "true"}) == ("scene_camera",)
    assert optional_nodes({"emulate": "false"}) == ()
    with pytest.raises(InputError, match="true or false"):
        overrides("delta_robot", {"emulate": "perhaps"})
    assert overrides("grasp_generator", {})["gripper.max_opening"] == ToolConfig().gripper.max_opening


def test_the_node_ends_in_order_with_a_signal_while_it_moves(bench):
    """Last in this file: it takes the node down, whose status and log the fixture checks."""
    bench.begun(goal(), "lift")
    bench.process.terminate()
    assert bench.process.wait(30) == 0
    assert bench.emulator.is_still()
    assert bench.emulator.lines()[-1] == "M05"
    assert os.path.exists(bench.emulator.link)  # noqa: PTH110
