"""What the world model says, as messages: predictions of grasps, imagined trajectories and their markers."""

from __future__ import annotations

import array

import numpy as np
from keygrasp_interfaces import msg
from std_msgs.msg import Header
from torch import Tensor
from visualization_msgs.msg import Marker, MarkerArray

from keygrasp.refine.outcomes import CAUSES, Expectation
from keygrasp.scene import PlanarGrasp
from keygrasp.trials.drawing import PATH_COLOUR, outcome_colour
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.planner import Plan
from keygrasp_ros.conversions import grasp_message
from keygrasp_ros.markers import blank_marker, point_message, rgba

#: Colours of what moves: the gripper, and the object that the task is about.
_GRIPPER_COLOUR = PATH_COLOUR
_LINE = 0.003
#: Shortest arm of a cross in metres: certain places stay visible.
_LEAST_ARM = 0.002


def prediction_messages(grasps: list[PlanarGrasp], expected: Expectation) -> list[msg.GraspPrediction]:
    """One message a grasp."""
    names = [str(cause) for cause in CAUSES]
    return [
        msg.GraspPrediction(
            grasp=grasp_message(grasp),
            success_probability=float(expected.success[i]),
            outcomes=names,
            probabilities=[float(p) for p in expected.causes[i]],
            displacement=float(expected.moved[i]),
            force=float(expected.force[i]),
            success_deviation=float(expected.success_deviation[i]),
            displacement_deviation=float(expected.moved_deviation[i]),
            force_deviation=float(expected.force_deviation[i]),
        )
        for i, grasp in enumerate(grasps)
    ]


def trajectory_message(
    plan: Plan, rewards: Tensor, layout: Layout, header: Header, task: str, milliseconds: float
) -> msg.ImaginedTrajectory:
    """The message of a plan with the rewards (H,) that its steps should earn."""
    return msg.ImaginedTrajectory(
        header=header,
        task=task,
        names=list(layout.names),
        states=len(plan.symbols),
        values=_numbers(plan.symbols),
        deviations=_numbers(plan.deviation),
        rewards=_numbers(rewards),
        predicted_return=float(plan.value),
        planning_ms=milliseconds,
    )


def trajectory_markers(trajectory: msg.ImaginedTrajectory, subject: str) -> MarkerArray:
    """Paths of the gripper and of the object that the task is about, a cross at each state as long as what isn't known.

    Args:
        trajectory: What is imagined.
        subject: Name of that object in the layout.
    """
    columns = {name: index for index, name in enumerate(trajectory.names)}
    shape = (trajectory.states, len(columns))
    values, deviations = (np.asarray(x).reshape(shape) for x in (trajectory.values, trajectory.deviations))
    markers = [Marker(header=trajectory.header, action=Marker.DELETEALL)]
    for name, prefix, colour in (
        ("gripper", "gripper_", _GRIPPER_COLOUR), (subject, f"{subject}.object_", outcome_colour(None)),
    ):  # fmt: skip
        where = [columns[f"{prefix}{axis}"] for axis in "xyz"]
        markers += _way(trajectory.header, f"imagined_{name}", values[:, where], deviations[:, where], colour)
    text = blank_marker(trajectory.header, "imagined_task", Marker.TEXT_VIEW_FACING)
    text.scale.z = 0.018
    first = values[0, [columns[f"gripper_{axis}"] for axis in "xyz"]]
    text.pose.position = point_message(first + np.array([0.0, 0.0, 0.05]))
    text.color = rgba(_GRIPPER_COLOUR)
    text.text = f"{trajectory.task}: return {trajectory.predicted_return:.2f} in {trajectory.states - 1} steps"
    return MarkerArray(markers=[*markers, text])


def _way(
    header: Header, name: str, places: np.ndarray, deviations: np.ndarray, colour: tuple[int, int, int]
) -> list[Marker]:
    """A line through places (n, 3), and crosses with arms of ``deviations`` (n, 3) metres at them."""
    line = blank_marker(header, name, Marker.LINE_STRIP)
    line.scale.x, line.color = _LINE, rgba(colour)
    line.points = [point_message(place) for place in places]
    crosses = blank_marker(header, f"{name}_uncertainty", Marker.LINE_LIST)
    crosses.color = rgba(colour)
    for place, deviation in zip(places[1:], np.maximum(deviations[1:], _LEAST_ARM), strict=True):
        for axis in np.eye(3):
            crosses.points += [point_message(place + sign * deviation * axis) for sign in (-1.0, 1.0)]
    return [line, crosses]


def _numbers(values: Tensor) -> array.array[float]:
    return array.array("d", values.detach().cpu().double().numpy().tobytes())
