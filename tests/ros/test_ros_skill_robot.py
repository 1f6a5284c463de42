"""The skill robot's node: poses in, motions, events and markers out, and each way in which robot or camera can fail."""

import math
import os
import threading
from pathlib import Path

import pytest
import yaml
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from keygrasp_ros.client import PickClient
from keygrasp_ros.graph import OPTIONAL
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.skill_messages import event_message, planar_pose, pose_stamped
from keygrasp_ros.topics import DIAGNOSTICS, SKILL_EVENTS, SKILL_MARKERS, SKILL_MOTION, SKILL_POSE, SKILL_STORE
from keygrasp_ros.waiting import wait_until
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from node_nursery import Forked, run_node
from ros_calls import Calls, never
from rviz_contract import subscriptions
from std_msgs.msg import Header
from std_srvs.srv import Trigger
from visualization_msgs.msg import Marker

from keygrasp.errors import InputError, MissingExtraError, RobotError
from keygrasp.skills.building import build_image
from keygrasp.skills.core import SKILLS, Agent, Pose
from keygrasp.skills.emulator import prepare
from keygrasp.skills.millirobot import Millirobot
from keygrasp.skills.terminals import SimulatedTerminal

pytest.importorskip("serial")
pytestmark = pytest.mark.ros
FRAME, NODE = "skill_plane", "skill_robot"
RVIZ = Path(__file__).parents[2] / "ros2_ws/src/keygrasp_bringup/rviz/skills.rviz"
HEADER = Header(stamp=Time(sec=3), frame_id=FRAME)


def test_a_pose_survives_the_way_through_messages_and_bad_ones_are_named():
    back = planar_pose(pose_stamped(Pose(12.0, -340.0, 2.5), HEADER), FRAME)
    assert (back.x, back.y, back.heading) == pytest.approx((12.0, -340.0, 2.5))

    def damaged(change):
        message = pose_stamped(Pose(0.0, 0.0, 0.0), HEADER)
        change(message)
        return message

    for change, word in (
        (lambda m: setattr(m.pose.position, "x", math.nan), "finite"),
        (lambda m: setattr(m.pose.position, "y", 120.0), "metres"),
        (lambda m: setattr(m.pose.orientation, "x", 1.0), "tilted"),
        (lambda m: setattr(m, "header", Header(frame_id="map")), "map"),
        (lambda m: setattr(m, "header", Header()), "empty"),
    ):
        with pytest.raises(InputError, match=word):
            planar_pose(damaged(change), FRAME)


def test_a_decision_becomes_an_event_only_where_something_happens():
    agent, robot, told = Agent(1), Millirobot(1), []
    for _ in range(12):
        decision = agent.step(robot.look())
        told.append(event_message(decision, HEADER))
        robot.move(decision.left, decision.right, decision.milliseconds)
    assert told[0] is None  # a test of the motors
    events = [event for event in told if event is not None]
    first = events[0]
    assert first.started in SKILLS
    assert first.motivation == pytest.approx(first.novelty * first.progress * first.difficulty, rel=0.01)
    assert any(event.ended for event in events)


def test_it_is_optional_and_its_rviz_file_shows_its_markers():
    assert NODE in OPTIONAL
    view = yaml.safe_load(RVIZ.read_text(encoding="utf-8"))
    (shown,) = subscriptions(view)
    assert shown[1] == SKILL_MARKERS.name
    assert (shown[3].reliability, shown[3].durability) == (SKILL_MARKERS.qos.reliability, SKILL_MARKERS.qos.durability)
    assert view["Visualization Manager"]["Global Options"]["Fixed Frame"] == FRAME


class Bench:
    """The node, a simulated robot at its port, and a camera over it."""

    def __init__(self, folder, *options, robot=None):
        self.log = folder / "node.log"
        self.log.touch()
        self.robot = robot
        self.terminal = SimulatedTerminal(robot, scale=25.0) if robot else None
        given = [f"port:={self.terminal.path}"] if robot else []
        given += ["link_timeout:=1.5", "pose_timeout:=0.4", "reconnect:=0.1", "seed:=3", *options]
        self.client = PickClient("skill_bench")
        node = self.client.node
        self.call = Calls(node)
        self.motions, self.events, self.markers, self.health = [], [], [], {}
        for topic, heard in ((SKILL_MOTION, self.motions), (SKILL_EVENTS, self.events), (SKILL_MARKERS, self.markers)):
            node.create_subscription(topic.type, topic.name, heard.append, topic.qos)
        node.create_subscription(DIAGNOSTICS.type, DIAGNOSTICS.name, self._hear, DIAGNOSTICS.qos)
        self._camera = node.create_publisher(SKILL_POSE.type, SKILL_POSE.name, SKILL_POSE.qos)
        self.visible, self._ended = True, threading.Event()
        if robot:
            self.terminal.__enter__()
            threading.Thread(target=self._watch, daemon=True).start()
        arguments = [text for each in given for text in ("-p", each)]
        self.process = Forked(run_node(NODE, *arguments), os.environ, self.log)

    def _watch(self):
        while not self._ended.wait(0.02):
            if self.visible:
                stamp = self.client.node.get_clock().now().to_msg()
                self._camera.publish(pose_stamped(self.robot.look(), Header(stamp=stamp, frame_id=FRAME)))

    def _hear(self, message):
        for status in message.status:
            if status.name == f"/{NODE}":
                values = {pair.key: pair.value for pair in status.values}
                self.health = {"level": status.level, "message": status.message, **values}

    def wait(self, ready, seconds=30.0):
        try:
            wait_until(ready, "not so", seconds, never)
        except RobotError as error:
            raise AssertionError(f"{self.health}, {self.log.read_text()[-2000:]}") from error

    def wait_health(self, level, words):
        self.wait(lambda: self.health.get("level") == level and words in self.health["message"])

    def change_state(self, transition):
        request = ChangeState.Request()
        request.transition.id = transition
        return self.call(ChangeState, f"{NODE}/change_state", request).success

    def send(self, message):
        self._camera.publish(message)

    def close(self):
        self._ended.set()
        self.client.close()
        self.process.terminate()
        status = self.process.wait(30)
        if self.terminal:
            self.terminal.close()
        assert "Traceback" not in self.log.read_text()
        return status


@pytest.fixture(scope="module")
def bench(tmp_path_factory, own_corner):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(free_domain()))
        made = Bench(tmp_path_factory.mktemp("skill_robot"), robot=Millirobot(2))
        yield made
        assert made.close() == 0


@pytest.mark.slow
@pytest.mark.hardware
class TestOnARobot:
    def test_it_develops_and_tells_what_it_does(self, bench):
        bench.wait(lambda: any(event.learned for event in bench.events), 60.0)
        bench.wait(lambda: int(bench.health.get("skills_learned", 0)) >= 1)  # told once a second
        bench.wait_health(DiagnosticStatus.OK, "running")
        assert bench.health["link"] == "running"
        assert any(event.started and event.motivation > 0 for event in bench.events)
        motion = bench.motions[-1]
        assert motion.header.frame_id == FRAME
        assert abs(motion.left) <= 1 >= abs(motion.right)
        assert 0 < motion.duration <= 3
        kinds = {marker.ns: marker.type for marker in bench.markers[-1].markers}
        assert kinds == {"trail": Marker.LINE_STRIP, "robot": Marker.CUBE, "front": Marker.ARROW, "skill": 9}

    def test_it_stores_on_request(self, bench):
        answer = bench.call(Trigger, SKILL_STORE.name, Trigger.Request())
        assert answer.success, answer.message

    def test_a_lost_pose_stops_it_and_is_told(self, bench):
        bench.visible = False
        bench.wait_health(DiagnosticStatus.WARN, "poses on 'skills/pose'")
        bench.wait(lambda: any(event.abandoned for event in bench.events))
        count = len(bench.motions)
        bench.send(PoseStamped(header=Header(frame_id="map")))
        bench.wait(lambda: "'map' is not 'skill_plane'" in bench.health["last_fault"])
        assert len(bench.motions) == count
        bench.visible = True
        bench.wait(lambda: len(bench.motions) > count)
        bench.wait_health(DiagnosticStatus.OK, "running")

    def test_a_lost_link_is_told_and_found_again(self, bench):
        bench.terminal.line.unplugged.set()
        bench.wait_health(DiagnosticStatus.ERROR, "is lost")
        bench.terminal.line.unplugged.clear()
        bench.wait_health(DiagnosticStatus.OK, "running")
        assert bench.health["losses"] == "1"

    def test_a_reset_robot_goes_on(self, bench):
        bench.terminal.program.reset.set()
        bench.wait(lambda: any(event.restarted for event in bench.events))
        count = len(bench.motions)
        bench.wait(lambda: len(bench.motions) > count)

    def test_a_stuck_motor_is_told(self, bench):
        gain = bench.robot.gain
        bench.robot.weaken(0, 0.0)
        bench.wait_health(DiagnosticStatus.ERROR, "the left motor is stuck")
        assert any(event.left_stuck and not event.right_stuck for event in bench.events)
        bench.robot.gain = gain
        bench.wait_health(DiagnosticStatus.OK, "running")

    def test_it_stands_while_it_is_not_active(self, bench):
        assert bench.change_state(Transition.TRANSITION_DEACTIVATE)
        count = len(bench.motions)
        bench.wait_health(DiagnosticStatus.WARN, "being activated")
        assert bench.health["link"] == "idle"
        assert len(bench.motions) == count
        assert not bench.call(Trigger, SKILL_STORE.name, Trigger.Request()).success
        for transition in (Transition.TRANSITION_CLEANUP, Transition.TRANSITION_CONFIGURE):
            assert bench.change_state(transition)
        assert bench.change_state(Transition.TRANSITION_ACTIVATE)
        bench.wait(lambda: len(bench.motions) > count)


@pytest.mark.slow
@pytest.mark.hardware
def test_the_node_with_the_emulated_image_and_its_camera(tmp_path, monkeypatch):
    try:
        build_image()
        prepare()
    except MissingExtraError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    bench = Bench(tmp_path, "emulate:=image", "emulator_scale:=20", "forget:=true")
    bench.wait(lambda: any(event.learned for event in bench.events), 60.0)
    assert bench.call(Trigger, SKILL_STORE.name, Trigger.Request()).success
    assert bench.close() == 0


@pytest.mark.slow
def test_a_port_that_is_not_there_ends_it_with_one_line(fork, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    child = fork(run_node(NODE, "-p", "port:=/dev/none"))
    output, _ = child.communicate(60)
    assert child.returncode != 0
    assert "there is no port /dev/none" in output
    assert "Traceback" not in output
