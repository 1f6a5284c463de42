"""Writes the figures of ``benchmarks/results/sim2real.json`` into docs/real-robot.md.

Run ``python benchmarks/sim2real_figures.py`` after ``keygrasp sim2real --json benchmarks/results/sim2real.json``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from keygrasp.files import read_json, write_text
from keygrasp.trials.sim2real_page import verdict

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "sim2real.json"
PAGE = ROOT / "docs" / "real-robot.md"
BLOCK = re.compile(r"(<!-- sim2real:begin -->\n).*?(<!-- sim2real:end -->)", re.DOTALL)

Json = dict[str, Any]


def share(rate: Json) -> str:
    """A rate with its interval in per cent."""
    low, high = rate["interval"]
    return f"{100 * rate['rate']:.0f} % ({100 * low:.0f}–{100 * high:.0f}), {rate['successes']} of {rate['trials']}"


def lines(data: Json) -> list[str]:
    """The figures as Markdown."""
    scenes, tail, every = data["scenes"], data["robots"]["tail"], data["robots"]["all"]
    text = ["![Success of the Delta's twin under each condition](images/sim2real.svg)", ""]
    if scenes["done"] < scenes["asked"]:
        text += [f"**Stopped after {scenes['done']} of {scenes['asked']} scenes**; the same command goes on.", ""]
    text += [
        f"{verdict(data)} Tail: UR5 {share(tail['ur5'])}, Delta {share(tail['delta'])}. All executed scenes: UR5 "
        f"{share(every['ur5'])}, Delta {share(every['delta'])}. Out of the Delta's reach: {scenes['out_of_reach']} of "
        f"{scenes['executed']}.",
        "",
        "Of these grasps the models could make, over a table as low as their fingertips go: "
        + "; ".join(f"{model} {share(rate)}" for model, rate in data["within_reach"].items())
        + ".",
        "",
        "| Condition | success | change in points |",
        "|---|---|---|",
    ]
    for name, found in data["conditions"].items():
        change = found["difference"]
        low, high = change["interval"]
        moved = f"{100 * change['difference']:+.0f} ({100 * low:+.0f} to {100 * high:+.0f})"
        text.append(f"| {'as planned' if name == 'delta' else name} | {share(found)} | {moved} |")
    origin = data["provenance"]
    machine = origin["machine"]
    text += [
        "",
        f"<sub>[sim2real.json](../benchmarks/results/sim2real.json): `{origin['command']}`, {origin['date'][:10]}, "
        f"{machine['processor']}, {machine['cores']} cores.</sub>",
    ]
    return text


def main() -> None:
    """Replace the block of the page."""
    page = PAGE.read_text(encoding="utf-8")
    block = "\n".join(lines(read_json(RESULTS)))
    write_text(PAGE, BLOCK.sub(lambda found: f"{found[1]}{block}\n{found[2]}", page))


if __name__ == "__main__":
    main()
