"""The world model's node: tasks, predictions, imagined trajectories over real DDS, and what it says without weights."""

import math

import numpy as np
import pytest
import torch
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from keygrasp_interfaces.action import Pick
from keygrasp_interfaces.msg import Grasp
from keygrasp_interfaces.srv import PredictOutcome, SetTask
from keygrasp_ros.client import PickClient
from keygrasp_ros.graph import OPTIONAL, PLANNERS, nodes_for
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.scene_conversions import scene_message
from keygrasp_ros.symbol_conversions import symbols_message
from keygrasp_ros.topics import DIAGNOSTICS, IMAGINED, IMAGINED_MARKERS, PICK_TASK, PREDICT, SET_TASK, SYMBOLS
from keygrasp_ros.waiting import wait_until
from keygrasp_ros.world_model_messages import trajectory_markers, trajectory_message
from keygrasp_ros.world_model_states import Situations, subject_of
from node_nursery import run_node
from ros_calls import Calls, never
from std_msgs.msg import Header, String
from visualization_msgs.msg import Marker

from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.perception import perceive
from keygrasp.refine.network import NetworkConfig
from keygrasp.refine.outcomes import CAUSES, OutcomeConfig, OutcomeNetwork, save_outcomes
from keygrasp.scene import OverheadView
from keygrasp.scene import SymbolicState as State
from keygrasp.worldmodel.ensemble import Ensemble, EnsembleConfig
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.planner import Plan
from keygrasp.worldmodel.task_files import shipped_task, shipped_tasks

pytestmark = pytest.mark.ros
HEADER = Header(stamp=Time(sec=3), frame_id="workspace")
BLUE = State(
    object_x=0.05, object_y=0.02, object_z=0.02, object_yaw=1.5, object_length=0.1, object_width=0.04,
    object_height=0.04, object_shape="flat", object_colour="blue", gripper_x=-0.1, gripper_y=0.0, gripper_z=0.1,
    gripper_yaw=0.0, gripper_width=0.08,
)  # fmt: skip
TASK = """
name: near_red
text: Bring the gripper to the red block.
reward:
  - {term: closeness, object: red}
"""
FAST = ("-p", "planner.samples:=16", "-p", "planner.elites:=4", "-p", "planner.kept:=2", "-p", "planner.iterations:=1")


def perceived_box():
    depth = np.full((128, 128), 0.7, np.float32)
    depth[50:80, 55:70] = 0.65
    return perceive(OverheadView(depth, Intrinsics(128, 128, 256.0, 256.0, 63.5, 63.5), overhead_pose(0.7)))


def test_the_node_is_in_a_graph_only_where_it_is_asked_for():
    assert "world_model" in OPTIONAL
    for planner in PLANNERS:
        assert "world_model" not in {spec.name for spec in nodes_for(planner)}
        assert "world_model" in {spec.name for spec in nodes_for(planner, extra=("world_model",))}


def test_states_go_to_the_object_of_their_colour_and_others_to_what_the_task_is_about():
    task, layout = shipped_task("reach_blue"), Layout()
    assert subject_of(task) == "blue"
    situations = Situations(layout)
    assert situations.now(task) is None
    situations.see(symbols_message(BLUE, HEADER, 1))
    states = layout.states(situations.now(task).row)
    assert states["blue"].object_x == pytest.approx(0.05)
    assert states["red"].object_x > 0.3  # nobody told of it: out of reach
    situations.see(symbols_message(BLUE.replace(object_colour="red", object_x=-0.1, gripper_x=0.07), HEADER, 1))
    states = layout.states(situations.now(task).row)
    assert states["red"].object_x == pytest.approx(-0.1)
    assert states["blue"].object_x == pytest.approx(0.05)
    assert all(s.gripper_x == pytest.approx(0.07) for s in states.values())  # the newest state's gripper
    situations.see(symbols_message(BLUE.replace(object_colour="unknown", object_x=0.12), HEADER, 1))
    assert layout.states(situations.now(task).row)["other"].object_x == pytest.approx(0.12)
    situations.see(symbols_message(BLUE.replace(gripper_x=0.02), HEADER, 1))
    assert layout.states(situations.now(task).row)["red"].gripper_x == pytest.approx(0.02)
    situations.see(symbols_message(BLUE.replace(object_colour="orange", object_x=0.01), HEADER, 2))
    states = layout.states(situations.now(task).row)  # another episode: what was known is void
    assert states["blue"].object_x == pytest.approx(0.01)
    assert states["red"].object_x > 0.3


def test_markers_show_the_way_and_what_is_not_known():
    layout, task = Layout(), shipped_task("reach_blue")
    symbols = torch.zeros(4, layout.size)
    symbols[:, layout.columns["gripper_x"]] = torch.tensor([0.0, 0.01, 0.02, 0.03])
    deviation = torch.zeros_like(symbols)
    deviation[3, layout.columns["blue.object_y"]] = 0.05
    plan = Plan(torch.zeros(3, 5), symbols, deviation, 1.5, 0.0)
    told = trajectory_message(plan, torch.tensor([0.5, 0.5, 0.5]), layout, HEADER, task.name, 12.0)
    assert (told.states, len(told.names), len(told.rewards)) == (4, layout.size, 3)
    assert np.allclose(np.asarray(told.values).reshape(4, -1), symbols.numpy())
    markers = {marker.ns: marker for marker in trajectory_markers(told, "blue").markers}
    assert [p.x for p in markers["imagined_gripper"].points] == pytest.approx([0.0, 0.01, 0.02, 0.03])
    assert max(p.y for p in markers["imagined_blue_uncertainty"].points) == pytest.approx(0.05)
    assert "reach_blue: return 1.50 in 3 steps" in markers["imagined_task"].text
    assert all(m.header.frame_id == "workspace" for m in markers.values())
    assert trajectory_markers(told, "blue").markers[0].action == Marker.DELETEALL


@pytest.fixture
def weights(tmp_path):
    """Models as they are before training: what counts here is the way of their answers."""
    torch.manual_seed(0)
    Ensemble(EnsembleConfig(members=2, hidden=16)).save(tmp_path / "ensemble.safetensors")
    sizes = OutcomeConfig(members=2, head=8, network=NetworkConfig(keypoint_hidden=8, channels=(4, 8), hidden=16))
    save_outcomes(tmp_path / "outcomes.safetensors", OutcomeNetwork(sizes))
    return (
        "-p",
        f"weights:={tmp_path}/ensemble.safetensors",
        "-p",
        f"outcome_weights:={tmp_path}/outcomes.safetensors",
    )


@pytest.mark.slow
def test_tasks_predictions_and_trajectories(fork, monkeypatch, weights):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    fork(run_node("world_model", *weights, *FAST, "-p", "rate:=10.0"))
    with PickClient() as client:
        call = Calls(client.node)
        grasps = [Grasp(x=0.0, y=0.0, z=0.02, yaw=0.1, width=0.08), Grasp(x=0.1, y=0.0, z=0.02, width=0.05)]
        request = PredictOutcome.Request(scene=scene_message(perceived_box(), HEADER), header=HEADER, grasps=grasps)
        answer = call(PREDICT.type, PREDICT.name, request)
        assert answer.ok, answer.message
        assert [p.grasp.x for p in answer.predictions] == [0.0, 0.1]
        for prediction in answer.predictions:
            assert prediction.outcomes == [str(cause) for cause in CAUSES]
            assert sum(prediction.probabilities) == pytest.approx(1.0)
            assert prediction.success_probability == prediction.probabilities[0]
            assert prediction.force >= 0
            assert prediction.displacement_deviation >= 0
        for change, words in (
            ({"header": Header()}, "frame"),
            ({"object_index": 7}, "object 7"),
            ({"grasps": [Grasp(x=math.nan)]}, "x is nan"),
            ({"grasps": [Grasp()] * 1025}, "at most 1024"),
        ):
            fields = {name: getattr(request, name) for name in ("scene", "header", "grasps")}
            bad = call(PREDICT.type, PREDICT.name, PredictOutcome.Request(**fields | change))
            assert not bad.ok
            assert words in bad.message
        _check_tasks(client, call)


def _check_tasks(client, call):
    imagined, markers = [], []
    node = client.node
    node.create_subscription(IMAGINED.type, IMAGINED.name, imagined.append, IMAGINED.qos)
    node.create_subscription(IMAGINED_MARKERS.type, IMAGINED_MARKERS.name, markers.append, IMAGINED_MARKERS.qos)
    states = node.create_publisher(SYMBOLS.type, SYMBOLS.name, SYMBOLS.qos)
    tasks = node.create_publisher(PICK_TASK.type, PICK_TASK.name, PICK_TASK.qos)
    wait_until(lambda: states.get_subscription_count() and tasks.get_subscription_count(), "no node", 60.0, never)
    seconds = iter(range(10, 10_000))

    def trajectory(task):
        def came():
            states.publish(symbols_message(BLUE, Header(stamp=Time(sec=next(seconds)), frame_id="workspace"), 4))
            return bool(imagined) and imagined[-1].task == task

        wait_until(came, f"nothing imagined for {task}", 30.0, never)
        return imagined[-1]

    told = trajectory("reach_blue")
    assert (told.header.frame_id, told.episode) == ("workspace", 4)
    assert len(told.values) == len(told.deviations) == told.states * len(told.names)
    assert told.values[told.names.index("blue.object_x")] == pytest.approx(0.05, abs=1e-6)
    wait_until(lambda: bool(markers), "no markers", 10.0, never)
    answer = call(SET_TASK.type, SET_TASK.name, SetTask.Request(text=TASK))
    assert (answer.ok, answer.task, answer.description) == (True, "near_red", "Bring the gripper to the red block.")
    assert len(trajectory("near_red").rewards) == told.states - 1
    bad = call(SET_TASK.type, SET_TASK.name, SetTask.Request(name="reach_blu"))
    assert not bad.ok
    assert "Did you mean 'reach_blue'?" in bad.message
    assert bad.task == "near_red"  # the task before stays
    for text in ("name: x\nreward: [{term: __import__}]", "[", "name: x\nreward: []"):
        assert not call(SET_TASK.type, SET_TASK.name, SetTask.Request(text=text)).ok
    tasks.publish(String(data="some name that is no task"))
    tasks.publish(String(data="lift_blue"))
    trajectory("lift_blue")  # what a pick's goal names is taken over


def run_without_weights():
    """The node on a partial checkout: no weights are there."""
    from keygrasp_ros.nodes import world_model

    from keygrasp.tensorfiles import shipped_model

    for name in ("default_model", "default_outcomes"):
        setattr(world_model, name, lambda: shipped_model("no.safetensors", "Make them with 'keygrasp this'"))
    return run_node("world_model")()


@pytest.mark.slow
def test_without_weights_the_node_starts_and_says_what_makes_them(fork, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    child = fork(run_without_weights)
    with PickClient() as client:
        told = []
        client.node.create_subscription(DIAGNOSTICS.type, DIAGNOSTICS.name, told.append, DIAGNOSTICS.qos)
        answer = Calls(client.node)(PREDICT.type, PREDICT.name, PredictOutcome.Request())
        wait_until(lambda: bool(told), "no diagnostics", 20.0, never)
        task = Calls(client.node)(SET_TASK.type, SET_TASK.name, SetTask.Request(name=shipped_tasks()[0]))
    assert not answer.ok
    assert "keygrasp this" in answer.message
    status = told[-1].status[0]
    assert status.level == DiagnosticStatus.WARN
    assert "keygrasp this" in status.message
    assert task.ok  # a task can be set; it is imagined as soon as there are weights
    child.terminate()
    output, _ = child.communicate(60)
    assert child.returncode == 0
    assert "Traceback" not in output


@pytest.mark.slow
def test_weights_that_were_named_but_are_not_there_end_the_start(fork, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    child = fork(run_node("world_model", "-p", "weights:=/nowhere.safetensors"))
    output, _ = child.communicate(timeout=60)
    assert child.returncode > 0
    assert "/nowhere.safetensors" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_pick_hands_the_name_of_its_task_on(fork, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    fork(run_node("pick_server", "-p", "image_timeout:=0.2"))
    got = []
    with PickClient() as client:
        client.node.create_subscription(PICK_TASK.type, PICK_TASK.name, got.append, PICK_TASK.qos)
        wait_until(lambda: client.node.count_publishers(PICK_TASK.name) > 0, "no pick server", 60.0, never)
        for task in ("lift_blue", "", "any other name"):  # without a task none is told
            result = client.result(client.send(Pick.Goal(task=task)), 60.0)
            assert not result.outcome.success  # there is no camera
        wait_until(lambda: len(got) == 2, "the tasks were not handed on", 10.0, never)
    assert [message.data for message in got] == ["lift_blue", "any other name"]
    with PickClient("hasty_client") as client:  # it sends at once; a server loses answers to whom it does not know yet
        assert not client.pick().result.outcome.success
