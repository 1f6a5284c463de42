"""The texts of a rosbag2 recording: ``metadata.yaml`` (format version 9, that of Jazzy) and quality of service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import yaml
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from keygrasp_ros.message_types import type_hash

VERSION = 9
STORAGE = "mcap"
METADATA_FILE = "metadata.yaml"
#: Depth of a queue that discovery did not tell; rosbag2 writes 0 then.
_UNKNOWN_DEPTH = 10
#: What an unset duration is written as.
_FOREVER = {"sec": 9223372036, "nsec": 854775807}


class _PlainDumper(yaml.SafeDumper):
    """Writes what occurs twice twice, instead of referring to it."""

    def ignore_aliases(self, data: object) -> bool:
        """Refer to nothing."""
        return True


@dataclass(frozen=True)
class Channel:
    """One recorded topic.

    Attributes:
        name: Full name of the topic.
        type: Name of its message type.
        qos: What its publishers offer, each profile once.
    """

    name: str
    type: str
    qos: tuple[QoSProfile, ...]


def qos_yaml(profiles: tuple[QoSProfile, ...]) -> str:
    """Profiles in rosbag2's words, as YAML."""
    return yaml.dump(_qos(profiles), Dumper=_PlainDumper, sort_keys=False)


def _qos(profiles: tuple[QoSProfile, ...]) -> list[dict[str, Any]]:
    return [
        {
            "history": _word(profile.history),
            "depth": int(profile.depth),
            "reliability": _word(profile.reliability),
            "durability": _word(profile.durability),
            "deadline": _time(profile.deadline),
            "lifespan": _time(profile.lifespan),
            "liveliness": _word(profile.liveliness),
            "liveliness_lease_duration": _time(profile.liveliness_lease_duration),
            "avoid_ros_namespace_conventions": bool(profile.avoid_ros_namespace_conventions),
        }
        for profile in profiles
    ]


def profiles_of(text: str) -> tuple[QoSProfile, ...]:
    """The profiles that a recording gives for a topic, without their durations; none where they can't be read.

    Older recordings write the middleware's numbers instead of names; both are taken.
    """
    try:
        entries = yaml.safe_load(text) or []
        return tuple(
            QoSProfile(
                depth=int(entry["depth"]) or _UNKNOWN_DEPTH,
                reliability=_policy(ReliabilityPolicy, entry["reliability"]),
                durability=_policy(DurabilityPolicy, entry["durability"]),
            )
            for entry in entries
        )
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError):
        return ()


def metadata_yaml(file_name: str, channels: list[Channel], counts: dict[str, int], first: int, last: int) -> str:
    """The text of ``metadata.yaml`` of a recording in one file.

    Args:
        file_name: Name of the file in the recording's folder.
        channels: The topics.
        counts: Messages of each topic by name.
        first: Nanoseconds of the first message since 1970; 0 where there is none.
        last: The same of the last one.
    """
    total = sum(counts.values())
    span = {
        "starting_time": {"nanoseconds_since_epoch": first},
        "duration": {"nanoseconds": last - first},
        "message_count": total,
    }
    topics = [
        {
            "topic_metadata": {
                "name": channel.name,
                "type": channel.type,
                "serialization_format": "cdr",
                "offered_qos_profiles": _qos(channel.qos),
                "type_description_hash": type_hash(channel.type),
            },
            "message_count": counts.get(channel.name, 0),
        }
        for channel in channels
    ]
    information = {
        "version": VERSION,
        "storage_identifier": STORAGE,
        **span,
        "topics_with_message_count": topics,
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file_name],
        "files": [{"path": file_name, **span}],
        "custom_data": None,
        "ros_distro": os.environ.get("ROS_DISTRO", "jazzy"),
    }
    return yaml.dump({"rosbag2_bagfile_information": information}, Dumper=_PlainDumper, sort_keys=False)


def _policy(kind: Any, value: str | int) -> Any:
    return kind(value) if isinstance(value, int) else kind[value.upper()]


def _word(policy: Any) -> str:
    return policy.name.lower()


def _time(duration: Duration) -> dict[str, int]:
    nanoseconds = duration.nanoseconds
    if nanoseconds <= 0 or nanoseconds >= 2**63 - 1:
        return dict(_FOREVER)
    return {"sec": nanoseconds // 10**9, "nsec": nanoseconds % 10**9}
