"""Faults of cameras and nodes during picks: a graph with the tests' own camera and the tests' own UR5 driver."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
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
from ros_processes import alive
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from keygrasp.geometry.cameras import overhead_pose
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.scenes import SceneSpec, build_scene

pytestmark = [pytest.mark.ros, pytest.mark.slow]
FAKE = [sys.executable, str(Path(__file__).parents[1] / "support" / "fake_ur5.py")]
CAMERA = "some_camera"
#: Slower than the tests' driver goes through a motion, so that there is time to interfere.
GIVEN = ["-p", "image_timeout:=1.5", "-p", "speed:=0.2"]


def never():
    return False


class Camera:
    """Publishes one scene at 10 Hz from a thread; ``fault`` says how it misbehaves."""

    def __init__(self, node):
        self._node, self.fault, self.running = node, "", True
        self._pose = overhead_pose(PROTOCOL.camera_height)
        with build_scene(SceneSpec("013", "E", 1)) as scene:
            self._view = scene.view
        self.reliability = ReliabilityPolicy.BEST_EFFORT
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
        nanoseconds = self._node.get_clock().now().nanoseconds - (10**10 if self.fault == "stale" else 0)
        header = Header(stamp=Time(nanoseconds=nanoseconds).to_msg(), frame_id=CAMERA)
        if self.fault in ("", "nowhere"):
            header.frame_id = CAMERA if not self.fault else "nowhere"
        if self.fault == "no frame":
            header.frame_id = ""
        depth, info = depth_message(self._view.depth, header), camera_info_message(self._view.intrinsics, header)
        if self.fault == "sizes":
            info.width = 640
        images, infos = self._publishers
        images.publish(depth)
        if self.fault == "other stamps":
            info.header.stamp.sec -= 1
        if self.fault != "no info":
            infos.publish(info)


class Graph:
    """The graph for a UR5, its client, and ways to break it."""

    def __init__(self, log):
        self._log, self._specs = log, nodes_for("geometric", "ur5")
        self._arguments = ros_arguments(self._specs, "geometric", default_params("ur5"))
        self.client = PickClient("faults")
        self.camera = Camera(self.client.node)
        with log.open("wb") as output:
            self.driver = subprocess.Popen(FAKE, stdout=output, stderr=output)
        self.nodes = {}
        for spec in self._specs:
            self.start(spec.name)
        self.client.wait_ready(90.0)
        wait_until(self.succeeds, "the driver never came", 30.0, never)

    def start(self, name):
        own = {"pick_server": GIVEN[:2], "trajectory_arm": GIVEN[2:]}.get(name, [])
        spec = [spec for spec in self._specs if spec.name == name]
        arguments = {name: [*self._arguments[name], *own]}
        nodes = NodeProcesses(spec, arguments, log=self._log.with_name(f"{name}-{time.monotonic_ns()}"))
        nodes.start()
        self.nodes[name] = nodes

    def process(self, name):
        return self.nodes[name].children[name]

    def revive(self):
        for name, nodes in list(self.nodes.items()):
            if nodes.ended():
                self.start(name)
        self.client.wait_ready(60.0)

    def succeeds(self):
        return self.client.pick().result.outcome.outcome == TrialOutcome.SUCCESS

    def pick_until(self, stage):
        """Send a goal and wait for a stage."""
        seen = []
        handle = self.client.send(on_feedback=lambda feedback: seen.append(feedback.stage))
        result = handle.get_result_async()

        def ended_before():
            assert stage in seen or not result.done(), result.result().result.outcome.message
            return False

        wait_until(lambda: stage in seen, f"stage {stage} never came", 30.0, ended_before)
        return handle

    def logs(self):
        return "".join(path.read_text() for path in self._log.parent.iterdir())

    def close(self):
        for nodes in self.nodes.values():
            nodes.stop()
        self.camera.close()
        self.client.close()
        self.driver.kill()
        self.driver.wait()


@pytest.fixture(scope="module")
def graph_of_all(own_corner, tmp_path_factory):
    os.environ["ROS_DOMAIN_ID"] = str(free_domain())
    graph = Graph(tmp_path_factory.mktemp("faults") / "driver")
    yield graph
    graph.close()
    assert "Traceback" not in graph.logs()


@pytest.fixture
def graph(graph_of_all):
    graph_of_all.camera.fault = ""
    yield graph_of_all
    graph_of_all.camera.fault = ""


@pytest.mark.parametrize("reliability", [ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE])
def test_any_camera_and_an_arm_of_others_pick_together(graph, reliability):
    graph.camera.advertise(reliability)
    stages = []
    result = graph.client.pick(on_feedback=lambda feedback: stages.append(feedback.stage)).result
    assert result.outcome.outcome == TrialOutcome.SUCCESS, result.outcome.message
    assert list(dict.fromkeys(stages))[-4:] == ["close", "lift", "shake", "hold"]


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
    stages = []
    result = graph.client.pick(on_feedback=lambda feedback: stages.append(feedback.stage)).result
    assert result.outcome.outcome in (TrialOutcome.ROBOT_FAULT, TrialOutcome.REFUSED)
    assert words in result.outcome.message
    assert "approach" not in stages
    graph.camera.fault = ""
    assert graph.succeeds()


@pytest.mark.parametrize(
    ("name", "stage"),
    [("keypoint_extractor", "perceive"), ("grasp_generator", "generate"), ("trajectory_arm", "descend")],
)
def test_a_node_that_is_killed_in_its_stage_ends_the_pick_within_three_seconds(graph, name, stage):
    process = graph.process(name)
    if stage != "descend":
        process.send_signal(signal.SIGSTOP)  # holds the stage until the node is killed
    handle = graph.pick_until(stage)
    process.kill()
    killed = time.monotonic()
    result = graph.client.result(handle, 30.0)
    assert time.monotonic() - killed < 3.0
    assert result.outcome.outcome == TrialOutcome.ROBOT_FAULT
    assert "vanished" in result.outcome.message
    process.wait()
    graph.revive()
    assert graph.succeeds()


@pytest.mark.parametrize(
    ("name", "stage", "number"),
    [
        ("trajectory_arm", "approach", signal.SIGTERM),
        ("trajectory_arm", "lift", signal.SIGINT),
        ("pick_server", "descend", signal.SIGINT),
        ("pick_server", "close", signal.SIGTERM),
    ],
)
def test_a_signal_in_the_middle_of_a_pick_stops_the_arm_and_ends_the_node_in_order(graph, name, stage, number):
    handle = graph.pick_until(stage)
    result = handle.get_result_async()
    process = graph.process(name)
    process.send_signal(number)
    assert process.wait(15) == 0
    if name == "trajectory_arm":
        answer = wait_for(result, "no result", 10.0, never).result
        assert answer.outcome.outcome in (TrialOutcome.CANCELLED, TrialOutcome.ROBOT_FAULT)
    graph.revive()
    # The arm has stopped: it takes the next goal at once, and isn't busy.
    assert graph.succeeds()


def test_a_pick_server_that_is_killed_leaves_an_arm_that_ends_its_grasp_and_takes_the_next(graph):
    graph.pick_until("lift")
    process = graph.process("pick_server")
    process.kill()
    process.wait()
    assert all(alive(graph.process(name).pid) for name in graph.nodes if name != "pick_server")
    graph.revive()
    wait_until(graph.succeeds, "no pick any more", 30.0, never)
