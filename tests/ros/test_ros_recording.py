"""Picks of the running graph: recorded, shown and planned once more, by the commands that people use."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from keygrasp_interfaces.msg import GraspPlan, PickRecord
from keygrasp_interfaces.srv import GenerateGrasps
from keygrasp_ros import replay
from keygrasp_ros.bag import BagWriter, read_bag
from keygrasp_ros.bag_metadata import Channel, profiles_of
from keygrasp_ros.recorder import RECORDED
from keygrasp_ros.replan import Replanned, differences, recorded_picks
from keygrasp_ros.topics import DEPTH
from keygrasp_ros.waiting import wait_until
from rclpy.serialization import deserialize_message, serialize_message
from ros_calls import Calls
from ros_processes import is_ready_for_signals

pytestmark = [pytest.mark.ros, pytest.mark.slow]
pytest.importorskip("mcap", reason="the extra 'record' is not installed")


def command(name, *arguments):
    return [sys.executable, "-m", f"keygrasp_ros.{name}", *map(str, arguments)]


def finish(child, seconds=90):
    out, _ = child.communicate(timeout=seconds)
    assert "Traceback" not in out
    return child.returncode, out


@pytest.fixture(scope="module")
def recorded(refined_graph, tmp_path_factory):
    """Two picks, one after the other without a pause: their recordings, answers and what the viewer was sent."""
    folder = tmp_path_factory.mktemp("recorded")
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": refined_graph.environment}
    recorder = subprocess.Popen(command("record", folder / "bags", "--picks", 2), **output)
    viewer = subprocess.Popen(command("view", "--save", folder / "view.rrd", "--picks", 2), **output)
    try:
        for topic in ("pick/record", "perceived/markers"):
            wait_until(
                lambda topic=topic: refined_graph.node.count_subscribers(topic) >= 2, "nobody listens", 30.0, bool
            )
        wait_until(lambda: is_ready_for_signals(recorder.pid), "the recorder did not start", 10.0, bool)
        time.sleep(1.0)  # for the recorder to hear the fixed transforms
        answers = []
        for name in ("013", "042"):
            refined_graph.load_object(name, seed=1)
            answers.append(refined_graph.pick())
        ends = [finish(child) for child in (recorder, viewer)]
    finally:
        for child in (recorder, viewer):
            if child.poll() is None:
                child.kill()
                child.communicate()
    assert [status for status, _ in ends] == [0, 0], ends
    return folder, answers


def test_each_pick_is_a_recording_of_its_own(recorded, refined_graph):
    folder, answers = recorded
    node = refined_graph.node
    published = {node.resolve_topic_name(name) for name in RECORDED if node.count_publishers(name)}
    bags = sorted((folder / "bags").iterdir())
    assert [bag.name for bag in bags] == ["pick-0001", "pick-0002"]
    for bag, answer in zip(bags, answers, strict=True):
        records, _ = recorded_picks(bag)
        assert [record.plan for record in records] == [answer.result.plan]
        topics = {message.topic for message in read_bag(bag)}
        assert topics == published - {"/clock", "/pick/task"}  # these picks named no task
        assert {"/pick/record", "/camera/depth/image_raw", "/tf_static", "/refined/markers"} <= topics


def test_a_recorded_image_gives_exactly_the_same_grasps_and_another_image_is_noticed(recorded, tmp_path):
    """The recording is followed by its pick once more, on an image with more noise."""
    with BagWriter(tmp_path / "twice") as writer:
        for message in read_bag(recorded[0] / "bags" / "pick-0002"):
            channel = Channel(message.topic, message.type, profiles_of(message.qos))
            writer.write(channel, message.data, message.nanoseconds)
            if message.type == "keygrasp_interfaces/msg/PickRecord":
                record = deserialize_message(message.data, PickRecord)
                depth = np.frombuffer(record.depth.data, np.float32).copy()
                depth += np.random.default_rng(0).normal(0.0, 2e-3, depth.shape).astype(np.float32)
                record.depth.data = depth.tobytes()
                writer.write(channel, serialize_message(record), message.nanoseconds + 1)
    done = subprocess.run(
        command("replay", tmp_path / "twice", "--check"), capture_output=True, text=True, check=False, timeout=60
    )
    first, second, total = done.stdout.splitlines()[-3:]
    assert first.startswith("pick 1: the same grasps"), done.stdout + done.stderr
    assert "refined" in first
    assert second.startswith("pick 2: differs in grasp"), second
    assert total == "1 of 2 picks give the same grasps"
    assert done.returncode == 1


@pytest.mark.parametrize(("found", "status"), [([()], 0), ([(), ("grasp",)], 1)])
def test_the_status_of_a_check_says_whether_all_grasps_are_the_same(monkeypatch, tmp_path, found, status):
    picks = [Replanned(PickRecord(), GraspPlan(), parts) for parts in found]
    monkeypatch.setattr(replay, "replan", lambda *_: iter(picks))
    monkeypatch.setattr(replay, "end_quietly", lambda: None)  # it would make this process deaf to Ctrl-C
    assert replay.main([str(tmp_path), "--check"]) == status


def test_the_running_graph_plans_the_same_on_a_recorded_image(recorded, refined_graph):
    (record,), _ = recorded_picks(recorded[0] / "bags" / "pick-0001")
    call = Calls(refined_graph.node)
    request = GenerateGrasps.Request(depth=record.depth, camera_info=record.camera_info, target=record.target)
    first, second = (call(GenerateGrasps, "generate_grasps", request).plan for _ in range(2))
    assert differences(first, second) == ()
    assert first.candidates
    assert first.header.stamp == record.plan.header.stamp


def test_replay_publishes_what_the_camera_saw_with_stamps_of_now(recorded, refined_graph, run):
    from sensor_msgs.msg import Image

    bag = recorded[0] / "bags" / "pick-0001"
    heard = []
    subscription = refined_graph.node.create_subscription(
        Image, "/replayed/camera/depth/image_raw", heard.append, DEPTH.qos
    )
    player = run(
        command("replay", bag, "--rate", 20, "--topics", "camera/depth/image_raw", "--ros-args", "-r",
                "/camera/depth/image_raw:=/replayed/camera/depth/image_raw"), env=refined_graph.environment,
    )  # fmt: skip
    try:
        status, out = finish(player)
        assert status == 0, out
    finally:
        refined_graph.node.destroy_subscription(subscription)
    assert heard
    assert abs(heard[-1].header.stamp.sec - time.time()) < 30
    originals = [m for m in read_bag(bag) if m.topic == "/camera/depth/image_raw"]
    assert bytes(heard[0].data) in [bytes(deserialize_message(m.data, Image).data) for m in originals]


@pytest.mark.skipif(not list(Path("/usr/share/vulkan").glob("icd.d/*.json")), reason="no Vulkan driver to draw with")
def test_a_picture_of_a_recording_needs_no_display(recorded, tmp_path):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    from PIL import Image

    picture = tmp_path / "view.png"
    done = subprocess.run(
        command("view", "--bag", recorded[0] / "bags" / "pick-0001", "--screenshot", picture, "--size", "800x450"),
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in running, "the viewer outlives the command"
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    assert pixels.shape[1] == 800
    scene = pixels[60:, :540]
    table = (scene[..., 1] > 150) & (scene[..., 0] < 120)  # the cloud of the table is green
    robot = (scene.min(axis=-1) > 140) & (np.ptp(scene, axis=-1) < 12)
    assert table.mean() > 0.03
    assert robot.mean() > 0.01


def test_the_viewer_was_sent_all_displays(recorded):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    listed = subprocess.run(
        [sys.executable, "-m", "rerun", "rrd", "print", str(recorded[0] / "view.rrd")],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    for entity in (
        "/world/camera/depth", "/world/perceived/keypoints_contour", "/world/grasps/candidates", "/world/refined/grasp",
        "/world/pick/outcome", "/robot/ur5/visual_geometries", "/robot/joints/elbow_joint", "/observer", "/summary",
    ):  # fmt: skip
        assert entity in listed
