"""Planning recorded picks once more: the same image must give the same grasps."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from keygrasp_interfaces.msg import GraspPlan, PickRecord
from rclpy.node import Node
from rclpy.serialization import deserialize_message
from tf2_msgs.msg import TFMessage

from keygrasp.errors import InputError
from keygrasp_ros.bag import BagMessage, read_bag
from keygrasp_ros.graph import PLANNERS, nodes_for
from keygrasp_ros.isolation import isolated_environment
from keygrasp_ros.message_types import type_name
from keygrasp_ros.pick_steps import PickSteps, steps_of
from keygrasp_ros.running import spinning
from keygrasp_ros.topics import RECORD, TF_STATIC

#: Nodes that don't plan.
_OTHERS = ("sim_robot", "pick_server")


@dataclass(frozen=True)
class Replanned:
    """A recorded pick and what is planned on its image now.

    Attributes:
        record: What was recorded.
        plan: The plan of now.
        differences: Names of the parts of the plan that differ; empty where every number is the same.
    """

    record: PickRecord
    plan: GraspPlan
    differences: tuple[str, ...]


def recorded_picks(path: Path) -> tuple[list[PickRecord], TFMessage]:
    """The picks of a recording, and the fixed transforms that it holds, the latest of each frame.

    Raises:
        InputError: If the recording can't be read, or holds no pick with an image.
    """
    records, transforms = [], {}
    for message in read_bag(path):
        if message.type == type_name(RECORD.type):
            record = deserialize_message(message.data, PickRecord)
            if record.depth.height:
                records.append(record)
        elif _is_static(message):
            for transform in deserialize_message(message.data, TFMessage).transforms:
                transforms[transform.child_frame_id] = transform
    if not records:
        raise InputError(f"{path} holds no pick with an image on '{RECORD.name}'", "Record with 'keygrasp record'")
    return records, TFMessage(transforms=list(transforms.values()))


def replan(path: Path, params: Path) -> Iterator[Replanned]:
    """Plan each recorded pick with the planning nodes of the graph, in this process and on a network of their own.

    Args:
        path: The recording.
        params: Parameter file of the nodes; the same as when it was recorded, for the same grasps.

    Raises:
        InputError: If the recording can't be used.
        RobotError: If a node does not answer.
    """
    records, transforms = recorded_picks(path)
    os.environ.update(isolated_environment())
    arguments = ["--ros-args", "--params-file", str(params), "--log-level", "warn"]
    planning = [
        functools.partial(spec.create, PLANNERS[0]) for spec in nodes_for(PLANNERS[0]) if spec.name not in _OTHERS
    ]
    with spinning([*planning, functools.partial(Node, "replay")], arguments) as (*_, caller):
        caller.create_publisher(TF_STATIC.type, TF_STATIC.name, TF_STATIC.qos).publish(transforms)
        steps = steps_of(caller, PLANNERS[0])
        for record in records:
            yield _replan(steps, record)


def _replan(steps: PickSteps, record: PickRecord) -> Replanned:
    def never() -> bool:
        return False

    scene = steps.extract((record.depth, record.camera_info), never)
    plan = steps.generate(scene, record.target, never)
    if record.plan.planner == "refined":
        plan, warning = steps.refine(scene, plan, never)
        if warning:
            raise InputError(warning)
    return Replanned(record, plan, differences(record.plan, plan))


def differences(first: GraspPlan, second: GraspPlan) -> tuple[str, ...]:
    """Names of the fields in which two plans differ, but for how long planning took."""
    fields = [name for name in GraspPlan.get_fields_and_field_types() if name not in ("header", "timings")]
    return tuple(name for name in fields if getattr(first, name) != getattr(second, name))


def _is_static(message: BagMessage) -> bool:
    return message.type == type_name(TFMessage) and message.topic.endswith("tf_static")
