"""Picking what lies too close to a wall or to another object, with and without pushes that make room before.

A scene is a carton with something beside it, 2 to 12 mm away: another carton, a wall that ends in the camera's view,
or a wall that doesn't. A pick has two attempts to grasp. Without pushes it ends where the planner finds no grasp. With
them, up to five pushes may be made before that; they are chosen at random among those that touch nothing else, or by
what skills expect of them: skills as theory has them, or skills that were developed in 50 runs on other cartons and
learn on. Both also with a worn gripper, which is not where it thinks; and how well they foretell what pushes do.

    python benchmarks/pregrasp.py --json benchmarks/results/pregrasp.json
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from keygrasp.cli.steps import StepBar
from keygrasp.errors import ImageError
from keygrasp.files import write_json
from keygrasp.grasps import GeometricPlanner
from keygrasp.perception import Perceived
from keygrasp.provenance import provenance
from keygrasp.scene import GripperSpec, TrialOutcome
from keygrasp.scene.pushes import PlanarPush
from keygrasp.skills.clutter import ClutterScene, ClutterSpec, Kind
from keygrasp.skills.manipulator import MOST_STROKE, ManipulatorSkills
from keygrasp.skills.parts import found_again
from keygrasp.skills.practice import Bench, SimulatedBench, practise
from keygrasp.skills.pregrasp import PushPlanner, possible

KINDS: tuple[Kind, ...] = ("pair", "wall", "long wall")
VARIANTS = ("no pushes", "random pushes", "theory", "learned")
ATTEMPTS, PUSHES, PRACTICE = 2, 5, 50
#: One push; returns what is seen afterwards, or nothing where none can be made.
Pusher = Callable[[Bench, Perceived, int], Perceived | None]


def pusher(variant: str, memory: bytes, rng: np.random.Generator) -> Pusher:
    if variant == "no pushes":
        return lambda bench, seen, tried: None
    if variant == "random pushes":

        def at_random(bench: Bench, seen: Perceived, tried: int) -> Perceived | None:
            shoves = possible(seen, bench.gripper)
            if not shoves:
                return None
            bench.push(shoves[int(rng.integers(len(shoves)))].motion(bench.gripper))
            return bench.look()

        return at_random
    skills = ManipulatorSkills(memory) if variant == "learned" else ManipulatorSkills(learns=False)
    planner = PushPlanner(skills, GripperSpec())

    def expected(bench: Bench, seen: Perceived, tried: int) -> Perceived | None:
        nonlocal planner
        if not tried:
            planner = PushPlanner(skills, bench.gripper)
        proposal = planner.choose(seen)
        if proposal is None:
            return None
        planner.made(proposal, completed=bench.push(proposal.motion).success)
        return bench.look()

    return expected


def pick(scene: ClutterScene, push: Pusher, on: Callable[[ClutterScene], Bench] = SimulatedBench) -> dict[str, Any]:
    bench, planner = on(scene), GeometricPlanner()
    result: dict[str, Any] = {"gap_mm": round(1e3 * scene.gap, 1), "pushes": 0, "attempts": 0, "outcome": "no_grasp"}
    began, clock = time.process_time(), scene.world.time
    try:
        seen: Perceived | None = bench.look()
        while seen is not None and result["attempts"] < ATTEMPTS:
            plan = planner.plan_perceived(seen, bench.gripper)
            if plan.grasp is not None:
                result["attempts"] += 1
                result["outcome"] = str(scene.robot.execute(plan.grasp).outcome)
                if result["outcome"] == "success":
                    break
                seen = bench.look()
            elif result["pushes"] < PUSHES:
                seen = push(bench, seen, result["pushes"])
                result["pushes"] += seen is not None
            else:
                break
    except ImageError:  # an arm or an object in the way of the table
        result["outcome"] = "no_image"
    return result | {"cpu_s": time.process_time() - began, "simulated_s": scene.world.time - clock}


class WornBench(SimulatedBench):
    """A gripper that isn't where it thinks: it begins 6 mm too far back and makes four fifths of each stroke."""

    def push(self, push: PlanarPush) -> TrialOutcome:
        """Push as a worn gripper does."""
        back = 0.006
        x, y = push.x - back * math.cos(push.direction), push.y - back * math.sin(push.direction)
        return super().push(dataclasses.replace(push, x=x, y=y, length=0.8 * push.length))


BENCHES: dict[str, Callable[[ClutterScene], Bench]] = {"as built": SimulatedBench, "worn": WornBench}


def practised(on: Callable[[ClutterScene], Bench]) -> tuple[bytes, list[tuple[str, float]]]:
    """What a gripper has learned in practice, and how its runs went."""
    skills = ManipulatorSkills()
    history = [(run.skill, round(run.fitness, 3)) for run in practise(skills, PRACTICE, on=on)]
    return skills.memory, history


def measure(scenes: int, first: int, robot: str) -> dict[str, Any]:
    figures: dict[str, Any] = {"errors": errors(2 * scenes, first), "practice": {}, "picks": {}}
    arms = [("as built", kind, variant) for kind in KINDS for variant in VARIANTS]
    arms += [("worn", kind, variant) for kind in KINDS for variant in VARIANTS[2:]]
    memories = {}
    for body, on in BENCHES.items():
        memories[body], figures["practice"][body] = practised(on)
    done = 0
    with StepBar("picks") as bar:
        for body, kind, variant in arms:
            rows = figures["picks"].setdefault(body, {}).setdefault(kind, {}).setdefault(variant, [])
            push = pusher(variant, memories[body], np.random.default_rng(first))
            for seed in range(first, first + scenes):
                with ClutterScene(ClutterSpec(kind, seed), robot) as scene:
                    rows.append(pick(scene, push, BENCHES[body]))
                done += 1
                bar.update(done, scenes * len(arms), {})
    return figures


def errors(scenes: int, first: int) -> dict[str, dict[str, dict[str, float]]]:
    """How well pushes on free cartons are foretold, by theory and after practice on the same gripper: RMS errors."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for body, on in BENCHES.items():
        memory, _ = practised(on)
        both = {"theory": ManipulatorSkills(learns=False), "learned": ManipulatorSkills(memory, learns=False)}
        missed: dict[str, list[tuple[float, float]]] = {name: [] for name in both}
        rng = np.random.default_rng(first)
        for seed in range(first, first + scenes):
            with ClutterScene(ClutterSpec("free", seed)) as scene:
                bench = on(scene)
                shoves = [shove for shove in possible(bench.look(), bench.gripper) if shove.stroke <= MOST_STROKE]
                shove = shoves[int(rng.integers(len(shoves)))]
                bench.push(shove.motion(bench.gripper))
                after = found_again(shove.part, both["learned"].expect(shove), bench.look())
                for name, known in both.items() if after is not None else ():
                    part = known.expect(shove)
                    travel = (np.array([after.x, after.y]) - [part.x, part.y]) @ shove.ahead
                    missed[name].append((1e3 * float(travel), math.degrees(after.turn_from(part))))
        figures[body] = {name: _root_mean_squares(pairs) for name, pairs in missed.items()}
    return figures


def _root_mean_squares(pairs: list[tuple[float, float]]) -> dict[str, float]:
    travel, turn = np.sqrt(np.mean(np.square(pairs), axis=0))
    return {"travel_mm": float(travel), "turn_degrees": float(turn), "pushes": len(pairs)}


def show(figures: dict[str, Any]) -> None:
    console = Console()
    table = Table("gripper", "pushes", *KINDS, "pushes a pick", "CPU a pick")
    for body, kinds in figures["picks"].items():
        for variant in next(iter(kinds.values())):
            rows = [kinds[kind][variant] for kind in KINDS]
            everything = [row for each in rows for row in each]
            counts = [f"{sum(row['outcome'] == 'success' for row in each)} of {len(each)}" for each in rows]
            pushes = np.mean([row["pushes"] for row in everything])
            cpu = np.mean([row["cpu_s"] for row in everything])
            table.add_row(body, variant, *counts, f"{pushes:.1f}", f"{cpu:.2f} s")
    console.print(table)
    table = Table("gripper", "foretold by", "travel", "turn")
    for body, rows in figures["errors"].items():
        for name, row in rows.items():
            table.add_row(body, name, f"{row['travel_mm']:.1f} mm RMS", f"{row['turn_degrees']:.1f}° RMS")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=40, help="of each kind")
    parser.add_argument("--first-seed", type=int, default=1000, help="the constants were set on 0 to 23")
    parser.add_argument("--robot", choices=("gripper", "ur5"), default="gripper")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = measure(arguments.scenes, arguments.first_seed, arguments.robot)
    show(figures)
    if arguments.json:
        write_json(
            arguments.json, {**figures, "robot": arguments.robot, "provenance": provenance(arguments.first_seed)}
        )


if __name__ == "__main__":
    main()
