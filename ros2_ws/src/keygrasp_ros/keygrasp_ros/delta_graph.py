"""What one may say when the Delta's graph starts: launch arguments and options of ``keygrasp up delta`` alike."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from keygrasp.errors import InputError

if TYPE_CHECKING:
    from keygrasp.robots.delta_x import DeltaConfig

#: The camera of a graph whose robot is emulated.
SCENE_CAMERA = "scene_camera"
#: Nodes that plan for a gripper, within reach.
_PLANNING = ("grasp_generator", "pose_refiner")
#: Settings that these nodes need too.
_BUILD = ("robot_file", "model")


@dataclass(frozen=True)
class Setting:
    """One of them: a parameter of ``delta_robot`` with that name, or another name for a topic.

    Attributes:
        name: Its name.
        description: What it is.
        kind: ``text``, ``number``, ``switch`` (true or false) or ``topic``.
        topic: The topic that gets another name, for all nodes.
    """

    name: str
    description: str
    kind: Literal["text", "number", "switch", "topic"] = "text"
    topic: str = ""

    def value(self, text: str) -> str | float | bool:
        """What a text stands for.

        Raises:
            InputError: If that is nothing of its kind.
        """
        try:
            if self.kind == "number":
                return float(text)
            return {"true": True, "false": False}[text] if self.kind == "switch" else text
        except (KeyError, ValueError) as error:
            wanted = "true or false" if self.kind == "switch" else "a number"
            raise InputError(f"{self.name} is '{text}'", f"Give {wanted}") from error


SETTINGS = (
    Setting("robot_file", "The robot's YAML file (docs/real-robot.md)."),
    Setting("port", "Its serial port, such as /dev/ttyUSB0."),
    Setting("serial_number", "Serial number of its USB adapter, by which the port is found."),
    Setting("model", "X1, V2 or a model's YAML file."),
    Setting("calibration", "Where the table is: a file of 'keygrasp delta calibrate'."),
    Setting("hand_eye", "Where the camera is: such a file for camera_optical."),
    Setting("speed", "Share of the robot file's speeds, up to 1.", "number"),
    Setting("holding", "What tells that an object is held: unknown, topic or assumed."),
    Setting("depth_topic", "The camera's depth images.", "topic", "camera/depth/image_raw"),
    Setting("camera_info_topic", "The camera's model.", "topic", "camera/depth/camera_info"),
    Setting("emulate", "Drive an emulated robot, and look at a simulated table.", "switch"),
    Setting("emulator_scale", "How many times faster than real the emulated robot is.", "number"),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def given(values: Mapping[str, str | None]) -> dict[str, str]:
    """Those of the settings that were given, as texts."""
    return {name: value for name in _BY_NAME if (value := values.get(name))}


def optional_nodes(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Optional nodes that settings bring into the graph."""
    return (SCENE_CAMERA,) if settings.get("emulate") == "true" else ()


def overrides(node: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Parameters of a node of the graph that follow from settings.

    Raises:
        InputError: If one can't be what it says.
    """
    if node == "delta_robot":
        found = {name: _BY_NAME[name].value(text) for name, text in settings.items() if not _BY_NAME[name].topic}
        return dict(found)
    if node == SCENE_CAMERA and "hand_eye" in settings:
        return {"camera.place": False}
    return _planning(settings) if node in _PLANNING else {}


def renames(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """Topics and their other names."""
    return [(_BY_NAME[name].topic, text) for name, text in settings.items() if _BY_NAME[name].topic]


def as_json(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as ROS reads them from a command line or a file, where a text that looks like a number stays a text."""
    return {name: json.dumps(value) for name, value in values.items()}


def config_in(robot_file: str) -> DeltaConfig:
    """The set-up in a robot's file; the default one where no file is named.

    Raises:
        ConfigurationError: If the file can't be used.
    """
    from keygrasp.robots.delta_x import DeltaConfig, load_delta_config

    return load_delta_config(Path(robot_file).expanduser()) if robot_file else DeltaConfig()


def _planning(settings: Mapping[str, str]) -> dict[str, Any]:
    """The gripper of the robot's file and the robot's reach, as the planning nodes' parameters."""
    gripper = dataclasses.asdict(config_in(settings.get("robot_file", "")).tool.gripper)
    values: dict[str, Any] = {f"gripper.{name}": value for name, value in gripper.items()}
    return values | {"reach": "delta"} | {name: settings[name] for name in _BUILD if name in settings}
