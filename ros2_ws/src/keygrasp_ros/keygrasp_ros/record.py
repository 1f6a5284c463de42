"""``keygrasp record``: recordings of picks that ``ros2 bag play``, Foxglove and Rerun open."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rclpy.node import Node

from keygrasp.errors import KeygraspError
from keygrasp.extras import require
from keygrasp.files import ensure_writable
from keygrasp_ros.bag import EXTRA, repair
from keygrasp_ros.option_values import count
from keygrasp_ros.recorder import RECORDED, Recorder
from keygrasp_ros.running import run_nodes
from keygrasp_ros.signals import end_process, end_quietly, leave_at_once
from keygrasp_ros.up import split_ros


class RecorderNode(Node):
    """A node that records until it is closed, or until it has as many picks as were asked for."""

    def __init__(self, options: argparse.Namespace, **node_options: Any) -> None:
        super().__init__("recorder", **node_options)
        self._most = options.picks
        self._recorder = Recorder(
            self,
            options.folder,
            each_pick=not options.all,
            topics=options.topics,
            on_recorded=self._tell,
            on_fault=lambda _: end_process(),
        )
        print(f"recording to {options.folder}; Ctrl-C ends it", flush=True)

    @property
    def fault(self) -> KeygraspError | None:
        """Why recording could not go on."""
        return self._recorder.fault

    def close(self) -> None:
        """Finish what is being written."""
        self._recorder.close()

    def _tell(self, folder: Path) -> None:
        print(f"recorded {folder}", flush=True)
        if self._most and self._recorder.count >= self._most:
            end_process()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given, ros = split_ros(list(sys.argv[1:] if argv is None else argv))
    options = _parser().parse_args(given)
    require("mcap", EXTRA)
    if options.repair is not None:
        saved = repair(options.repair, options.folder)
        print(f"saved {saved} messages of {options.repair} in {options.folder}")
        return 0
    ensure_writable(options.folder / ".keygrasp" if not options.all else options.folder.parent / ".keygrasp")
    leave_at_once()
    nodes: list[RecorderNode] = []

    def create() -> RecorderNode:
        nodes.append(RecorderNode(options))
        return nodes[0]

    status = run_nodes([create], ["--ros-args", *ros])
    fault = nodes[0].fault if nodes else None
    if fault is not None:
        print(f"keygrasp: {fault.problem}\n  {fault.remedy}", file=sys.stderr)
        status = fault.exit_code
    end_quietly()
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="keygrasp record",
        description="Record picks of a running graph as rosbag2 folders with MCAP files.",
        epilog="What follows --ros-args goes to the node: -r __ns:=/left, ...",
    )
    parser.add_argument("folder", type=Path, help="where to write: pick-0001, pick-0002, ... inside of it")
    parser.add_argument("--picks", type=count, default=0, metavar="N", help="end after N picks (default: at Ctrl-C)")
    parser.add_argument(
        "--all", action="store_true", help="one recording of everything from now on, in the folder itself"
    )
    parser.add_argument(
        "--topics", nargs="+", default=list(RECORDED), metavar="TOPIC", help="topics (default: those of the graph)"
    )
    parser.add_argument(
        "--repair", type=Path, metavar="BAG", help="instead: save a recording that was cut off to the folder"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
