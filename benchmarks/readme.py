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

#: Columns of the success tables; one that no planner has is left out.
COLUMNS = {
    "single_shot": "single-shot",
    "up_to_three": "up to three",
    "tail": "tail, single-shot",
    "kept": "kept",
    "robust": "robust",
}

#: The same of the scenes on which the reference fails.
TAIL_COLUMNS = {
    "tail": "tail, single-shot",
    "tail_up_to_three": "tail, up to three",
    "tail_graspable": "graspable tail, single-shot",
    "tail_graspable_up_to_three": "graspable tail, up to three",
}
#: Rows of the tables, in this order.
PLANNERS = ("reference", "geometric", "argmax", "cem", "climb", "refined", "oracle")

Json = dict[str, Any]


def rate(value: Json | None) -> str:
    """``k / n`` as per cent with its 95% interval."""
    if not value or not value["trials"]:
        return "–"
    low, high = (100 * end for end in value["interval"])
    return f"**{100 * value['successes'] / value['trials']:.1f}%** ({max(low, 0):.1f}–{high:.1f})"


def success_table(summary: Json, *, columns: Json | None = None, without: tuple[str, ...] = ()) -> list[str]:
    """One row a planner."""
    found = {name: p for name in PLANNERS if name not in without and (p := summary["planners"].get(name))}
    columns = {k: title for k, title in (columns or COLUMNS).items() if any(p.get(k) for p in found.values())}
    rows = ["| Planner | " + " | ".join(columns.values()) + " |", "| --- " * (len(columns) + 1) + "|"]
    for name, figures in found.items():
        meaningless = ("tail", "kept") if name == "reference" else ()  # they are what it defines
        cells = ["–" if key in meaningless else rate(figures.get(key)) for key in columns]
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


def trials_section(stem: str, title: str) -> list[str]:
    """A table with its title and origin; nothing where the file is missing."""
    path = RESULTS / f"{stem}.json"
    if not path.is_file():
        return []
    data = read_json(path)
    return [title, "", *success_table(data), "", source(path, data), ""]


def evaluation_section() -> list[str]:
    """Each rule of ``keygrasp evaluate``, all objects and then the tail; nothing where it was not made."""
    path = RESULTS / "evaluation.json"
    if not path.is_file():
        return []
    data = read_json(path)
    config, lines = data["config"], []
    plain = {key: title for key, title in COLUMNS.items() if key != "tail"}
    for rule, found in data["rules"].items():
        title = f"{len(config['seeds'])} scenes of each of {config['objects']} unseen objects, rule {rule}"
        lines += [f"{title}{' (easy)' if rule == 'A' else ''}, free gripper:", ""]
        lines += [*success_table(found, columns=plain), ""]
        if rule == "E":
            lines += [
                f"The tail: {found['tail_scenes']} scenes of rule E on which the reference fails, "
                f"{found['tail_graspable_scenes']} of them graspable:",
                "",
                *success_table(found, columns=TAIL_COLUMNS, without=("reference",)),
                "",
            ]
    return [*lines, source(path, data), ""]


def speed_section() -> list[str]:
    """Latency of planning, trials a second, and how far the two robots agree, each with its origin."""
    lines = ["**Speed and agreement**", ""]
    for name, say in (("planning", planning_line), ("trials", trials_line), ("agreement", agreement_line)):
        path = RESULTS / f"{name}.json"
        if path.is_file():
            data = read_json(path)
            lines += [f"- {say(data)} {source(path, data)}"]
    return [*lines, ""] if len(lines) > 2 else []


def planning_line(data: Json) -> str:
    """Milliseconds from image to grasp."""
    wall = data["milliseconds"]["wall"]["image to grasp"]
    return f"Image to refined grasp on one core: median {wall['p50']:.0f} ms, p99 {wall['p99']:.0f} ms."


def trials_line(data: Json) -> str:
    """Trials a second and core, image and planning included."""
    rates = {name: figures["trials_per_second_core"] for name, figures in data["robots"].items()}
    return f"Trials a second and core: {rates['gripper']:.1f} with the free gripper, {rates['ur5']:.1f} with the UR5."


def agreement_line(data: Json) -> str:
    """Same verdict of free gripper and arm on the same grasps."""
    low, high = data["interval"]
    return (
        f"Free gripper and UR5 give the same verdict in {data['agree']} of {data['trials']} trials: "
        f"{100 * data['rate']:.1f}% ({100 * low:.1f}–{100 * high:.1f})."
    )


def block() -> str:
    """The text between the marks."""
    parts = [
        *evaluation_section(),
        *trials_section("trials-e-ur5", "300 unseen objects, rule E, executed by the UR5:"),
        *trials_section("trials-e-oracle", "48 objects of rule E with the oracle as the ceiling:"),
        *trials_section("trials-ycb", "All 78 objects of YCB at their own size, two poses each, graspable or not:"),
        *trials_section("trials-adversarial", "Two adversarial objects of Dex-Net, 20 poses each:"),
        *speed_section(),
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
