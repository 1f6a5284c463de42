"""What an RViz file asks of a running graph, and where the graph does not give it."""

from __future__ import annotations

import time

from keygrasp_ros.frames import listen
from keygrasp_ros.message_types import message_class
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from keygrasp.errors import InputError

#: Message type that each kind of display subscribes to.
TYPES = {
    "RobotModel": "std_msgs/msg/String",
    "Image": "sensor_msgs/msg/Image",
    "DepthCloud": "sensor_msgs/msg/Image",
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "PoseArray": "geometry_msgs/msg/PoseArray",
}
WITHOUT_TOPIC = {"Grid", "TF"}
SECONDS = 5.0


def subscriptions(view):
    """(display, topic, type, QoS) of everything that RViz subscribes to with this file."""
    for display in view["Visualization Manager"]["Displays"]:
        kind = display["Class"].split("/")[1]
        if kind in WITHOUT_TOPIC:
            continue
        if kind == "DepthCloud":  # RViz looks for the camera_info beside the image
            reliability = display["Reliability Policy"]
            topic = display["Depth Map Topic"]
            qos = _qos(reliability, "Volatile")
            yield display["Name"], topic, TYPES[kind], qos
            yield display["Name"], topic.rsplit("/", 1)[0] + "/camera_info", "sensor_msgs/msg/CameraInfo", qos
            continue
        topic = display.get("Topic") or display["Description Topic"]
        yield (
            display["Name"],
            topic["Value"],
            TYPES[kind],
            _qos(topic["Reliability Policy"], topic["Durability Policy"]),
        )


def _qos(reliability, durability):
    return QoSProfile(
        depth=5,
        reliability=ReliabilityPolicy[reliability.upper().replace(" ", "_")],
        durability=DurabilityPolicy[durability.upper().replace(" ", "_")],
    )


def complaints(view, node, seconds=SECONDS):
    """Why these displays would stay empty on the graph that the node is part of; nothing where all of them show."""
    frames, found, heard, listeners = listen(node), [], {}, []
    group = ReentrantCallbackGroup()
    wanted = list(subscriptions(view))
    for name, topic, kind, qos in wanted:
        publishers = node.get_publishers_info_by_topic(topic)
        if not publishers:
            found.append(f"{name}: nobody publishes {topic}")
        for publisher in publishers:
            if publisher.topic_type != kind:
                found.append(f"{name}: {topic} is {publisher.topic_type}, not {kind}")
            offered = publisher.qos_profile
            if qos.reliability == ReliabilityPolicy.RELIABLE and offered.reliability != qos.reliability:
                found.append(f"{name}: {topic} is best effort")
            if qos.durability == DurabilityPolicy.TRANSIENT_LOCAL and offered.durability != qos.durability:
                found.append(f"{name}: {topic} keeps nothing for who comes late")
        if not found:
            listeners.append(
                node.create_subscription(
                    message_class(kind),
                    topic,
                    lambda m, key=(name, topic): heard.setdefault(key, m),
                    qos,
                    callback_group=group,
                )
            )
    if not found:
        deadline = time.monotonic() + seconds
        while len(heard) < len(wanted) and time.monotonic() < deadline:
            time.sleep(0.02)
        found += [f"{name}: nothing comes on {topic}" for name, topic, *_ in wanted if (name, topic) not in heard]
        fixed = view["Visualization Manager"]["Global Options"]["Fixed Frame"]
        try:
            frames.wait_for_pose("base_link", fixed, 1.0)
        except InputError as error:
            found.append(f"fixed frame: {error.problem}")
        for (name, topic), message in heard.items():
            for frame in _frames_of(message):
                try:
                    frames.pose(frame, fixed)
                except InputError as error:
                    found.append(f"{name}: {topic}: {error.problem}")
    for listener in listeners:
        node.destroy_subscription(listener)
    return found


def _frames_of(message):
    header = getattr(message, "header", None)
    headers = [marker.header for marker in getattr(message, "markers", ())] + ([header] if header else [])
    return {each.frame_id for each in headers}
