"""Trials a second on one core: drop and settle, image, plan (reference), execute, by robot.

Each part is timed as wall-clock time and as processor time of this process; the latter is what one core would need if
nothing else ran on the machine.

    OMP_NUM_THREADS=1 python benchmarks/trials.py --objects 60 --json benchmarks/results/trials.json
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from keygrasp.files import write_json
from keygrasp.objects import Catalog
from keygrasp.protocol import ReferencePlanner, build_scene
from keygrasp.provenance import provenance
from keygrasp.trials import TrialsConfig
from keygrasp.trials.worker import limit_threads

_PARTS = ("build", "plan", "execute")


def measure(robot: str, objects: int, seed: int) -> dict[str, Any]:
    planner = ReferencePlanner()
    wall: dict[str, list[float]] = defaultdict(list)
    core: dict[str, list[float]] = defaultdict(list)
    successes = executed = 0
    specs = TrialsConfig(objects=objects, split="validation", seed=seed).scenes()
    for spec in specs:
        Catalog().prepare(spec.object_name, spec.rule)  # preparing an object is done once and cached
        clocks = [(time.perf_counter(), time.process_time())]
        with build_scene(spec, robot) as scene:
            clocks.append((time.perf_counter(), time.process_time()))
            plan = planner.plan(scene.view, scene.robot.gripper, rng=np.random.default_rng(0))
            clocks.append((time.perf_counter(), time.process_time()))
            if plan.grasp is not None:
                executed += 1
                successes += scene.execute(plan.grasp).success
            clocks.append((time.perf_counter(), time.process_time()))
        for part, before, after in zip(_PARTS, clocks[:-1], clocks[1:], strict=True):
            wall[part].append(after[0] - before[0])
            core[part].append(after[1] - before[1])
    return {
        "scenes": len(specs),
        "executed": executed,
        "successes": successes,
        "trials_per_second_wall": len(specs) / sum(map(sum, wall.values())),
        "trials_per_second_core": len(specs) / sum(map(sum, core.values())),
        "mean_core_ms": {part: 1e3 * float(np.mean(core[part])) for part in _PARTS},
        "mean_wall_ms": {part: 1e3 * float(np.mean(wall[part])) for part in _PARTS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=60, help="validation objects, one scene each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    limit_threads()
    load_before = os.getloadavg()[0]
    figures = {robot: measure(robot, arguments.objects, arguments.seed) for robot in ("gripper", "ur5", "delta")}
    print(
        f"{'robot':8} {'trials/s core':>14} {'wall':>7}   " + "  ".join(f"{part:>8}" for part in _PARTS) + "  (core ms)"
    )
    for robot, found in figures.items():
        parts = "  ".join(f"{found['mean_core_ms'][part]:8.1f}" for part in _PARTS)
        print(f"{robot:8} {found['trials_per_second_core']:14.2f} {found['trials_per_second_wall']:7.2f}   {parts}")
    if arguments.json:
        load = {"before": load_before, "after": os.getloadavg()[0]}
        write_json(arguments.json, {"robots": figures, "load_average": load, "provenance": provenance(arguments.seed)})


if __name__ == "__main__":
    main()
