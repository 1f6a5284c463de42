"""Development on simulated robots: acquisition, quality of the patterns, recovery, and other ways to choose and learn.

Each seed is another robot (body and noise) and another learner. Acquisition is the simulated time until a skill first
reaches a fitness of 0.95. Quality is measured on the true path of five runs of each pattern with frozen memory, after
15 minutes. Recovery is the time from a change of the body until each skill has reached 0.95 again.

    python benchmarks/skills.py --first-seed 100 --json benchmarks/results/skills.json --plot docs/images/skills.svg
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from keygrasp.cli.steps import StepBar
from keygrasp.files import write_json, write_text
from keygrasp.provenance import provenance
from keygrasp.shaping.charts import Curve, learning_chart
from keygrasp.skills.core import BASE_SKILLS, PATTERNS, SKILLS, Agent
from keygrasp.skills.development import (
    acquisition,
    develop,
    longest_neglect,
    quality,
    selection_entropy,
    time_to_all,
)
from keygrasp.skills.millirobot import Millirobot

LIFE_S, RECOVERY_S = 900.0, 600.0
#: Name, strategy, learner; the last is the paper's.
VARIANTS = (
    ("this learner", "motivated", "regression"),
    ("random choice", "random", "regression"),
    ("fixed order", "fixed", "regression"),
    ("progress only", "progress", "regression"),
    ("annealing", "motivated", "annealing"),
)
CHANGES = ("load 380 g", "left motor -30%", "right motor -30%")


def finite(value: float) -> float | None:
    return round(value, 2) if math.isfinite(value) else None


def life(seed: int, strategy: str, learner: str) -> tuple[Agent, Millirobot, dict[str, Any]]:
    agent, robot = Agent(seed + 1, strategy=strategy, learner=learner), Millirobot(seed)
    runs = develop(agent, robot, LIFE_S)
    reached = acquisition(runs)
    figures = {
        "reached_s": {name: finite(reached.get(name, math.inf)) for name in SKILLS},
        "base_s": finite(time_to_all(reached, BASE_SKILLS)),
        "all_s": finite(time_to_all(reached, SKILLS)),
        "entropy": selection_entropy(runs),
        "longest_neglect_s": longest_neglect(runs, LIFE_S),
    }
    return agent, robot, figures


def recover(seed: int, memory: bytes, change: str) -> dict[str, Any]:
    """Change a grown robot's body. It begins a new noise, but has the same body and memory."""
    robot, agent = Millirobot(seed), Agent(seed + 101, memory=memory)
    develop(agent, robot, 30.0)
    if change == CHANGES[0]:
        robot.load(0.38)
    else:
        robot.weaken(CHANGES.index(change) - 1, 0.7)
    begin = robot.clock
    reached = acquisition(develop(agent, robot, begin + RECOVERY_S), begin)
    return {"base_s": finite(time_to_all(reached, BASE_SKILLS)), "all_s": finite(time_to_all(reached, SKILLS))}


def measure(seeds: range) -> dict[str, Any]:
    figures: dict[str, Any] = {"development": {name: [] for name, *_ in VARIANTS}, "quality": [], "recovery": {}}
    figures["recovery"] = {change: [] for change in CHANGES}
    with StepBar("lives") as bar:
        for index, seed in enumerate(seeds):
            for number, (name, strategy, learner) in enumerate(VARIANTS):
                agent, robot, row = life(seed, strategy, learner)
                figures["development"][name].append(row)
                bar.update(index * len(VARIANTS) + number + 1, len(seeds) * len(VARIANTS), {})
                if number:
                    continue
                memory = agent.memory
                drawn = quality(memory, robot)
                figures["quality"].append(
                    {
                        "cross_track_share": drawn.cross_track_share,
                        "closure_mm": drawn.closure,
                        "heading_rad": drawn.heading,
                    }
                )
                for change in CHANGES:
                    figures["recovery"][change].append(recover(seed, memory, change))
    return figures


def within(rows: list[dict[str, Any]], key: str, limit: float) -> int:
    return sum(row[key] is not None and row[key] <= limit for row in rows)


def middle(rows: list[dict[str, Any]], key: str) -> float:
    return float(np.median([math.inf if row[key] is None else row[key] for row in rows]))


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    main = figures["development"][VARIANTS[0][0]]
    good = [
        row["all_s"] is not None
        and row["all_s"] <= LIFE_S
        and max(seen["cross_track_share"].values()) <= 0.05
        and seen["closure_mm"]["square"] <= 7.5
        for row, seen in zip(main, figures["quality"], strict=True)
    ]
    return {
        "seeds": len(main),
        "base_within_6_min": within(main, "base_s", 360),
        "all_learned_drawn_within_5_percent_and_square_closed": sum(good),
        "recovered_within_5_min": {c: within(rows, "all_s", 300) for c, rows in figures["recovery"].items()},
        "worst_cross_track_share": max(max(row["cross_track_share"].values()) for row in figures["quality"]),
        "worst_square_closure_mm": max(row["closure_mm"]["square"] for row in figures["quality"]),
    }


def show(figures: dict[str, Any]) -> None:
    console = Console()
    table = Table(
        "", "base ≤ 6 min", "base ≤ 15 min", "all ≤ 15 min", "median base", "median all", "entropy", "longest neglect"
    )
    for name, rows in figures["development"].items():
        shown = [f"{middle(rows, key):.0f} s" for key in ("base_s", "all_s")]
        spread = [f"{middle(rows, 'entropy'):.2f}", f"{middle(rows, 'longest_neglect_s'):.0f} s"]
        counts = [str(within(rows, *limit)) for limit in (("base_s", 360), ("base_s", LIFE_S), ("all_s", LIFE_S))]
        table.add_row(name, *counts, *shown, *spread)
    console.print(table)
    table = Table("pattern", "RMS cross-track of size", "worst seed", "end off", "heading")
    for name in PATTERNS:
        shares, ends, turns = (
            [row[key][name] for row in figures["quality"]] for key in ("cross_track_share", "closure_mm", "heading_rad")
        )
        cells = (
            f"{np.mean(shares):.1%}",
            f"{max(shares):.1%}",
            f"{np.mean(ends):.1f} mm",
            f"{np.degrees(np.mean(turns)):.1f}°",
        )
        table.add_row(name, *cells)
    console.print(table)
    table = Table("change", "all skills again ≤ 5 min", "median base", "median all", "slowest")
    for change, rows in figures["recovery"].items():
        slowest = max(math.inf if row["all_s"] is None else row["all_s"] for row in rows)
        cells = (f"{middle(rows, 'base_s'):.0f} s", f"{middle(rows, 'all_s'):.0f} s", f"{slowest:.0f} s")
        table.add_row(change, str(within(rows, "all_s", 300)), *cells)
    console.print(table)
    console.print(figures["summary"])


def chart(figures: dict[str, Any]) -> str:
    seconds = np.linspace(0, LIFE_S, 181)
    curves = []
    for name, rows in figures["development"].items():
        runs = [
            np.sum([seconds >= (math.inf if t is None else t) for t in row["reached_s"].values()], axis=0)
            for row in rows
        ]
        curves.append(Curve(name, seconds, np.array(runs) / len(SKILLS)))
    return learning_chart(
        "Skills that have reached the threshold", "simulated seconds", "share of the 12 skills", curves
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=100, help="the constants were set on 0 to 19")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = measure(range(arguments.first_seed, arguments.first_seed + arguments.seeds))
    figures["summary"] = summary(figures)
    show(figures)
    if arguments.plot:
        write_text(arguments.plot, chart(figures))
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance(arguments.first_seed)})


if __name__ == "__main__":
    main()
