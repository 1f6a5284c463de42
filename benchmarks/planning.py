"""Image → refined grasp on one core, by stage: perceive, generate, refine.

Each stage is timed as wall-clock time and as processor time of this process; the latter is what one core would need if
nothing else ran on the machine. ``random`` (96 random feasible grasps) is a part of ``refine`` and is timed once more
by itself.

    OMP_NUM_THREADS=1 python benchmarks/planning.py --scenes 100 --json benchmarks/results/planning.json
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from keygrasp.files import write_json
from keygrasp.grasps import GraspGenerator, random_feasible
from keygrasp.perception import perceive
from keygrasp.protocol import build_scene
from keygrasp.provenance import provenance
from keygrasp.refine.network import default_weights
from keygrasp.refine.planners import build
from keygrasp.refine.refiner import Refiner
from keygrasp.scene import GripperSpec, OverheadView, Planner
from keygrasp.trials import TrialsConfig
from keygrasp.trials.worker import limit_threads

_STAGES = ("perceive", "generate", "refine", "image to grasp", "random")
_RANDOM = 96
_T = TypeVar("_T")


class Stopwatch:
    """Milliseconds of the latest image by stage and clock."""

    def __init__(self) -> None:
        self.laps: dict[str, dict[str, float]] = {"cpu": {}, "wall": {}}

    def time(self, stage: str, work: Callable[[], _T]) -> _T:
        """Do one stage's work and keep its times."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.laps["cpu"][stage] = (time.process_time() - cpu) * 1e3
        self.laps["wall"][stage] = (time.perf_counter() - wall) * 1e3
        return result


def plan_once(view: OverheadView, refiner: Refiner, planner: Planner, seed: int) -> Stopwatch | None:
    """Time the stages on one image; ``None`` where it shows no object."""
    watch, gripper = Stopwatch(), GripperSpec()
    perceived = watch.time("perceive", lambda: perceive(view))
    if not perceived.segments:
        return None
    plan = watch.time("generate", lambda: GraspGenerator().generate(perceived, 0, gripper))
    rng = np.random.default_rng(seed)
    watch.time("refine", lambda: refiner.refine(perceived, 0, plan.candidates, gripper, rng=rng))
    watch.time("random", lambda: random_feasible(perceived, 0, gripper, np.random.default_rng(seed), _RANDOM))
    # The product itself, as trials and nodes call it.
    watch.time("image to grasp", lambda: planner.plan(view, gripper, rng=np.random.default_rng(seed)))
    return watch


def measure(scenes: int, repeats: int, seed: int) -> dict[str, Any]:
    refiner, planner = Refiner.load(default_weights()), build("refined")
    samples: dict[str, dict[str, list[float]]] = {clock: defaultdict(list) for clock in ("cpu", "wall")}
    images, warm = 0, False
    for spec in TrialsConfig(objects=scenes, split="validation", seed=seed).scenes()[:scenes]:
        with build_scene(spec) as scene:
            view = scene.view
        if not warm:  # the first image also pays for imports and caches
            warm = True
            plan_once(view, refiner, planner, seed)
        watches = [w for w in (plan_once(view, refiner, planner, seed) for _ in range(repeats)) if w]
        images += bool(watches)
        for watch in watches:
            for clock, laps in watch.laps.items():
                for stage, value in laps.items():
                    samples[clock][stage].append(value)
    return {
        "images": images,
        "repeats": repeats,
        "milliseconds": {
            clock: {stage: _quantiles(by_stage[stage]) for stage in _STAGES} for clock, by_stage in samples.items()
        },
    }


def _quantiles(values: list[float]) -> dict[str, float]:
    return {"p50": float(np.quantile(values, 0.5)), "p99": float(np.quantile(values, 0.99))}


def show(figures: dict[str, Any]) -> None:
    table = Table(title=f"Milliseconds on one core, {figures['images']} images × {figures['repeats']}")
    table.add_column("stage")
    for column in ("CPU p50", "CPU p99", "wall p50", "wall p99"):
        table.add_column(column, justify="right")
    for stage in _STAGES:
        cells = [figures["milliseconds"][c][stage][q] for c in ("cpu", "wall") for q in ("p50", "p99")]
        table.add_row(stage, *(f"{value:.1f}" for value in cells))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=100, help="validation scenes")
    parser.add_argument("--repeats", type=int, default=3, help="timings of each image")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    limit_threads()
    figures = measure(arguments.scenes, arguments.repeats, arguments.seed)
    show(figures)
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance(arguments.seed)})


if __name__ == "__main__":
    main()
