"""``keygrasp view``: the live graph, or a recording of it, in the Rerun viewer."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.serialization import deserialize_message

from keygrasp.errors import InputError, KeygraspError
from keygrasp.extras import require
from keygrasp.files import ensure_writable, folders_undone
from keygrasp_ros.bag import read_bag
from keygrasp_ros.message_types import message_class, type_name
from keygrasp_ros.option_values import count, png_path, seconds
from keygrasp_ros.parameters import WORKSPACE_FRAME, reader
from keygrasp_ros.rerun_layout import layout
from keygrasp_ros.rerun_scene import SHOWN, RerunScene
from keygrasp_ros.rerun_screenshot import screenshot
from keygrasp_ros.running import run_nodes
from keygrasp_ros.signals import end_process, end_quietly, leave_at_once
from keygrasp_ros.topics import RECORD
from keygrasp_ros.up import split_ros

PARAMETERS = (WORKSPACE_FRAME,)
_APPLICATION = "keygrasp"
#: How a viewer's address begins, and that of one on this machine with its usual port.
_SCHEMES = ("rerun://", "rerun+http://", "rerun+https://")
_VIEWER_URL = "rerun+http://127.0.0.1:9876/proxy"
#: After the last pick that was asked for, for what was published before its end but is still on its way.
_TAIL_SECONDS = 1.0


class ViewNode(Node):
    """Hands what the graph publishes to Rerun.

    Args:
        recording: A ``rerun.RecordingStream``.
        picks: End the process after so many picks; 0 for never.
        seconds: End it after so many seconds; 0 for never.
    """

    def __init__(self, recording: Any, picks: int, seconds: float, **options: Any) -> None:
        super().__init__("view", **options)
        self._recording, self._picks = recording, picks
        self._scene = RerunScene(recording, reader(self, PARAMETERS)("workspace_frame"))
        group = MutuallyExclusiveCallbackGroup()
        for topic in SHOWN:
            self.create_subscription(
                topic.type,
                topic.name,
                lambda message, topic=topic: self._take(topic.name, message),
                topic.qos,
                callback_group=group,
            )
        if seconds > 0:
            self.create_timer(seconds, end_process, callback_group=group)

    def close(self) -> None:
        """Send what is on its way."""
        self._recording.flush()

    def _take(self, topic: str, message: Any) -> None:
        try:
            self._scene.take(topic, message, time.time())
        except InputError as error:
            self.get_logger().warning(f"not shown: {topic}: {error}", throttle_duration_sec=5.0)
        if topic == RECORD.name and self._picks:
            self._picks -= 1
            if self._picks == 0:
                self.create_timer(_TAIL_SECONDS, end_process)


def show_bag(bag: Path, recording: Any, workspace_frame: str = WORKSPACE_FRAME.default) -> int:
    """Show the messages of a recording; returns how many.

    Topics are told by their names' ends and types, so that a recording of a namespaced graph shows as well.

    Raises:
        InputError: If the recording can't be read.
    """
    scene, count = RerunScene(recording, workspace_frame), 0
    for message in read_bag(bag):
        for topic in SHOWN:
            if message.type == type_name(topic.type) and message.topic.endswith(f"/{topic.name.lstrip('/')}"):
                content = deserialize_message(message.data, message_class(message.type))
                try:
                    scene.take(topic.name, content, message.nanoseconds * 1e-9)
                except InputError as error:
                    print(f"keygrasp: not shown: {message.topic}: {error}", file=sys.stderr)
                count += 1
                break
    recording.flush()
    return count


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given, ros = split_ros(list(sys.argv[1:] if argv is None else argv))
    options = _parser().parse_args(given)
    rerun = require("rerun", "viz")
    written = [path for path in (options.save, options.screenshot) if path is not None]
    with folders_undone(*written), tempfile.TemporaryDirectory(prefix="keygrasp-") as folder:
        _check(options)
        recording = rerun.RecordingStream(_APPLICATION)
        file = _open(rerun, recording, options, Path(folder))
        status = _show(recording, options, ros)
        recording.disconnect()
        if options.screenshot is not None and file is not None and status == 0:
            screenshot(file, options.screenshot, options.size)
            print(f"wrote {options.screenshot}")
    end_quietly()
    return status


def _show(recording: Any, options: argparse.Namespace, ros: Sequence[str]) -> int:
    if options.bag is not None:
        count = show_bag(options.bag, recording)
        if count == 0:
            raise InputError(f"{options.bag} holds none of the topics that are shown", "See docs/viewing.md")
        print(f"showed {count} messages of {options.bag}")
        return 0
    leave_at_once()
    return run_nodes(
        [lambda: ViewNode(recording, options.picks, options.seconds)],
        ["--ros-args", *ros],
    )


def _check(options: argparse.Namespace) -> None:
    """Refuse what can't work before anything is started."""
    for path in (options.save, options.screenshot):
        if path is not None:
            ensure_writable(path)
    if options.connect is not None and not options.connect.startswith(_SCHEMES):
        raise _no_url(options.connect, "its beginning is none of " + ", ".join(_SCHEMES))
    if not (options.save or options.screenshot or options.connect or options.web) and not _has_display():
        raise KeygraspError(
            "there is no display for the viewer",
            "Give --save FILE.rrd, --screenshot FILE.png, --web or --connect URL",
        )


def _open(rerun: Any, recording: Any, options: argparse.Namespace, folder: Path) -> Path | None:
    """Begin to send to where the options say; returns the file that is written, if one is."""
    if options.save is not None or options.screenshot is not None:
        file = options.save or folder / "view.rrd"
        recording.save(file, default_blueprint=layout(plain=options.screenshot is not None))
        return Path(file)
    if options.connect is not None:
        try:
            recording.connect_grpc(options.connect, default_blueprint=layout())
        except (ValueError, RuntimeError) as error:
            raise _no_url(options.connect, str(error)) from error
    elif options.web:
        address = recording.serve_grpc(default_blueprint=layout())
        rerun.serve_web_viewer(open_browser=_has_display(), connect_to=address)
        print(f"the viewer: http://127.0.0.1:9090/?url={address}", flush=True)
    else:
        recording.spawn(default_blueprint=layout())
    return None


def _no_url(url: str, why: str) -> InputError:
    return InputError(f"'{url}' is no viewer's URL: {why}", f"Give --connect {_VIEWER_URL}, or what that viewer prints")


def _has_display() -> bool:
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal() and 200 <= int(width) <= 4096 and 200 <= int(height) <= 4096):
        raise argparse.ArgumentTypeError(f"'{text}' is no size like 1600x900")
    return int(width), int(height)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keygrasp view",
        description="Show the running graph, or a recording of it, in the Rerun viewer.",
        epilog="What follows --ros-args goes to the node: -r __ns:=/left, -p workspace_frame:=table, ...",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--connect", metavar="URL", help="send to a viewer that runs already (default: start one)")
    where.add_argument("--web", action="store_true", help="offer the viewer to a browser")
    where.add_argument("--save", type=Path, metavar="FILE.rrd", help="write a file that 'rerun FILE.rrd' shows")
    parser.add_argument(
        "--screenshot", type=png_path, metavar="FILE.png", help="at the end, write a picture; needs no display"
    )
    parser.add_argument("--size", type=_size, default=(1600, 900), metavar="WxH", help="of the picture in pixels")
    parser.add_argument("--bag", type=Path, metavar="BAG", help="show this recording instead of the running graph")
    parser.add_argument("--picks", type=count, default=0, metavar="N", help="end after N picks (default: at Ctrl-C)")
    parser.add_argument("--seconds", type=seconds, default=0.0, metavar="S", help="end after S seconds")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
