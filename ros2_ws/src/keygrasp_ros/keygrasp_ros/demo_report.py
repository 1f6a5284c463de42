"""The demo's page: each pick with what the camera saw, what was planned, and the arm."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import numpy as np
from keygrasp_interfaces.msg import PickRecord

from keygrasp.extras import require
from keygrasp.files import write_text
from keygrasp.scene import GripperSpec
from keygrasp.trials.drawing import SceneDrawing, draw_scene
from keygrasp.trials.drawing_canvas import encode_png
from keygrasp_ros.conversions import outcome_of, plan_of
from keygrasp_ros.scene_conversions import scene_of


@dataclass(frozen=True)
class DemoPick:
    """One pick as the page shows it and the JSON file holds it.

    Attributes:
        object_name: The object.
        seed: Seed of its pose and image.
        outcome: How it ended.
        message: Why, in one sentence.
        success: Whether it was lifted and held.
        warning: Why the grasp was not refined although it should have been; empty otherwise.
        planner: Who planned the grasp.
        probability: Success probability that the planner stated, if it did.
        steps: Refinement steps.
        candidates: Grasps that the generator proposed.
        stages: Stages that were reported, in order.
        seconds: Wall-clock seconds from goal to result.
        planning_ms: Milliseconds by stage of planning.
        pictures: PNG files by name: from above, and of the arm.
    """

    object_name: str
    seed: int
    outcome: str
    message: str
    success: bool
    warning: str
    planner: str
    probability: float | None
    steps: int
    candidates: int
    stages: tuple[str, ...]
    seconds: float
    planning_ms: dict[str, float]
    pictures: dict[str, bytes] = field(default_factory=dict, repr=False)


def pictures_of(record: PickRecord | None, arm: np.ndarray | None) -> dict[str, bytes]:
    """PNG pictures of a pick: the scene from above with everything that was planned, and the arm."""
    pictures = {}
    if record is not None and record.scene.height_map.rows:
        perceived, plan = scene_of(record.scene), plan_of(record.plan)
        index = min(record.plan.object_index, max(0, len(perceived.segments) - 1))
        drawing = SceneDrawing(
            height_map=perceived.height_map,
            segment=perceived.segments[index] if perceived.segments else None,
            keypoints=perceived.keypoints[index] if perceived.keypoints else None,
            candidates=plan.candidates,
            path=plan.path,
            grasp=plan.grasp,
            gripper=GripperSpec(),
            outcome=outcome_of(record.outcome).outcome,
        )
        pictures["from above"] = encode_png(draw_scene(drawing))
    if arm is not None:
        pictures["the arm"] = encode_png(arm)
    return pictures


def write_page(path: Path, picks: Sequence[DemoPick], setting: dict[str, str]) -> None:
    """Write the page: one HTML file that needs nothing else.

    Raises:
        StorageError: If it can't be written.
    """
    jinja2 = require("jinja2", "grasp")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keygrasp_ros"), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters["data_url"] = lambda png: "data:image/png;base64," + base64.b64encode(png).decode("ascii")
    style = resources.files("keygrasp.trials").joinpath("templates/report.css").read_text(encoding="utf-8")
    template = environment.get_template("demo.html.j2")
    markup = require("markupsafe", "grasp").Markup
    write_text(path, template.render(picks=picks, setting=setting, style=markup(style)))
