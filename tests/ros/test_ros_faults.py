"""Faults of cameras and nodes during picks: a graph with the tests' own camera and the tests' own UR5 driver."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from action_msgs.msg import GoalStatus
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.client import PickClient
from keygrasp_ros.conversions import camera_info_message, depth_message
from keygrasp_ros.graph import default_params, nodes_for
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.processes import NodeProcesses
from keygrasp_ros.robot_state import transform
from keygrasp_ros.topics import DEPTH, DEPTH_INFO, TF_STATIC
from keygrasp_ros.up import ros_arguments
from keygrasp_ros.waiting import wait_for, wait_until
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from ros_calls import never
from ros_processes import alive
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.cameras import overhead_pose
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.scenes import SceneSpec, build_scene

pytestmark = [pytest.mark.ros, pytest.mark.slow]
FAKE = [sys.executable, str(Path(__file__).parents[1] / "support" / "fake_ur5.py")]
CAMERA = "some_camera"
#: Images and joint states may be late on a busy machine; motions are slower than the tests' driver goes through them:
#: there must be time to interfere.
GIVEN = {
    "pick_server": ["-p", "image_timeout:=3.0"],
    "trajectory_arm": ["-p", "speed:=0.2", "-p", "state_timeout:=3.0"],
}
#: Nodes whose answer a stage of planning waits for.
HOLDERS = {"perceive": "keypoint_extractor", "generate": "grasp_generator", "refine": "pose_refiner"}
PLANNING = ("look", *HOLDERS)
#: Seconds in which a lost node is noticed, on a busy machine; DDS alone takes 20.
NOTICED = 8.0
PATIENCE = 60.0


class Camera:
    """Publishes one scene at 10 Hz from a thread; ``fault`` says how it misbehaves."""

    def __init__(self, node):
        self._node, self.fault, self.running = node, "", True
        self._pose = overhead_pose(PROTOCOL.camera_height)
        with build_scene(SceneSpec("013", "E", 1)) as scene:
            self._view = scene.view
        self._publishers = []
        self.advertise(ReliabilityPolicy.BEST_EFFORT)
        self._static = node.create_publisher(TF_STATIC.type, TF_STATIC.name, TF_STATIC.qos)
        now = node.get_clock().now().to_msg()
        self._static.publish(TFMessage(transforms=[transform(CAMERA, "workspace", self._pose, now)]))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def advertise(self, reliability):
        old, qos = self._publishers, QoSProfile(depth=5, reliability=reliability)
        self._publishers = [self._node.create_publisher(t.type, t.name, qos) for t in (DEPTH, DEPTH_INFO)]
        for publisher in old:
            self._node.destroy_publisher(publisher)

    def close(self):
        self.running = False
        self._thread.join()

    def _run(self):
        while self.running:
            if self.fault != "stopped":
                self._publish()
            time.sleep(0.1)

    def _publish(self):
        fault = self.fault
        nanoseconds = self._node.get_clock().now().nanoseconds - (10**10 if fault == "stale" else 0)
        frame = {"nowhere": "nowhere", "no frame": ""}.get(fault, CAMERA)
        header = Header(stamp=Time(nanoseconds=nanoseconds).to_msg(), frame_id=frame)
        depth, info = depth_message(self._view.depth, header), camera_info_message(self._view.intrinsics, header)
        if fault == "sizes":
            info.width = 640
        images, infos = self._publishers
        images.publish(depth)
        if fault == "other stamps":
            info.header.stamp.sec -= 1
        if fault != "no info":
            infos.publish(info)


class Graph:
    """The graph for a UR5, its client, and ways to break it."""

    def __init__(self, log):
        specs = nodes_for("refined", "ur5")
        arguments = ros_arguments(specs, "refined", default_params("ur5"))
        for name, more in GIVEN.items():
            arguments[name] += more
        self.log = log
        self.nodes = NodeProcesses(specs, arguments, log=log)
        self.client = PickClient("faults")
        self.camera = Camera(self.client.node)
        with log.open("ab") as output:
            self.driver = subprocess.Popen(FAKE, stdout=output, stderr=output)
        self.nodes.start()
        self.client.wait_ready(120.0)
        wait_until(self.succeeds, "the driver never came", PATIENCE, never)

    def process(self, name):
        return self.nodes.children[name]

    def revive(self):
        for name in self.nodes.ended():
            self.nodes.start_one(name)
        self.client.wait_ready(120.0)

    def pick(self):
        """The result of a pick, and its stages in order."""
        stages = []
        result = self.client.pick(on_feedback=lambda feedback: stages.append(feedback.stage)).result
        return result, list(dict.fromkeys(stages))

    def succeeds(self):
        return self.pick()[0].outcome.outcome == TrialOutcome.SUCCESS

    def assert_success(self):
        result, _ = self.pick()
        assert result.outcome.outcome == TrialOutcome.SUCCESS, result.outcome.message
        return result

    @contextlib.contextmanager
    def at(self, stage):
        """Send a goal and wait for a stage, which lasts until this block ends where it would be over at once.

        Its node is held up while the pick still looks: not before, because after two seconds it would count as lost.
        """
        heard, held = [], self.process(HOLDERS[stage]) if stage in HOLDERS else None

        def hear(feedback):
            if held is not None and not heard:
                held.send_signal(signal.SIGSTOP)
            heard.append(feedback)

        def has_come():
            return any(feedback.stage == stage for feedback in heard)

        if stage == "look":
            self.camera.fault = "stopped"
        try:
            handle = self.client.send(on_feedback=hear)
            result = handle.get_result_async()

            def ended_before():
                assert has_come() or not result.done(), result.result().result.outcome.message
                return False

            wait_until(has_come, f"stage {stage} never came", PATIENCE, ended_before)
            yield handle, result, heard
        finally:
            self.camera.fault = ""
            if held is not None:
                held.send_signal(signal.SIGCONT)

    def close(self):
        self.nodes.stop()
        self.camera.close()
        self.client.close()
        self.driver.kill()
        self.driver.wait()


@pytest.fixture(scope="module")
def graph_of_all(own_corner, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(free_domain()))
        graph = Graph(tmp_path_factory.mktemp("faults") / "log")
    yield graph
    graph.close()
    assert "Traceback" not in graph.log.read_text()


@pytest.fixture
def graph(graph_of_all):
    yield graph_of_all
    graph_of_all.camera.fault = ""


@pytest.mark.parametrize("reliability", [ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE])
def test_any_camera_and_an_arm_of_others_pick_together(graph, reliability):
    graph.camera.advertise(reliability)
    result, stages = graph.pick()
    assert result.outcome.outcome == TrialOutcome.SUCCESS, result.outcome.message
    assert stages == [*PLANNING, "approach", "descend", "close", "lift", "shake", "hold"]


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


def test_a_camera_that_is_well_again_is_used(graph):
    graph.assert_success()


@pytest.mark.parametrize("stage", [*PLANNING, "descend", "shake"])
def test_a_cancel_ends_the_pick_at_once(graph, stage):
    with graph.at(stage) as (handle, result, _):
        asked = time.monotonic()
        wait_for(handle.cancel_goal_async(), "no answer to the cancel", PATIENCE, never)
        answer = wait_for(result, "no result", PATIENCE, never)
    assert time.monotonic() - asked < 5.0
    outcome = answer.result.outcome
    assert outcome.outcome == TrialOutcome.CANCELLED, outcome.message
    assert answer.status == GoalStatus.STATUS_CANCELED
    words = "the robot did not move" if stage in PLANNING else "the gripper"
    assert words in outcome.message


@pytest.mark.parametrize(
    ("name", "stage", "words"),
    [
        ("keypoint_extractor", "perceive", "'extract_keypoints' vanished"),
        ("grasp_generator", "generate", "'generate_grasps' vanished"),
        ("trajectory_arm", "descend", "the robot's node vanished"),
        ("trajectory_arm", "shake", "the robot's node vanished"),
    ],
)
def test_a_node_that_is_killed_in_its_stage_ends_the_pick_within_seconds(graph, name, stage, words):
    with graph.at(stage) as (_, result, _):
        graph.process(name).kill()
        killed = time.monotonic()
        outcome = wait_for(result, "no result", PATIENCE, never).result.outcome
        assert time.monotonic() - killed < NOTICED
    assert outcome.outcome == TrialOutcome.ROBOT_FAULT
    assert words in outcome.message
    graph.process(name).wait()
    graph.revive()
    graph.assert_success()


def test_a_refiner_that_is_killed_in_its_stage_leaves_the_geometric_grasp_with_a_warning(graph):
    with graph.at("refine") as (_, result, heard):
        graph.process("pose_refiner").kill()
        answer = wait_for(result, "no result", PATIENCE, never).result
    assert answer.outcome.outcome == TrialOutcome.SUCCESS, answer.outcome.message
    assert answer.plan.planner == "geometric"
    assert any("not refined, taking the geometric grasp" in feedback.message for feedback in heard)
    graph.process("pose_refiner").wait()
    graph.revive()
    assert graph.assert_success().plan.planner == "refined"


@pytest.mark.parametrize(
    ("name", "stage", "number"),
    [
        ("pick_server", "look", signal.SIGINT),
        ("keypoint_extractor", "perceive", signal.SIGTERM),
        ("grasp_generator", "generate", signal.SIGINT),
        ("pick_server", "refine", signal.SIGTERM),
        ("trajectory_arm", "approach", signal.SIGTERM),
        ("pick_server", "descend", signal.SIGINT),
        ("pick_server", "close", signal.SIGTERM),
        ("trajectory_arm", "lift", signal.SIGINT),
    ],
)
def test_a_signal_in_each_stage_ends_the_node_in_order_and_stops_the_arm(graph, name, stage, number):
    with graph.at(stage) as (_, result, _):
        process = graph.process(name)
        process.send_signal(number)
        if name in HOLDERS.values():
            process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE) == 0
        if name == "trajectory_arm":
            outcome = wait_for(result, "no result", PATIENCE, never).result.outcome
            assert outcome.outcome in (TrialOutcome.CANCELLED, TrialOutcome.ROBOT_FAULT)
    graph.revive()
    if name in HOLDERS.values():  # its pick went on with its last answer, or ended without one
        wait_for(result, "no result", PATIENCE, never)
    # The arm has stopped: it takes the next goal at once, and isn't busy.
    graph.assert_success()


@pytest.mark.parametrize("stage", ["refine", "lift"])
def test_a_pick_server_that_is_killed_leaves_an_arm_that_ends_its_grasp_and_takes_the_next(graph, stage):
    with graph.at(stage):
        graph.process("pick_server").kill()
        graph.process("pick_server").wait()
    assert all(alive(child.pid) for name, child in graph.nodes.children.items() if name != "pick_server")
    graph.revive()
    wait_until(graph.succeeds, "no pick any more", PATIENCE, never)
