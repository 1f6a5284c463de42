"""How often the free gripper gives the same verdict as the UR5: same scenes, same images, same grasps.

python benchmarks/agreement.py --poses 2 --json benchmarks/results/agreement.json
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from keygrasp.files import write_json
from keygrasp.protocol.statistics import bootstrap_interval
from keygrasp.provenance import provenance
from keygrasp.scene import Outcome
from keygrasp.trials import Results, TrialsConfig, planner_spec, run_trials

_PLANNERS = ("reference", "random")


def run(robot: str, arguments: argparse.Namespace) -> Results:
    config = TrialsConfig(
        planners=tuple(planner_spec(name) for name in _PLANNERS),
        objects=arguments.objects,
        poses=arguments.poses,
        split="validation",
        robot=robot,
        seed=arguments.seed,
        up_to=1,
        robust=False,
        workers=arguments.workers,
    )
    journal = arguments.journals / f"{robot}.jsonl" if arguments.journals else None
    return run_trials(config, lambda p: print(f"\r{robot}: {p.done}/{p.total}", end="", flush=True), journal=journal)


def compare(gripper: Results, arm: Results) -> dict[str, Any]:
    others = {(record.scene, record.planner): record for record in arm.records}
    same, objects, table = [], [], Counter()
    unreachable = different_grasps = 0
    for record in gripper.records:
        other = others[record.scene, record.planner]
        if record.first.grasp is None:
            continue
        if record.first.grasp != other.first.grasp:  # the code changed between the runs: no comparison
            different_grasps += 1
            continue
        unreachable += other.first.outcome == Outcome.UNREACHABLE
        same.append(record.single_shot == other.single_shot)
        objects.append(record.object_name)
        table[f"{record.first.outcome} / {other.first.outcome}"] += 1
    return {
        "agree": sum(same),
        "trials": len(same),
        "rate": sum(same) / len(same),
        "interval": list(bootstrap_interval(same, objects)),
        "unreachable_by_the_arm": unreachable,
        "left_out_for_different_grasps": different_grasps,
        "outcomes_gripper_then_ur5": dict(table.most_common()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=100, help="validation objects")
    parser.add_argument("--poses", type=int, default=2, help="scenes with each; two grasps a scene")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes; 0 means one a core")
    parser.add_argument("--journals", type=Path, help="folder that keeps what is done, to resume")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = compare(run("gripper", arguments), run("ur5", arguments))
    print(f"\nsame verdict: {figures['agree']} of {figures['trials']} = {figures['rate']:.1%}, ", end="")
    print("95% interval {:.1%} to {:.1%}".format(*figures["interval"]))
    for pair, count in figures["outcomes_gripper_then_ur5"].items():
        print(f"{count:5d}  {pair}")
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance(arguments.seed)})


if __name__ == "__main__":
    main()
