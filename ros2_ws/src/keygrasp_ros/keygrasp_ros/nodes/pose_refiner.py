"""Node: candidate grasps → one refined grasp, with the steps that lead to it and a success probability."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.node import Node

from keygrasp.errors import InputError, KeygraspError
from keygrasp.refine.network import default_weights
from keygrasp.refine.refiner import Refiner, RefinerConfig, single_thread
from keygrasp.scene import GripperSpec
from keygrasp_ros.conversions import plan_message, plan_of
from keygrasp_ros.delta_reach import REACH, reach_of
from keygrasp_ros.diagnostics import Monitor
from keygrasp_ros.lifelines import offer
from keygrasp_ros.local_services import serve
from keygrasp_ros.markers import path_markers, poses
from keygrasp_ros.mirrors import Mirror
from keygrasp_ros.parameters import GRIPPER, SEED, Parameter, fill, from_dataclass, reader
from keygrasp_ros.running import node_main
from keygrasp_ros.steps import PERCEPTION, Perceiver, answering, check_frame
from keygrasp_ros.topics import REFINE, REFINED, REFINED_MARKERS, REFINED_POSES

PARAMETERS = (
    Parameter("weights", "", "Path of the refiner's weights (safetensors); empty for those that ship with keygrasp."),
    Parameter("outcome_weights", "", "Path of an outcome model that has a say in the ranking; empty for none."),
    SEED,
    *PERCEPTION,
    *GRIPPER,
    *REACH,
    *from_dataclass("refiner", RefinerConfig),
)


class PoseRefiner(Node):
    """Answers ``refine_grasp`` and publishes what it finds; without weights each answer says so."""

    def __init__(self, **options: Any) -> None:
        super().__init__("pose_refiner", **options)
        read = reader(self, PARAMETERS)
        self._seed: int = read("seed")
        self._monitor = Monitor(self)
        self._perceiver = Perceiver(self, read)
        self._reach = reach_of(read, self._perceiver)
        self._gripper = fill(read, "gripper", GripperSpec)
        self._missing = ""
        self._refiner = self._load(read("weights"), fill(read, "refiner", RefinerConfig), read("outcome_weights"))
        self._plans, self._poses, self._markers = (
            Mirror(self, topic) for topic in (REFINED, REFINED_POSES, REFINED_MARKERS)
        )
        self._lifeline = offer(self, REFINE)
        serve(self, REFINE, self._answer)

    def _load(self, weights: str, config: RefinerConfig, outcomes: str) -> Refiner | None:
        single_thread()
        named = Path(outcomes) if outcomes else None
        try:
            return Refiner.load(Path(weights) if weights else default_weights(), config, named)
        except KeygraspError as error:
            if weights or outcomes or config.asks_outcomes:  # starting without what was named would hide a mistake
                raise
            self._missing = str(error)
            self.get_logger().warning(f"no refinement: {error}")
            return None

    def _answer(self, request: REFINE.type.Request, response: REFINE.type.Response) -> REFINE.type.Response:
        with answering(response, self._monitor):
            if self._refiner is None:
                raise InputError(self._missing)
            perceived, header = self._perceiver.take(request.scene, request.depth, request.camera_info)
            check_frame(request.plan.header, self._perceiver.workspace_frame, "plan")
            index = request.plan.object_index
            if index >= len(perceived.segments):
                raise InputError(f"there is no object {index}: {len(perceived.segments)} object(s) are seen")
            given = plan_of(request.plan)
            # A fresh generator for each request: the same image gives the same answer, however often it is asked.
            rng = np.random.default_rng(self._seed)
            start = time.perf_counter()
            plan = self._refiner.refine(perceived, index, given.candidates, self._gripper, rng=rng, reach=self._reach())
            refine_ms = (time.perf_counter() - start) * 1e3
            plan = replace(plan, timings_ms={**given.timings_ms, **plan.timings_ms, "refine": refine_ms})
            response.plan = plan_message(plan, header, "refined", index)
            self._plans.show(lambda: response.plan)
            self._poses.show(lambda: poses(plan.path, header))
            self._markers.show(lambda: path_markers(plan.path, plan.grasp, self._gripper, header))
        return response


def main() -> int:
    """Run the node."""
    return node_main(PoseRefiner)
