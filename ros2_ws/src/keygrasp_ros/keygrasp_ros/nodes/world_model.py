"""Node: what would happen: outcomes of grasps, and the way that a task's plan would take, without moving anything.

A lifecycle node, for it owns two models: configuring loads them, cleaning up lets go of them. It is no part of the
standard graph: ``keygrasp up sim --with world_model``, the launch files' argument ``world_model:=true`` or ``ros2 run
keygrasp_ros world_model`` adds it. Weights that nobody named may be missing: the node then runs, and its diagnostics
and answers say which command makes them. While somebody listens to ``world_model/imagined`` or its markers, the task is
planned for from the newest state on ``symbols``, ``rate`` times a second at most.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from keygrasp_interfaces import msg
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from std_msgs.msg import String

from keygrasp.errors import InputError, KeygraspError
from keygrasp.grasps import grasp_array
from keygrasp.refine.outcomes import OutcomePredictor, default_outcomes
from keygrasp.scene import GripperSpec
from keygrasp.worldmodel.loading import default_model, load_model
from keygrasp.worldmodel.model import WorldModel
from keygrasp.worldmodel.planner import Planner, PlannerConfig
from keygrasp.worldmodel.task_files import FileTask, shipped_task, shipped_tasks, task_of_text
from keygrasp_ros.conversions import grasp_of
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.lifecycle import OwningNode
from keygrasp_ros.mirrors import Mirror
from keygrasp_ros.parameters import AUTOSTART, GRIPPER, SEED, Parameter, fill, from_dataclass, reader
from keygrasp_ros.running import node_main
from keygrasp_ros.steps import PERCEPTION, Perceiver, answering, check_frame
from keygrasp_ros.topics import IMAGINED, IMAGINED_MARKERS, PICK_TASK, PREDICT, SET_TASK, SYMBOLS
from keygrasp_ros.world_model_messages import prediction_messages, trajectory_markers, trajectory_message
from keygrasp_ros.world_model_states import Situation, Situations, subject_of

T = TypeVar("T")
#: Most grasps of one request.
_MOST_GRASPS = 1024
PARAMETERS = (
    Parameter("weights", "", "Path of a model over symbols (safetensors); empty for the one that ships."),
    Parameter("outcome_weights", "", "Path of the outcome model (safetensors); empty for the one that ships."),
    Parameter("task", "reach_blue", "Task until one is set.", choices=shipped_tasks()),
    Parameter("rate", 1.0, "Plans a second at most, while somebody listens.", 0.05, 10.0),
    AUTOSTART,
    SEED,
    *PERCEPTION,
    *GRIPPER,
    *from_dataclass("planner", PlannerConfig),
)


class WorldModelNode(OwningNode):
    """Owns the models."""

    def __init__(self, **options: Any) -> None:
        super().__init__("world_model", **options)
        self._read = reader(self, PARAMETERS)
        self._model: WorldModel | None = None
        self._outcomes: OutcomePredictor | None = None
        self._planner: Planner | None = None
        self._situations: Situations | None = None
        self._lacks: dict[str, str] = {}
        self._active = False
        self._planned_for: Situation | None = None
        self._task: FileTask = shipped_task(self._read("task"))
        self._lock = threading.Lock()
        self._monitor = Monitor(self, lambda: tuple(self._lacks.values()), details=lambda: {"task": self._task.name})
        self._perceiver = Perceiver(self, self._read)
        self._gripper = fill(self._read, "gripper", GripperSpec)
        self._config = fill(self._read, "planner", PlannerConfig)
        self._imagined, self._markers = Mirror(self, IMAGINED), Mirror(self, IMAGINED_MARKERS)
        group = ReentrantCallbackGroup()
        self.create_subscription(SYMBOLS.type, SYMBOLS.name, self._on_state, SYMBOLS.qos, callback_group=group)
        self.create_subscription(PICK_TASK.type, PICK_TASK.name, self._on_pick, PICK_TASK.qos, callback_group=group)
        self.create_service(SET_TASK.type, SET_TASK.name, self._set_task, callback_group=group)
        self.create_service(PREDICT.type, PREDICT.name, self._predict, callback_group=group)
        self.create_timer(1 / self._read("rate"), self._imagine, callback_group=MutuallyExclusiveCallbackGroup())
        if self._read("autostart"):
            self.start("the world model's node")

    # Lifecycle

    def _set_up(self) -> None:
        """Load both models; what nobody named may be missing."""
        torch.set_num_threads(1)
        self._model = self._load("weights", load_model, default_model)
        self._outcomes = self._load("outcome_weights", OutcomePredictor.load, default_outcomes)
        if self._model is not None:
            self._situations = Situations(self._model.layout)
            self._take(dataclasses.replace(self._task, layout=self._model.layout))

    def _load(self, name: str, load: Callable[[Path], T], default: Callable[[], Path]) -> T | None:
        given = self._read(name)
        self._lacks.pop(name, None)
        try:
            return load(Path(given) if given else default())
        except KeygraspError as error:
            if given:  # somebody named this file: starting without it would hide the mistake
                raise
            self._lacks[name] = f"'{name}' ({error})"
            self.get_logger().warning(str(error))
            return None

    def _begin(self) -> None:
        self._active = True

    def _come_to_rest(self) -> None:
        self._active = False

    def _put_away(self) -> None:
        with self._lock:
            self._model = self._outcomes = self._planner = self._situations = None

    # Tasks

    def _take(self, task: FileTask) -> None:
        """Plan for a task from now on."""
        with self._lock:
            self._task, self._planned_for = task, None
            if self._model is not None:
                self._planner = Planner(self._model, task, self._config, self._read("seed"))

    def _set_task(self, request: SET_TASK.type.Request, response: SET_TASK.type.Response) -> SET_TASK.type.Response:
        with answering(response, self._monitor):
            layout = self._task.layout
            self._take(task_of_text(request.text, layout) if request.text else shipped_task(request.name, layout))
            self.get_logger().info(f"task: {self._task.name}")
        response.task, response.description = self._task.name, self._task.text
        return response

    def _on_pick(self, message: String) -> None:
        if message.data in shipped_tasks():  # a pick's task may be any name; those that are known here are taken over
            self._take(shipped_task(message.data, self._task.layout))

    # Grasps

    def _predict(self, request: PREDICT.type.Request, response: PREDICT.type.Response) -> PREDICT.type.Response:
        with answering(response, self._monitor):
            outcomes = self._working(self._outcomes, "outcome_weights")
            if len(request.grasps) > _MOST_GRASPS:
                raise InputError(f"{len(request.grasps)} grasps are too many", f"Ask for at most {_MOST_GRASPS}")
            check_frame(request.header, self._perceiver.workspace_frame, "grasps")
            grasps = [grasp_of(grasp) for grasp in request.grasps]
            perceived, _ = self._perceiver.take(request.scene, request.depth, request.camera_info)
            if grasps:
                expected = outcomes(perceived, request.object_index, grasp_array(grasps), self._gripper)
                response.predictions = prediction_messages(grasps, expected)
        return response

    def _working(self, model: T | None, name: str) -> T:
        if not self._active or model is None:
            raise InputError(f"no model: {self._lacks[name]}" if name in self._lacks else "the node is not active")
        return model

    # Imagination

    def _on_state(self, message: msg.SymbolicState) -> None:
        situations = self._situations
        if not self._active or situations is None:
            return
        try:
            check_frame(message.header, self._perceiver.workspace_frame, "symbolic state")
            situations.see(message)
        except KeygraspError as error:
            self._monitor.fault(f"state not used: {error}")

    def _imagine(self) -> None:
        """Plan from the newest state, where there is one that was not planned from, and somebody looks."""
        if not self._active or not (self._imagined.has_listeners or self._markers.has_listeners):
            return
        with self._lock:
            planner, situations, task = self._planner, self._situations, self._task
            now = situations.now(task) if situations is not None else None
            before = self._planned_for
            if planner is None or now is None or (before is not None and before.header == now.header):
                return
            self._planned_for = now
        with self._monitor.timed():
            start = time.perf_counter()
            belief = planner.model.start(torch.as_tensor(now.row, dtype=torch.float32)[None])
            plan = planner.plan(belief)
            rewards = task.reward(plan.symbols[:-1], plan.actions, plan.symbols[1:])
            took = (time.perf_counter() - start) * 1e3
            told = trajectory_message(plan, rewards, task.layout, now.header, task.name, took)
            told.episode = now.episode
        self._imagined.show(lambda: told)
        self._markers.show(lambda: trajectory_markers(told, subject_of(task)))


def main() -> int:
    """Run the node."""
    return node_main(WorldModelNode)
