"""The Delta's node: its parameters, and the library's configuration that they stand for."""

from __future__ import annotations

import dataclasses
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from std_msgs.msg import Bool

from keygrasp.errors import RobotError
from keygrasp.geometry.poses import Array
from keygrasp.robots.delta_x import (
    Calibration,
    DeltaConfig,
    load_calibration,
    load_model,
    table_below,
)
from keygrasp.robots.delta_x.emulator import Emulator
from keygrasp_ros.delta_graph import config_in
from keygrasp_ros.delta_reach import MODEL, ROBOT_FILE
from keygrasp_ros.parameters import AUTOSTART, WORKSPACE_FRAME, Parameter
from keygrasp_ros.sim_parameters import CAMERA_FRAME, STATE_RATE
from keygrasp_ros.topics import HOLDING

#: Metres by which the fingertips reach below the table of an emulated robot: planners touch it.
_BELOW_TABLE = 0.02
#: Seconds for which an emulated robot is listened to before it is asked.
_BOOT_SECONDS = 0.2
#: Speeds in the robot's file that the parameter ``speed`` scales.
_SPEEDS = ("speed", "descend_speed", "lift_speed")

#: What a user can do where nothing tells whether an object is held.
HOLDING_REMEDY = (
    "to believe it, start with 'keygrasp up delta --holding assumed'; to say it on the topic 'holding', with "
    "'--holding topic'; by ros2 launch 'holding:=assumed'"
)

PARAMETERS = (
    WORKSPACE_FRAME,
    ROBOT_FILE,
    Parameter("port", "", "Serial port; empty for the robot file's."),
    Parameter(
        "serial_number",
        "",
        "Serial number of the USB adapter by which the port is found; in quotes, also where it looks like a number; "
        "empty for the robot file's.",
    ),
    MODEL,
    Parameter(
        "calibration", "", "Where the table is: a file of `keygrasp delta calibrate`; empty for the robot file's."
    ),
    Parameter(
        "table_height",
        0.0,
        "Metres in the robot's frame of a level table centred below it, where there is no calibration; 0 for unknown.",
        -3.0,
        0.0,
    ),
    Parameter(
        "hand_eye",
        "",
        "Where the camera is: a file of `keygrasp delta calibrate` for `camera_optical`; empty where TF comes from "
        "elsewhere.",
    ),
    CAMERA_FRAME,
    Parameter("speed", 1.0, "Share of the robot file's speeds.", 0.01, 1.0),
    Parameter(
        "holding",
        "unknown",
        "What tells after a lift whether an object is held: nothing (then no grasp is a success), the topic "
        "`holding`, or nothing while success is assumed.",
        choices=("unknown", "topic", "assumed"),
    ),
    Parameter("holding_timeout", 2.0, "Seconds to wait for a message on `holding`.", 0.1, 600.0),
    STATE_RATE,
    Parameter("emulate", False, "Whether to drive an emulated robot, started with the node on a pseudo-terminal."),
    Parameter("emulator_scale", 1.0, "How many times faster than real the emulated robot is.", 1.0, 100.0),
    AUTOSTART,
)


def robot_config(read: Callable[[str], Any]) -> DeltaConfig:
    """The robot's file with what parameters change.

    Raises:
        ConfigurationError: If the file can't be used.
    """
    config = config_in(read("robot_file"))
    given: dict[str, Any] = {name: read(name) for name in ("port", "serial_number", "model") if read(name)}
    if "port" in given:
        given.setdefault("serial_number", None)
    if read("calibration"):
        given["calibration"] = Path(read("calibration")).expanduser()
    motion = dataclasses.replace(
        config.motion, **{name: read("speed") * getattr(config.motion, name) for name in _SPEEDS}
    )
    held = config.assume_held if read("holding") == "unknown" else read("holding") == "assumed"
    return dataclasses.replace(config, motion=motion, assume_held=held, **given)


def table_of(config: DeltaConfig, read: Callable[[str], Any]) -> Calibration | None:
    """Where the table is if no calibration says so; ``None`` where that is not known."""
    if config.calibration is not None:
        return load_calibration(config.calibration)
    height = read("table_height")
    if height == 0.0 and read("emulate"):
        height = load_model(config.model).floor - config.tool.length + _BELOW_TABLE
    return table_below(height) if height < 0.0 else None


def camera_of(read: Callable[[str], Any]) -> tuple[str, Array] | None:
    """Frame of the camera and its pose (4, 4) in the robot's frame; ``None`` where no calibration is given."""
    file = read("hand_eye")
    if not file:
        return None
    return read("camera.frame"), load_calibration(Path(file).expanduser(), "camera_optical").pose


class EmulatedPort:
    """An emulated robot on a pseudo-terminal, on a thread of this process.

    Args:
        model: Name or file of its model.
        scale: How many times faster than real it is.
    """

    def __init__(self, model: str, scale: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="keygrasp-delta-")
        self._emulator = Emulator(load_model(model), scale=scale, link=Path(self._folder.name) / "port")
        self._emulator.__enter__()

    def drive(self, config: DeltaConfig) -> DeltaConfig:
        """The set-up with this port, for a robot that needs no time to boot."""
        return dataclasses.replace(config, port=self._emulator.path, serial_number=None, boot_seconds=_BOOT_SECONDS)

    def close(self) -> None:
        """Switch it off."""
        self._emulator.__exit__(None, None, None)
        self._folder.cleanup()


class HoldingFeed:
    """Asks the topic ``holding`` whether an object hangs in the tool now; a message from before doesn't count.

    Args:
        node: Node that listens.
        seconds: How long to wait for a message.
    """

    def __init__(self, node: Node, seconds: float) -> None:
        self._seconds = seconds
        self._arrived = threading.Condition()
        self._count, self._held = 0, False
        self._node = node
        self._subscription = node.create_subscription(
            HOLDING.type, HOLDING.name, self._take, HOLDING.qos, callback_group=ReentrantCallbackGroup()
        )

    def __call__(self) -> bool:
        """Whether it is held.

        Raises:
            RobotError: If nobody says so in time.
        """
        with self._arrived:
            before = self._count
            if not self._arrived.wait_for(lambda: self._count > before, self._seconds):
                raise RobotError(
                    f"nothing came on '{HOLDING.name}' within {self._seconds:g} s",
                    "Publish there whether an object hangs in the tool, or set the parameter holding",
                )
            return self._held

    def close(self) -> None:
        """Listen no more."""
        self._node.destroy_subscription(self._subscription)

    def _take(self, message: Bool) -> None:
        with self._arrived:
            self._count, self._held = self._count + 1, message.data
            self._arrived.notify_all()
