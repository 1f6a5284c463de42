"""Recordings as files: what other readers make of them, and what is left when writing is cut off."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
import yaml
from geometry_msgs.msg import PoseArray
from keygrasp_interfaces.msg import Grasp, GraspPlan
from keygrasp_ros.bag import BagWriter, read_bag, repair
from keygrasp_ros.bag_metadata import Channel, profiles_of, qos_yaml
from keygrasp_ros.message_types import definition, message_class, type_hash, type_name
from keygrasp_ros.topics import DEPTH, LATCHED, TOPICS
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import Image

from keygrasp.errors import InputError, StorageError

pytestmark = pytest.mark.ros
pytest.importorskip("mcap", reason="the extra 'record' is not installed")
PLANS = Channel("/left/grasps", "keygrasp_interfaces/msg/GraspPlan", (LATCHED,))
IMAGES = Channel("/left/camera/depth/image_raw", "sensor_msgs/msg/Image", (DEPTH.qos,))
BEGAN = 1_700_000_000_000_000_000


def plan(number):
    return GraspPlan(planner="geometric", found=True, grasp=Grasp(x=0.1 * number, score=0.5), candidates=[Grasp()] * 3)


def write(folder, count=4, bytes_each=1000):
    with BagWriter(folder) as writer:
        for number in range(count):
            writer.write(PLANS, serialize_message(plan(number)), BEGAN + number * 10**8)
            image = Image(height=1, width=bytes_each, step=bytes_each, encoding="mono8", data=os.urandom(bytes_each))
            writer.write(IMAGES, serialize_message(image), BEGAN + number * 10**8 + 1)
    return folder


def test_what_was_written_is_read(tmp_path):
    messages = list(read_bag(write(tmp_path / "bag")))
    assert [message.topic for message in messages] == [PLANS.name, IMAGES.name] * 4
    plans = [deserialize_message(m.data, message_class(m.type)) for m in messages[::2]]
    assert plans == [plan(number) for number in range(4)]
    assert [message.nanoseconds for message in messages[::2]] == [BEGAN + number * 10**8 for number in range(4)]


def test_rosbags_reads_it_as_ros2_bag_does(tmp_path):
    reading = pytest.importorskip("rosbags.rosbag2")
    with reading.Reader(write(tmp_path / "bag")) as reader:
        assert reader.message_count == 8
        assert reader.duration == 3 * 10**8 + 2  # this reader counts the last nanosecond in
        connections = {connection.topic: connection for connection in reader.connections}
        assert {topic: c.msgcount for topic, c in connections.items()} == {PLANS.name: 4, IMAGES.name: 4}
        assert connections[PLANS.name].msgtype == PLANS.type
        qos = connections[PLANS.name].ext.offered_qos_profiles[0]
        assert (qos.durability.name, qos.reliability.name) == ("TRANSIENT_LOCAL", "RELIABLE")
        assert connections[IMAGES.name].ext.offered_qos_profiles[0].reliability.name == "BEST_EFFORT"
        assert connections[PLANS.name].digest == type_hash(PLANS.type) != ""


def test_a_reader_that_knows_only_the_schemas_in_the_file_decodes_it(tmp_path):
    reader_module = pytest.importorskip("mcap_ros2.reader")
    file = write(tmp_path / "bag") / "bag_0.mcap"
    decoded = [m for m in reader_module.read_ros2_messages(str(file)) if m.channel.topic == PLANS.name]
    assert [m.ros_msg.grasp.x for m in decoded] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert decoded[0].ros_msg.planner == "geometric"
    assert len(decoded[0].ros_msg.candidates) == 3


def test_metadata_is_what_rosbag2_expects(tmp_path):
    from mcap.reader import make_reader

    folder = write(tmp_path / "bag")
    metadata = yaml.safe_load((folder / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert metadata["version"] == 9
    assert metadata["storage_identifier"] == "mcap"
    assert metadata["relative_file_paths"] == ["bag_0.mcap"]
    assert metadata["starting_time"]["nanoseconds_since_epoch"] == BEGAN
    assert metadata["message_count"] == sum(t["message_count"] for t in metadata["topics_with_message_count"]) == 8
    assert "&id" not in (folder / "metadata.yaml").read_text(), "rosbag2's reader is given no aliases"
    with (folder / "bag_0.mcap").open("rb") as stream:
        reader = make_reader(stream)
        assert reader.get_header().profile == "ros2"
        summary = reader.get_summary()
        assert {c.message_encoding for c in summary.channels.values()} == {"cdr"}
        assert {s.encoding for s in summary.schemas.values()} == {"ros2msg"}
        inside = {m.name: m.metadata for m in reader.iter_metadata()}["rosbag2"]["serialized_metadata"]
    assert yaml.safe_load(inside)["rosbag2_bagfile_information"] == metadata


@pytest.mark.slow
def test_rerun_converts_it(tmp_path):
    pytest.importorskip("rerun", reason="the extra 'viz' is not installed")
    file = write(tmp_path / "bag") / "bag_0.mcap"
    command = [sys.executable, "-m", "rerun", "mcap", "convert", str(file), "-o", str(tmp_path / "bag.rrd")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "bag.rrd").stat().st_size > 1000


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_each_topic_of_the_graph_has_a_definition_and_a_hash(topic):
    name = type_name(topic.type)
    assert message_class(name) is topic.type
    assert type_hash(name).startswith("RIHS01_")
    text = definition(name)
    for line in text.splitlines():
        assert not line.startswith("MSG: ") or line.count("/") == 1


def test_a_definition_holds_each_contained_type_once():
    text = definition("geometry_msgs/msg/PoseArray")
    headings = [line for line in text.splitlines() if line.startswith("MSG: ")]
    assert sorted(headings) == [
        "MSG: builtin_interfaces/Time", "MSG: geometry_msgs/Point", "MSG: geometry_msgs/Pose",
        "MSG: geometry_msgs/Quaternion", "MSG: std_msgs/Header",
    ]  # fmt: skip
    assert type_name(PoseArray) == "geometry_msgs/msg/PoseArray"


@pytest.mark.parametrize("name", ["Image", "sensor_msgs/Image", "nowhere_msgs/msg/Thing", "../etc/msg/X"])
def test_types_that_are_none_are_named(name):
    with pytest.raises(InputError) as error:
        message_class(name)
    assert name in str(error.value)


def test_quality_of_service_goes_there_and_back():
    again = profiles_of(qos_yaml((LATCHED, DEPTH.qos)))
    assert [p.durability for p in again] == [DurabilityPolicy.TRANSIENT_LOCAL, DurabilityPolicy.VOLATILE]
    assert [p.reliability for p in again] == [ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT]
    numbers = "- {history: 3, depth: 0, reliability: 1, durability: 1}"  # as recordings before Jazzy have them
    assert profiles_of(numbers)[0].durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert profiles_of("- nonsense") == profiles_of("[") == profiles_of("") == ()


KILLED = """
import sys, time
from pathlib import Path
from test_ros_bag import BEGAN, PLANS, plan, BagWriter, serialize_message
writer = BagWriter(Path(sys.argv[1]))
for number in range(10**6):
    writer.write(PLANS, serialize_message(plan(number)), BEGAN + number)
    if number == 300:
        print("written", flush=True)
    time.sleep(0.005)
"""


def test_kill_leaves_all_but_the_last_second(tmp_path):
    folder = tmp_path / "bag"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}  # noqa: PTH120
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, env=environment)
    try:
        assert child.stdout.readline() == b"written\n"
        time.sleep(0.3)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert not (folder / "metadata.yaml").exists()
    left = list(read_bag(folder))
    assert len(left) > 90
    assert deserialize_message(left[-1].data, GraspPlan) == plan(len(left) - 1)
    assert repair(folder, tmp_path / "mended") == len(left)
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    with rosbag2.Reader(tmp_path / "mended") as reader:
        assert reader.message_count == len(left)
        assert reader.connections[0].ext.offered_qos_profiles[0].durability.name == "TRANSIENT_LOCAL"


def test_a_full_disk_is_said_and_what_was_written_is_readable(tmp_path):
    """The system refuses to let the file grow, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, before[1]))
    try:
        with pytest.raises(StorageError) as error:
            write(tmp_path / "bag", count=10, bytes_each=2 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert str(tmp_path / "bag") in str(error.value)
    assert os.strerror(errno.EFBIG) in str(error.value)
    left = list(read_bag(tmp_path / "bag"))
    assert len(left) >= 2
    assert deserialize_message(left[0].data, GraspPlan) == plan(0)


def test_a_folder_that_exists_is_left_alone(tmp_path):
    write(tmp_path / "bag")
    with pytest.raises(InputError, match="exists already"):
        BagWriter(tmp_path / "bag")
    assert len(list(read_bag(tmp_path / "bag"))) == 8


def test_a_closed_recording_takes_no_more(tmp_path):
    writer = BagWriter(tmp_path / "bag")
    writer.close()
    writer.close()
    with pytest.raises(StorageError, match="closed"):
        writer.write(PLANS, serialize_message(plan(0)), BEGAN)
    assert list(read_bag(tmp_path / "bag")) == []


def test_damaged_and_foreign_recordings_are_named(tmp_path):
    file = write(tmp_path / "bag") / "bag_0.mcap"
    data = bytearray(file.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 64] = os.urandom(64)
    (tmp_path / "damaged.mcap").write_bytes(data)
    (tmp_path / "text.mcap").write_text("not a recording")
    (tmp_path / "sqlite").mkdir()
    (tmp_path / "sqlite" / "old_0.db3").touch()
    for name in ("damaged.mcap", "text.mcap", "sqlite", "missing"):
        with pytest.raises(InputError) as error:
            list(read_bag(tmp_path / name))
        assert name in str(error.value)


def test_a_repair_that_fails_leaves_nothing_so_that_it_can_be_tried_again(tmp_path):
    target = tmp_path / "deep" / "mended"
    (tmp_path / "text.mcap").write_text("not a recording")
    for name in ("missing", "text.mcap"):
        with pytest.raises(InputError, match=name):
            repair(tmp_path / name, target)
        assert not target.parent.exists()
    assert repair(write(tmp_path / "bag"), target) == 8
    with pytest.raises(InputError, match="exists already"):
        repair(tmp_path / "bag", target)
    assert len(list(read_bag(target))) == 8
