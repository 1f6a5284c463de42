"""What learning is good for, and how often the robot is wrong about its body.

Each seed is another robot. First it develops for 15 simulated minutes.

Patterns: the eight patterns, five frozen runs each, measured on the true path, with three sets of parameters: those
that this robot learned; its own learned moves under patterns that are scripted (curves as the moves predict them,
polygons as if what is commanded happened); and parameters for the nominal robot, without mismatch, noise or drift. All
three see the camera after each segment.

Alarms: the robot then lives on for an hour with its body as it is (with noise and drift): how often it wrongly says
that its body has changed, or that a motor is stuck. And from a real change on: after how long it says so, and of what.

    python benchmarks/skills_checks.py --first-seed 100 --json benchmarks/results/skills-checks.json
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from keygrasp.cli.steps import StepBar
from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.skills.core import PATTERNS, SKILLS, Agent, Event, library
from keygrasp.skills.development import develop, quality, steps
from keygrasp.skills.millirobot import Body, Millirobot

LIFE_S, QUIET_S, LIMIT_S = 900.0, 3600.0, 600.0
NOMINAL = dataclasses.replace(
    Body(), mismatch=0.0, noise=0.0, slip=Body().slip, backward=0.0, drift=0.0, camera_mm=0.0, camera_degrees=0.0
)
PARAMETERS = ("learned", "learned moves, scripted patterns", "nominal robot's")
CHANGES = ("load 380 g", "left motor -30%", "right motor -30%", "left motor stuck", "right motor stuck")


def scripted(memory: bytes) -> bytes:
    """The same memory with patterns as they begin, before anything is learned of them."""
    agent = Agent(memory=memory)
    for pattern in PATTERNS:
        slot = agent.raw.memory.skill[SKILLS.index(pattern)]
        slot.command[:] = [0, 0]
        for row in slot.weight:
            row[:] = [0, 0, 0]
        library().kg_inherit(ctypes.byref(agent.raw), SKILLS.index(pattern))
    return agent.memory


def drawn(memory: bytes, robot: Millirobot) -> dict[str, Any]:
    seen = quality(memory, robot)
    return {"cross_track_share": seen.cross_track_share, "closure_mm": seen.closure}


def alarms(memory: bytes, robot: Millirobot, seed: int) -> dict[str, int]:
    agent = Agent(seed + 201, memory=memory)
    counts = {"body": 0, "stuck": 0, "runs": 0}
    for step in steps(agent, robot, robot.clock + QUIET_S):
        counts["body"] += Event.LOST in step.decision.events
        counts["stuck"] += Event.MOTOR_STUCK in step.decision.events
        counts["runs"] += Event.ENDED in step.decision.events
    return counts


def delay(memory: bytes, seed: int, change: str) -> dict[str, Any]:
    """Seconds from a change until the robot says that its body has changed, or which motor is stuck."""
    agent, robot = Agent(seed + 301, memory=memory), Millirobot(seed)
    develop(agent, robot, 60.0)
    began = robot.clock
    if change == CHANGES[0]:
        robot.load(0.38)
    else:
        robot.weaken("right" in change, 0.0 if "stuck" in change else 0.7)
    for step in steps(agent, robot, began + LIMIT_S):
        if "stuck" in change and Event.MOTOR_STUCK in step.decision.events:
            right = step.decision.stuck == (2 if "right" in change else 1)
            return {"seconds": round(step.seconds - began, 1), "right": right}
        if "stuck" not in change and Event.LOST in step.decision.events:
            return {"seconds": round(step.seconds - began, 1), "right": True}
    return {"seconds": None, "right": False}


def measure(seeds: range) -> dict[str, Any]:
    engineer, perfect = Agent(1), Millirobot(0, NOMINAL)
    develop(engineer, perfect, LIFE_S)
    figures: dict[str, Any] = {"patterns": {name: [] for name in PARAMETERS}, "alarms": [], "delays": {}}
    figures["delays"] = {change: [] for change in CHANGES}
    with StepBar("robots") as bar:
        for number, seed in enumerate(seeds):
            agent, robot = Agent(seed + 1), Millirobot(seed)
            develop(agent, robot, LIFE_S)
            memory = agent.memory
            for name, used in zip(PARAMETERS, (memory, scripted(memory), engineer.memory), strict=True):
                figures["patterns"][name].append(drawn(used, robot))
            figures["alarms"].append(alarms(memory, robot, seed))
            for change in CHANGES:
                figures["delays"][change].append(delay(memory, seed, change))
            bar.update(number + 1, len(seeds), {})
    return figures


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    def patterns(rows: list[dict[str, Any]]) -> dict[str, float]:
        shares = np.array([[row["cross_track_share"][name] for name in PATTERNS] for row in rows])
        ends = np.array([row["closure_mm"]["square"] for row in rows])
        return {
            "mean_cross_track_share": float(shares.mean()),
            "worst_cross_track_share": float(shares.max()),
            "robots_with_all_within_5_percent": int((shares.max(axis=1) <= 0.05).sum()),
            "square_closure_mm": float(ends.mean()),
            "worst_square_closure_mm": float(ends.max()),
        }

    def delays(rows: list[dict[str, Any]]) -> dict[str, Any]:
        seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
        return {
            "noticed": len(seconds),
            "named_rightly": sum(row["right"] for row in rows),
            "median_s": float(np.median(seconds)) if seconds else None,
            "slowest_s": max(seconds, default=None),
        }

    hours = len(figures["alarms"]) * QUIET_S / 3600
    return {
        "robots": len(figures["alarms"]),
        "patterns": {name: patterns(rows) for name, rows in figures["patterns"].items()},
        "false_body_alarms_an_hour": sum(row["body"] for row in figures["alarms"]) / hours,
        "false_stuck_alarms_an_hour": sum(row["stuck"] for row in figures["alarms"]) / hours,
        "robots_without_false_alarm": sum(not (row["body"] or row["stuck"]) for row in figures["alarms"]),
        "delays": {change: delays(rows) for change, rows in figures["delays"].items()},
    }


def show(made: dict[str, Any]) -> None:
    console = Console()
    table = Table("parameters", "mean cross-track", "worst", "robots ≤ 5%", "square's end", "worst")
    for name, row in made["patterns"].items():
        table.add_row(
            name,
            f"{row['mean_cross_track_share']:.1%}",
            f"{row['worst_cross_track_share']:.1%}",
            f"{row['robots_with_all_within_5_percent']} of {made['robots']}",
            f"{row['square_closure_mm']:.1f} mm",
            f"{row['worst_square_closure_mm']:.1f} mm",
        )
    console.print(table)
    rates = [made[f"false_{what}_alarms_an_hour"] for what in ("body", "stuck")]
    console.print(f"false alarms an hour: body {rates[0]:.2f}, motor {rates[1]:.2f}")
    console.print(f"no false alarm in an hour: {made['robots_without_false_alarm']} of {made['robots']} robots")
    table = Table("change", "noticed", "rightly", "median", "slowest")
    for change, row in made["delays"].items():
        spans = ["–" if row[key] is None else f"{row[key]:.0f} s" for key in ("median_s", "slowest_s")]
        table.add_row(change, str(row["noticed"]), str(row["named_rightly"]), *spans)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=100, help="the constants were set on 0 to 19")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = measure(range(arguments.first_seed, arguments.first_seed + arguments.seeds))
    figures["summary"] = summary(figures)
    show(figures["summary"])
    if arguments.json:
        write_json(arguments.json, {**figures, "provenance": provenance(arguments.first_seed)})


if __name__ == "__main__":
    main()
