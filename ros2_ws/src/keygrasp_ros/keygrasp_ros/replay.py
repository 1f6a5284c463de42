"""``keygrasp replay``: publish what a recorded camera saw, or plan recorded picks once more and compare."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from rclpy.time import Time

from keygrasp.errors import ConfigurationError, InputError, KeygraspError
from keygrasp.extras import require
from keygrasp_ros.bag import EXTRA, BagMessage, read_bag
from keygrasp_ros.bag_metadata import profiles_of
from keygrasp_ros.graph import default_params
from keygrasp_ros.message_types import message_class
from keygrasp_ros.replan import replan
from keygrasp_ros.running import run_nodes
from keygrasp_ros.signals import end_process, end_quietly, leave_at_once
from keygrasp_ros.topics import DEPTH, DEPTH_INFO, LATCHED, RELIABLE, TF, TF_STATIC
from keygrasp_ros.up import split_ros

#: What a graph needs in place of a camera of its own.
CAMERA_TOPICS = (DEPTH.name, DEPTH_INFO.name, TF.name, TF_STATIC.name)
#: After the publishers are there, for listeners to find them; and at the end, for the last message to arrive.
_DISCOVERY_SECONDS, _TAIL_SECONDS = 1.0, 0.5
#: How long to wait for the first listener before playing to whoever comes later.
_LISTENER_SECONDS = 10.0


class ReplayNode(Node):
    """Publishes recorded messages at the pace at which they came, with stamps of now.

    Args:
        messages: What to publish, in order.
        rate: Recorded seconds a second.
        loop: Whether to begin again at the end.
    """

    def __init__(self, messages: Sequence[BagMessage], rate: float, loop: bool, **options: Any) -> None:
        super().__init__("replay", **options)
        self._messages, self._rate, self._loop = messages, rate, loop
        self._stop = threading.Event()
        self.fault: KeygraspError | None = None
        self._publishers_by_topic = {
            message.topic: self.create_publisher(
                message_class(message.type), message.topic, (*profiles_of(message.qos), _fallback(message.topic))[0]
            )
            for message in {message.topic: message for message in messages}.values()
        }
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop publishing."""
        self._stop.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        self._await_listeners()
        try:
            while not self._stop.is_set():
                self._play()
                if not self._loop:
                    break
        except KeygraspError as error:
            self.fault = error
        self._stop.wait(_TAIL_SECONDS)
        end_process()

    def _await_listeners(self) -> None:
        """A short recording would be over before a listener on a busy machine has found it."""
        deadline = time.monotonic() + _LISTENER_SECONDS
        while time.monotonic() < deadline and not self._stop.is_set():
            if any(publisher.get_subscription_count() for publisher in self._publishers_by_topic.values()):
                break
            self._stop.wait(0.1)
        self._stop.wait(_DISCOVERY_SECONDS)  # a listener that is seen from here may not have seen us yet

    def _play(self) -> None:
        first, began = self._messages[0].nanoseconds, time.monotonic()
        shift = self.get_clock().now().nanoseconds - first
        for message in self._messages:
            due = began + (message.nanoseconds - first) * 1e-9 / self._rate
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            content = deserialize_message(message.data, message_class(message.type))
            _shift_stamps(content, shift)
            self._publishers_by_topic[message.topic].publish(content)


def _shift_stamps(message: Any, nanoseconds: int) -> None:
    """Move the stamps of a message and of its transforms, so that what was recorded happens now."""
    for stamped in (message, *getattr(message, "transforms", ())):
        header = getattr(stamped, "header", None)
        if header is not None:
            moved = Time.from_msg(header.stamp).nanoseconds + nanoseconds
            header.stamp = Time(nanoseconds=max(0, moved)).to_msg()


def _fallback(topic: str) -> Any:
    """Quality of service where a recording gives none."""
    return LATCHED if topic.endswith("tf_static") else RELIABLE


def messages_on(path: Path, topics: Sequence[str]) -> list[BagMessage]:
    """The recorded messages on some topics, whatever namespace they were recorded in.

    Raises:
        InputError: If there is none.
    """
    ends = tuple("/" + topic.lstrip("/") for topic in topics)
    messages = [message for message in read_bag(path) if message.topic.endswith(ends)]
    if not messages:
        raise InputError(f"{path} holds nothing on {', '.join(topics)}", "See 'ros2 bag info', or give --topics")
    return messages


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given, ros = split_ros(list(sys.argv[1:] if argv is None else argv))
    options = _parser().parse_args(given)
    require("mcap", EXTRA)
    status = _check(options) if options.check else _publish(options, ros)
    end_quietly()
    return status


def _check(options: argparse.Namespace) -> int:
    if not options.params.is_file():
        raise ConfigurationError(f"can't read {options.params}", "Check the path")
    same = total = 0
    for number, pick in enumerate(replan(options.bag, options.params), start=1):
        total, same = number, same + (not pick.differences)
        verdict = f"differs in {', '.join(pick.differences)}" if pick.differences else "the same grasps"
        print(f"pick {number}: {verdict} ({len(pick.plan.candidates)} candidates, {pick.plan.planner})", flush=True)
    print(f"{same} of {total} picks give the same grasps")
    return 0 if same == total else 1


def _publish(options: argparse.Namespace, ros: Sequence[str]) -> int:
    messages = messages_on(options.bag, options.topics)
    leave_at_once()
    nodes: list[ReplayNode] = []

    def create() -> ReplayNode:
        nodes.append(ReplayNode(messages, options.rate, options.loop))
        return nodes[0]

    print(f"publishing {len(messages)} messages of {options.bag}; Ctrl-C ends it", flush=True)
    status = run_nodes([create], ["--ros-args", *ros])
    fault = nodes[0].fault if nodes else None
    if fault is not None:
        raise fault
    return status


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no number") from error
    if not 0.01 <= rate <= 100.0:
        raise argparse.ArgumentTypeError(f"{text} is not in 0.01–100")
    return rate


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keygrasp replay",
        description="Publish what a recorded camera saw, or plan recorded picks once more.",
        epilog="What follows --ros-args goes to the node: -r __ns:=/left, ...",
    )
    parser.add_argument("bag", type=Path, help="a recording: its folder, or its MCAP file")
    parser.add_argument(
        "--check", action="store_true", help="plan each recorded pick again; status 1 unless all grasps are the same"
    )
    parser.add_argument(
        "--params", type=Path, default=default_params(), metavar="FILE", help="for --check: the planners' parameters"
    )
    parser.add_argument(
        "--topics",
        nargs="+",
        default=list(CAMERA_TOPICS),
        metavar="TOPIC",
        help="what to publish (default: the camera)",
    )
    parser.add_argument("--rate", type=_rate, default=1.0, metavar="R", help="recorded seconds a second (default: 1)")
    parser.add_argument("--loop", action="store_true", help="begin again at the end")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
