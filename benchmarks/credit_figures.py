"""Writes the figures of ``benchmarks/results/credit*.json`` into docs/credit.md, with a plot as SVG.

Run ``python benchmarks/credit_figures.py`` after a measurement; ``--check`` only says whether the page is up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from credit import UNCAPTURED, verdicts
from credit_timing import H200_COPY

from keygrasp.files import read_json, write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "credit.md"
PLOT = ROOT / "docs" / "images" / "credit.svg"
BLOCK = re.compile(r"(<!-- figures:begin -->\n).*?(<!-- figures:end -->)", re.DOTALL)
OURS = "keygrasp"

#: Few long rows, which are split over time; credit-chained.json has them in one launch.
SPLIT = ((64, 16384), (16, 131072), (1, 1048576), (512, 4096))

Json = dict[str, Any]


def source(path: Path, data: Json) -> str:
    """Where figures come from, in one line."""
    origin = data["provenance"]
    machine = origin["machine"]
    where = machine["gpu"] or f"{machine['processor']}, {machine['cores']} cores"
    link = f"[{path.name}](../benchmarks/results/{path.name})"
    return f"<sub>{link}: `{origin['command']}`, {origin['date'][:10]}, {where}.</sub>"


def newest(files: list[Path]) -> Json:
    """The first file's measurement, with our own rows replaced by those that later files have of the same cases."""
    data, *others = map(read_json, files)
    rows = {(r["who"], *_case(r)): r for r in data["rows"]}
    for other in others:
        rows |= {(r["who"], *_case(r)): r for r in other["rows"] if r["who"] == OURS and _shape(r) not in SPLIT}
    data["rows"] = list(rows.values())
    data["machine"]["copy_bandwidth"] = max(H200_COPY, data["machine"]["copy_bandwidth"])
    return data


def chain_table(data: Json) -> list[str]:
    """Device time of few long rows in two launches and in one, side by side, without truncation."""
    times: dict[tuple[str, str, str], dict[bool, float]] = {}
    for r in data["rows"]:
        op, shape, layout = r["workload"].split()
        times.setdefault((op, shape, layout), {})[r["tiling"]["window"] > 0] = r["us"]
    both = {case: found for case, found in times.items() if len(found) == 2}
    ops = list(dict.fromkeys(op for op, _, _ in both))
    lines = ["| N×T | layout | " + " | ".join(ops) + " |", "| --- | --- " + "| --- " * len(ops) + "|"]
    for shape, layout in dict.fromkeys((shape, layout) for _, shape, layout in both):
        found = [both[op, shape, layout] for op in ops]
        cells = " | ".join(f"{one[False]:.1f} → {one[True]:.1f}" for one in found)
        lines.append(f"| {shape.replace('x', '×')} | {layout} | {cells} |")
    return lines


def gpu_table(data: Json, layout: str) -> list[str]:
    """Device time and share of the floor of each function at each shape, without truncation."""
    rows = [r for r in data["rows"] if r["who"] == OURS and "error" not in r and not r["truncation"]]
    rows = [r for r in rows if r["layout"] == layout]
    ops = list(dict.fromkeys(r["op"] for r in rows))
    lines = ["| N×T | " + " | ".join(ops) + " |", "| --- " * (len(ops) + 1) + "|"]
    for shape in dict.fromkeys((r["rows"], r["steps"]) for r in rows):
        cells = []
        for op in ops:
            found = [r for r in rows if r["op"] == op and (r["rows"], r["steps"]) == shape]
            floor = 1e6 * found[0]["bytes"] / data["machine"]["copy_bandwidth"] if found else 0.0
            cells.append(f"{found[0]['device_us']:.1f} / {floor / found[0]['device_us']:.2f}" if found else "–")
        lines.append(f"| {shape[0]}×{shape[1]} | " + " | ".join(cells) + " |")
    return lines


def cpu_table(data: Json) -> list[str]:
    """Process time of each implementation at each shape."""
    names = list(dict.fromkeys(r["who"] for r in data["rows"]))
    times = {(r["rows"], r["steps"], r["who"]): r["ms"] for r in data["rows"]}
    lines = ["| N×T | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    for rows, steps in dict.fromkeys((r["rows"], r["steps"]) for r in data["rows"]):
        cells = [f"{times[rows, steps, who]:.2f}" if (rows, steps, who) in times else "–" for who in names]
        lines.append(f"| {rows}×{steps} | " + " | ".join(cells) + " |")
    return lines


def plot(data: Json) -> str:
    """Bars: times faster than each other implementation at each shape in device time, geometric mean over functions."""
    own = {_case(r): r["device_us"] for r in data["rows"] if r["who"] == OURS and "error" not in r}
    ratios: dict[tuple[str, str], list[float]] = {}
    for r in data["rows"]:
        if r["who"] not in (OURS, *UNCAPTURED) and "error" not in r and _case(r) in own:
            ratios.setdefault((f"{r['rows']}×{r['steps']}", r["who"]), []).append(r["device_us"] / own[_case(r)])
    colours = dict(
        zip(
            dict.fromkeys(who for _, who in ratios),
            ("#2a6f97", "#e07a5f", "#81b29a", "#f2cc8f", "#6d597a"),
            strict=False,
        )
    )
    means = {case: _product(found) ** (1 / len(found)) for case, found in ratios.items()}
    lines, y = [], 30
    for (shape, who), mean in means.items():
        width = 420 * (mean / max(means.values())) ** 0.5
        lines.append(f'<text x="100" y="{y + 11}" text-anchor="end">{shape}</text>')
        lines.append(f'<rect x="108" y="{y}" width="{width:.1f}" height="13" fill="{colours.get(who, "#888")}"/>')
        lines.append(f'<text x="{112 + width:.1f}" y="{y + 11}">{mean:.1f}× {who}</text>')
        y += 18
    title = (
        '<text x="8" y="18">Times faster than others, device time, geometric mean over functions (root scale)</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{y + 8}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{title}{"".join(lines)}</svg>\n'
    )


def _product(numbers: list[float]) -> float:
    found = 1.0
    for number in numbers:
        found *= number
    return found


def _shape(row: Json) -> tuple[int, int]:
    return row["rows"], row["steps"]


def _case(row: Json) -> tuple[Any, ...]:
    return row["op"], row["rows"], row["steps"], row["truncation"], row["layout"]


def figures() -> tuple[str, str | None]:
    """Markdown of the page's block, and the plot if there is a GPU measurement."""
    parts: list[str] = []
    drawing = None
    gpu, cpu, ppo = (RESULTS / name for name in ("credit.json", "credit-cpu.json", "credit-ppo.json"))
    later = [RESULTS / name for name in ("credit-short.json", "credit-chained.json")]
    launches = RESULTS / "credit-one-launch.json"
    if gpu.exists():
        data = newest([gpu, *later])
        drawing = plot(data)
        parts.append("Device time in µs / share of the memory floor (fewest bytes over 4.28 TB/s of a copy kernel),")
        parts += ["float32, without truncation. Time-major, [T, N]:", "", *gpu_table(data, "time-major"), ""]
        parts += ["Batch-major, [N, T]:", "", *gpu_table(data, "batch-major"), ""]
        parts += [source(gpu, read_json(gpu)), ""]
        parts += ["Our own rows are those of two later runs of the same kernels, where these have them:"]
        parts += [source(path, read_json(path)) for path in later]
        parts += ["", "Few long rows in two launches → in one that looks back (`CHAINED`), µs, without truncation:", ""]
        parts += [*chain_table(read_json(launches)), "", source(launches, read_json(launches)), ""]
        parts += ["![Times faster than others](images/credit.svg)", "", "The targets of this work, over all cases:", ""]
        # A call's time depends on the host: it is told from the run in which all were measured side by side.
        told = verdicts(data["machine"], data["rows"])
        calls = verdicts(data["machine"], read_json(gpu)["rows"])
        for line in [c if "call" in c else t for c, t in zip(calls, told, strict=True)]:
            verdict, text = line.split(maxsplit=1)
            parts.append(f"- {'holds' if verdict == 'pass' else 'missed'}: {text}")
        parts.append("")
    if cpu.exists():
        data = read_json(cpu)
        parts += ["GAE on one CPU core, process time in ms:", "", *cpu_table(data)]
        parts += ["", source(cpu, data), ""]
    if ppo.exists():
        data = read_json(ppo)
        parts += [
            f"PPO with {data['environments']} environments, {data['steps']} steps an iteration, on {data['device']}:",
            "",
        ]
        parts += ["| Credit assignment | ms an iteration | of which credit | share |", "| --- | --- | --- | --- |"]
        for name, r in data["results"].items():
            parts.append(f"| {name} | {1e3 * r['iteration']:.1f} | {1e3 * r['credit']:.2f} | {r['share']:.1%} |")
        parts += ["", source(ppo, data), ""]
    return "\n".join(parts), drawing


def main() -> int:
    block, drawing = figures()
    if not block:
        print("benchmarks/results has no credit*.json: nothing to write")
        return 0
    page = PAGE.read_text(encoding="utf-8")
    new = BLOCK.sub(lambda match: match[1] + block + match[2], page)
    if "--check" in sys.argv:
        print("docs/credit.md is " + ("up to date" if new == page else "out of date: run benchmarks/credit_figures.py"))
        return int(new != page)
    write_text(PAGE, new)
    if drawing is not None:
        write_text(PLOT, drawing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
