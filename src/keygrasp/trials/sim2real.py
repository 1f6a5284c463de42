"""What may differ between simulation and a real Delta, one thing at a time: which conditions there are, and their runs.

Each scene is planned on once. The same refined grasp is then executed by the Delta's twin, by the UR5, and by the twin
under each condition; with another camera it is planned anew on that camera's image. So all figures are paired.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keygrasp
from keygrasp.errors import ConfigurationError
from keygrasp.protocol import PROTOCOL
from keygrasp.provenance import provenance
from keygrasp.trials.config import SplitName, TrialsConfig
from keygrasp.trials.journal import Journal
from keygrasp.trials.planners import PlannerSpec, planner_spec
from keygrasp.trials.pool import run_tasks

Json = dict[str, Any]

_HANDLER = "keygrasp.trials.sim2real_worker:build"
#: The condition without any difference, and the other robot.
DELTA, UR5 = "delta", "ur5"


@dataclass(frozen=True)
class Condition:
    """One difference from the protocol, for the Delta's twin.

    Attributes:
        name: Under which it is reported.
        group: What kind of difference it is.
        camera: Class of the camera whose image is planned on; empty for the protocol's.
        position: Metres by which the robot stands elsewhere than believed, in a random direction.
        turn: Radians by which it is turned, about a random axis through the workspace's centre.
        friction: Contact friction.
        mass: Factor of the object's mass.
        latency: Seconds by which motion follows commands.
        backlash: Radians of play of each motor.
    """

    name: str
    group: str
    camera: str = ""
    position: float = 0.0
    turn: float = 0.0
    friction: float = PROTOCOL.friction
    mass: float = 1.0
    latency: float = 0.0
    backlash: float = 0.0


_DEGREE = math.radians(1.0)
CONDITIONS = (
    Condition("kinect class", "camera", camera="kinect"),
    Condition("realsense class", "camera", camera="realsense"),
    Condition("5 mm off", "calibration", position=0.005),
    Condition("2° off", "calibration", turn=2 * _DEGREE),
    Condition("5 mm and 2° off", "calibration", position=0.005, turn=2 * _DEGREE),
    Condition("friction 0.3", "friction", friction=0.3),
    Condition("friction 0.4", "friction", friction=0.4),
    Condition("friction 0.8", "friction", friction=0.8),
    Condition("mass × 0.5", "mass", mass=0.5),
    Condition("mass × 2", "mass", mass=2.0),
    Condition("50 ms late", "latency", latency=0.05),
    Condition("100 ms late", "latency", latency=0.10),
    Condition("0.5° of play", "backlash", backlash=0.5 * _DEGREE),
    Condition("1° of play", "backlash", backlash=1.0 * _DEGREE),
    Condition(
        "all at once", "together", camera="realsense", position=0.002, turn=0.5 * _DEGREE, friction=0.4,
        latency=0.05, backlash=0.5 * _DEGREE,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Sim2RealConfig:
    """One run of the checks.

    Attributes:
        objects: Test objects on which the reference is tried; its tail is executed by both robots.
        factors: On how many of the objects, evenly spread, grasps are executed under every condition too.
        poses: Scenes with each object.
        split: Which objects.
        seed: Evaluation seed.
        planner: Whose grasps are executed.
        workers: Worker processes; 0 means one a core.
        timeout_s: A scene that takes longer in seconds counts as hung.
    """

    objects: int = 300
    factors: int = 40
    poses: int = 1
    split: SplitName = "test"
    seed: int = 0
    planner: PlannerSpec = field(default_factory=lambda: planner_spec("refined"))
    workers: int = 0
    timeout_s: float = 1200.0

    def __post_init__(self) -> None:
        if not 0 <= self.factors <= self.objects:
            raise ConfigurationError(f"sim2real: factors must lie in 0–{self.objects}, not {self.factors}")
        self.trials()  # checks the rest

    def trials(self) -> TrialsConfig:
        """The same as trials, which know the scenes."""
        return TrialsConfig(
            objects=self.objects,
            poses=self.poses,
            split=self.split,
            seed=self.seed,
            workers=self.workers,
            timeout_s=self.timeout_s,
        )

    def has_factors(self, scene: int) -> bool:
        """Whether a scene's grasp is executed under every condition."""
        return scene % self.objects * self.factors % self.objects < self.factors

    def identity(self) -> Json:
        """All that results depend on, JSON-ready."""
        return {
            "protocol": PROTOCOL.name,
            "version": keygrasp.__version__,
            "objects": self.objects,
            "factors": self.factors,
            "poses": self.poses,
            "split": self.split,
            "seed": self.seed,
            "planner": self.planner.fingerprint(),
            "conditions": [dataclasses.asdict(condition) for condition in CONDITIONS],
        }


@dataclass(frozen=True)
class SceneResult:
    """What came of one scene.

    Attributes:
        scene: Index of the scene.
        object_name: The object.
        tail: Whether the reference found nothing or failed with the UR5.
        outcomes: How each execution ended, by condition (``delta`` and ``ur5`` are those of the protocol); empty where
            the scene was not executed further.
        message: What the Delta's execution said.
        within_reach: Which models could make the planned grasp, by name.
        fault: Why the scene could not be done.
    """

    scene: int
    object_name: str
    tail: bool = False
    outcomes: dict[str, str] = field(default_factory=dict)
    message: str = ""
    within_reach: dict[str, bool] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True)
class Sim2RealResults:
    """What a run found.

    Attributes:
        config: What was asked.
        scenes: Results of the finished scenes, by index.
        provenance: Machine, versions, command, seed and date.
        wall_s: Seconds that this run took.
    """

    config: Sim2RealConfig
    scenes: tuple[SceneResult, ...]
    provenance: Json
    wall_s: float


def run_sim2real(
    config: Sim2RealConfig,
    on_progress: Callable[[int, int, SceneResult | None], None] | None = None,
    *,
    journal: Path,
) -> Sim2RealResults:
    """Run the checks over worker processes; goes on where the journal ends.

    Args:
        config: What to do.
        on_progress: Called with the numbers of finished and of all scenes, and the newest result.
        journal: Keeps every finished scene.

    Raises:
        KeyboardInterrupt: On Ctrl-C; what is in the journal stays.
        ConfigurationError: If the journal is of another configuration.
    """
    start = time.perf_counter()
    scenes = config.trials().scenes()
    setup = {"planner": dataclasses.asdict(config.planner)}
    with Journal(journal, config.identity()) as book:
        done = {record["scene"]: SceneResult(**record) for record in book.records}
        missing = [index for index in range(len(scenes)) if index not in done]
        tasks = [
            {"scene": index, "spec": dataclasses.asdict(scenes[index]), "factors": config.has_factors(index)}
            for index in missing
        ]
        if on_progress is not None:
            on_progress(len(done), len(scenes), None)
        workers = config.workers or len(os.sched_getaffinity(0))
        with closing(run_tasks(_HANDLER, setup, tasks, workers=workers, timeout_s=config.timeout_s)) as ends:
            for end in ends:
                index = missing[end.index]
                result = SceneResult(
                    **(end.result or {"scene": index, "object_name": scenes[index].object_name, "fault": end.problem})
                )
                book.append([dataclasses.asdict(result)])
                done[index] = result
                if on_progress is not None:
                    on_progress(len(done), len(scenes), result)
    return collected(config, done.values(), time.perf_counter() - start)


def read_results(config: Sim2RealConfig, journal: Path) -> Sim2RealResults:
    """What a journal holds, after a run was stopped."""
    with Journal(journal, config.identity()) as book:
        return collected(config, [SceneResult(**record) for record in book.records], 0.0)


def collected(config: Sim2RealConfig, scenes: Any, wall_s: float) -> Sim2RealResults:
    """Results in the order of their scenes."""
    ordered = tuple(sorted(scenes, key=lambda result: result.scene))
    return Sim2RealResults(config, ordered, provenance(config.seed), wall_s)
