"""A graph for a UR5 with the tests' own camera and the tests' own driver of the arm, and ways to break it."""

from __future__ import annotations

import contextlib
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

from keygrasp_interfaces.action import Pick
from keygrasp_interfaces.msg import TrialOutcome
from keygrasp_ros.client import PickClient
from keygrasp_ros.conversions import camera_info_message, depth_message
from keygrasp_ros.graph import default_params, nodes_for
from keygrasp_ros.robot_state import transform
from keygrasp_ros.stages import PlanningStage
from keygrasp_ros.topics import DEPTH, DEPTH_INFO, TF_STATIC
from keygrasp_ros.up import ros_arguments
from keygrasp_ros.waiting import wait_for, wait_until
from node_nursery import Forked, ForkedNodes
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from ros_calls import Calls, never
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from keygrasp.errors import RobotError
from keygrasp.geometry.cameras import overhead_pose
from keygrasp.protocol.constants import PROTOCOL
from keygrasp.protocol.scenes import SceneSpec, build_scene
from keygrasp.scene import Stage

FAKE_UR5 = Path(__file__).parents[1] / "support" / "fake_ur5.py"
CAMERA = "some_camera"
#: Images and joint states may be late on a busy machine, and motions stand still while a test interferes.
GIVEN = {
    "pick_server": ["-p", "image_timeout:=1.5"],
    "keypoint_extractor": ["-p", "frame_timeout:=1.0"],
    "trajectory_arm": [
        "-p", "speed:=1.0", "-p", "state_timeout:=3.0", "-p", "motion_margin:=30.0", "-p", "gripper_timeout:=30.0",
    ],
}  # fmt: skip
#: The node that is at work in each stage of planning; the arm's node in all others.
WORKERS = {
    PlanningStage.LOOK: "pick_server",
    PlanningStage.PERCEIVE: "keypoint_extractor",
    PlanningStage.GENERATE: "grasp_generator",
    PlanningStage.REFINE: "pose_refiner",
}
ARM = "trajectory_arm"
PATIENCE = 60.0


def run_fake_ur5(arguments=()):
    """What ``python tests/support/fake_ur5.py`` does."""
    sys.argv = [str(FAKE_UR5), *arguments]
    runpy.run_path(str(FAKE_UR5), run_name="__main__")


class Camera:
    """Publishes one scene at 10 Hz from a thread; ``fault`` says how it misbehaves.

    Args:
        node: Node that publishes.
        names: Topics of the image and its camera model.
        encode: Makes a message of metres and a header.
    """

    def __init__(self, node, names=(DEPTH.name, DEPTH_INFO.name), encode=depth_message):
        self._node, self._names, self._encode = node, names, encode
        self.fault, self.running = "", True
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
        self._publishers = [
            self._node.create_publisher(topic.type, name, qos)
            for topic, name in zip((DEPTH, DEPTH_INFO), self._names, strict=True)
        ]
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
        depth, info = self._encode(self._view.depth, header), camera_info_message(self._view.intrinsics, header)
        if fault == "sizes":
            info.width = 640
        images, infos = self._publishers
        images.publish(depth)
        if fault == "other stamps":
            info.header.stamp.sec -= 1
        if fault != "no info":
            infos.publish(info)


class Ur5Graph:
    """The graph, its client, and ways to break it."""

    def __init__(self, log, environment):
        specs = nodes_for("refined", "ur5")
        arguments = ros_arguments(specs, "refined", default_params("ur5"))
        for name, more in GIVEN.items():
            arguments[name] += more
        self.log = log
        self.nodes = ForkedNodes(specs, arguments, environment, log=log)
        self.client = PickClient("faults")
        self._call = Calls(self.client.node)
        self.camera = Camera(self.client.node)
        self.driver = Forked(run_fake_ur5, environment, log)
        self.nodes.start()
        self.client.wait_ready(120.0)
        self.wait_for_success()

    def process(self, name):
        return self.nodes.children[name]

    def revive(self):
        """Start those again that have ended, or should have, after a test that failed."""
        for child in self.nodes.children.values():
            if child.poll() is None and child.told_to_end:
                child.kill()
                child.wait()
        ended = self.nodes.ended()
        for name in ended:
            self.nodes.start_one(name)
        if "pick_server" in ended:  # it waits for the others by itself
            self.client.wait_ready(PATIENCE)

    def pick(self):
        """The result of a pick, and its stages in order."""
        stages = []
        result = self.client.pick(on_feedback=lambda feedback: stages.append(feedback.stage)).result
        return result, list(dict.fromkeys(stages))

    def succeeds(self):
        return self.pick()[0].outcome.outcome == TrialOutcome.SUCCESS

    def wait_for_success(self):
        wait_until(self.succeeds, "no success any more", PATIENCE, never)

    def of_driver(self, name):
        """One of the driver's parameters that say what it does."""
        values = self._call(GetParameters, "fake_ur5/get_parameters", GetParameters.Request(names=[name])).values
        return values[0].bool_value

    def freeze_in(self, stage):
        """Let the arm stand still in a stage until another one is named."""
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=stage)
        request = SetParameters.Request(parameters=[Parameter(name="freeze_in", value=value)])
        assert self._call(SetParameters, "fake_ur5/set_parameters", request).results[0].successful

    @contextlib.contextmanager
    def at(self, stage):
        """A pick that has come to a stage, and stays there until this block ends.

        The node of a planning stage is held up while the pick still looks: not before, because after two seconds it
        would count as lost.
        """
        held = self.process(WORKERS[stage]) if stage in WORKERS and stage != PlanningStage.LOOK else None
        heard = []

        def hear(feedback):
            if held is not None and not heard:
                held.send_signal(signal.SIGSTOP)
            heard.append(feedback)

        if stage == PlanningStage.LOOK:
            self.camera.fault = "stopped"
        elif held is None:
            self.freeze_in(stage)
        handle = None
        try:
            handle = self.client.send(_goal(stage), hear)
            yield _Standing(handle, heard, stage)
        except BaseException:
            if handle is not None:  # or the next test would find the pick server busy
                handle.cancel_goal_async()
                with contextlib.suppress(RobotError):
                    wait_for(handle.get_result_async(), "no end", 5.0, never)
            raise
        finally:
            self.camera.fault = ""
            if held is not None:
                held.send_signal(signal.SIGCONT)
            elif stage != PlanningStage.LOOK:
                self.freeze_in("")

    def close(self):
        self.nodes.stop()
        self.camera.close()
        self.client.close()
        self.driver.kill()
        self.driver.wait()


class _Standing:
    """A pick that stands in a stage."""

    def __init__(self, handle, heard, stage):
        self._handle, self.heard = handle, heard
        self._result = handle.get_result_async()

        def has_come():
            return any(feedback.stage == stage for feedback in heard)

        def ended_before():
            assert has_come() or not self._result.done(), self._result.result().result.outcome.message
            return False

        wait_until(has_come, f"stage {stage} never came", PATIENCE, ended_before)

    def cancel(self):
        wait_for(self._handle.cancel_goal_async(), "no answer to the cancel", PATIENCE, never)

    def answer(self):
        """Status and result."""
        return wait_for(self._result, "no result", PATIENCE, never)


def _goal(stage):
    goal = Pick.Goal(place=stage == Stage.PLACE)
    goal.place_pose.header.frame_id = "workspace"
    goal.place_pose.pose.position.x = 0.08
    goal.place_pose.pose.orientation.w = 1.0
    return goal
