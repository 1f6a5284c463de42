"""Writes the figures of ``benchmarks/results/`` into README.md, between its two result marks.

Run ``python benchmarks/readme.py`` after a measurement; ``--check`` only says whether README.md is up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from keygrasp.files import read_json, write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- results:begin -->\n).*?(<!-- results:end -->)", re.DOTALL)

Json = dict[str, Any]


def rate(value: Json | None) -> str:
    """``k / n`` as per cent with its 95% interval."""
    if not value or not value["trials"]:
        return "–"
    low, high = (100 * end for end in value["interval"])
    return f"**{100 * value['successes'] / value['trials']:.1f}%** ({max(low, 0):.1f}–{high:.1f})"


def success_table(summary: Json, planners: tuple[str, ...]) -> list[str]:
    """One row a planner."""
    rows = [
        "| Planner | single-shot | up to three | tail, single-shot | kept | robust | planning, median / p99 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in planners:
        p = summary["planners"].get(name)
        if p is None:
            continue
        cells = [rate(p[key]) for key in ("single_shot", "up_to_three", "tail", "kept", "robust")]
        if name == "reference":
            cells[2:4] = ["–", "–"]
        cells.append(f"{p['plan_ms']['p50']:.0f} / {p['plan_ms']['p99']:.0f} ms")
        rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return rows


def source(path: Path, data: Json) -> str:
    """Where figures come from, in one line."""
    origin = data["provenance"]
    machine = origin["machine"]
    return (
        f"<sub>[{path.name}](benchmarks/results/{path.name}): `{origin['command']}`, {origin['date'][:10]}, "
        f"{machine['processor']}, {machine['cores']} cores.</sub>"
    )


def trials_section(stem: str, title: str, planners: tuple[str, ...]) -> list[str]:
    """A table with its title and origin; nothing where the file is missing."""
    path = RESULTS / f"{stem}.json"
    if not path.is_file():
        return []
    data = read_json(path)
    return [title, "", *success_table(data, planners), "", source(path, data), ""]


def planning_section() -> list[str]:
    """Latency of planning by stage."""
    path = RESULTS / "planning.json"
    if not path.is_file():
        return []
    data = read_json(path)
    total = data["stages"]["total"]
    wall = total["wall_ms"]
    return [
        f"From image to refined grasp on one core: median {wall['p50']:.0f} ms, p99 {wall['p99']:.0f} ms.",
        "",
        source(path, data),
        "",
    ]


def block() -> str:
    """The text between the marks."""
    names = ("reference", "geometric", "argmax", "cem", "climb", "refined")
    parts = [
        *trials_section("trials-e-gripper", "300 unseen objects, rule E, free gripper:", names),
        *trials_section("trials-e-ur5", "The same objects, executed by the UR5:", names),
        *trials_section("trials-a-gripper", "300 unseen objects, rule A (easy):", names),
        *trials_section("trials-e-oracle", "A smaller set with the oracle, the ceiling:", (*names, "oracle")),
        *planning_section(),
    ]
    return "\n".join(parts)


def main() -> int:
    """Rewrite README.md, or compare."""
    readme = ROOT / "README.md"
    old = readme.read_text(encoding="utf-8")
    new = BLOCK.sub(lambda match: match[1] + block() + match[2], old)
    if "--check" in sys.argv:
        return int(new != old)
    write_text(readme, new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
