"""The report of the sim-to-real checks: one HTML file, and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from keygrasp.files import write_text
from keygrasp.scene import Outcome
from keygrasp.trials.report_html import points, template
from keygrasp.trials.report_model import Rate
from keygrasp.trials.sim2real import DELTA, UR5
from keygrasp.trials.sim2real_summary import TARGET
from keygrasp.trials.summary import intervals_in_words

Json = dict[str, Any]

#: The plot's sizes in pixels, and where its axis begins and ends.
_ROW, _TOP, _LEFT, _RIGHT, _WIDTH = 24, 56, 210, 70, 760
#: Colours that colour-blind people can tell apart (Okabe and Ito), by kind of difference.
_COLOURS = {
    "none": "#555555", "robot": "#555555", "camera": "#0072B2", "calibration": "#D55E00", "friction": "#009E73",
    "mass": "#CC79A7", "latency": "#E69F00", "backlash": "#56B4E9", "together": "#000000",
}  # fmt: skip


@dataclass(frozen=True)
class _Row:
    """One line of a table: its name and kind, its rate, the change in shares with its interval, the usual failure."""

    name: str
    group: str
    rate: Rate
    change: tuple[float, float, float] | None
    failure: str


def write_page(summary: Json, path: Path) -> Path:
    """Write the report of :func:`keygrasp.trials.sim2real_summary.summarise`; returns its path."""
    robots = summary["robots"]
    text: str = template("sim2real.html.j2").render(
        setting=_setting(summary),
        notices=_notices(summary["scenes"]),
        robots=[
            _Row(f"{robot}, {scenes}", "robot", _rate(robots[scenes][robot]), None, "")
            for scenes in ("tail", "all")
            for robot in (UR5, DELTA)
        ],
        verdict=verdict(summary),
        intervals=intervals_in_words(robots[scenes][robot] for scenes in ("tail", "all") for robot in (UR5, DELTA)),
        conditions=[
            _Row(name, data["group"], _rate(data), _change(data["difference"]), _failure(data["outcomes"]))
            for name, data in summary["conditions"].items()
        ],
        models=[_Row(name, "model", _rate(data), None, "") for name, data in summary["within_reach"].items()],
        provenance=summary["provenance"],
    )
    write_text(path, text)
    return path


def verdict(summary: Json) -> str:
    """One sentence about the target: the Delta within 3 points of the UR5 on tail scenes within its reach."""
    difference = summary["robots"]["tail"]["difference"]
    if difference is None:
        return "No tail scene has been executed by both robots yet."
    low, high = difference["interval"]
    state = "met" if difference["difference"] >= -TARGET else "missed"
    sure = "" if low >= -TARGET or high < -TARGET else ", though so few scenes don't settle it"
    return (
        f"Delta minus UR5 on the tail: {points(difference['difference'])} points "
        f"({points(low)} to {points(high)}) of {difference['trials']} paired scenes; "
        f"the target of {100 * TARGET:.0f} points is {state}{sure}."
    )


def write_plot(summary: Json, path: Path) -> None:
    """Draw the success under each condition with its interval, as SVG."""
    rows = [(name, data["group"], _rate(data)) for name, data in summary["conditions"].items()]
    how = intervals_in_words(summary["conditions"].values())
    bottom = _TOP + _ROW * len(rows)
    parts = [
        _text(_LEFT, 20, "Success of the Delta's twin, one difference at a time", size=15),
        _text(_LEFT, 38, f"{rows[0][2].trials} scenes; whiskers: 95% interval, {how}", fill="#555555"),
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _x(share)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}" stroke="#dddddd"/>')
        parts.append(_text(x, bottom + 16, f"{100 * share:.0f}%", anchor="middle"))
    for index, (name, group, rate) in enumerate(rows):
        y, colour = _TOP + _ROW * (index + 0.5), _COLOURS[group]
        label = "as planned" if name == DELTA else name
        parts += [
            _text(_LEFT - 10, y + 4, label, anchor="end"),
            f'<line x1="{_x(rate.low):.1f}" x2="{_x(rate.high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            'stroke-width="2"/>',
            f'<circle cx="{_x(rate.value):.1f}" cy="{y}" r="5" fill="{colour}"/>',
            _text(_WIDTH - _RIGHT + 14, y + 4, f"{100 * rate.value:.0f}%"),
        ]
    write_text(
        path,
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 28}" role="img" '
        'font-family="sans-serif" font-size="13">\n<title>Success of the Delta\'s twin by condition</title>\n'
        f'<rect width="{_WIDTH}" height="{bottom + 28}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n",
    )


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _text(x: float, y: float, text: str, *, size: int = 13, anchor: str = "start", fill: str = "#222222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
    )


def _setting(summary: Json) -> dict[str, str]:
    config, scenes = summary["config"], summary["scenes"]
    return {
        "protocol": config["protocol"],
        "objects": f"{config['objects']}, {config['split']} split",
        "planner": config["planner"]["name"],
        "tail scenes": str(scenes["tail"]),
        "out of reach": f"{scenes['out_of_reach']} of {scenes['executed']}",
        "seed": str(config["seed"]),
    }


def _notices(scenes: Json) -> list[str]:
    notices = []
    if scenes["done"] < scenes["asked"]:
        notices.append(f"The run was stopped after {scenes['done']} of {scenes['asked']} scenes.")
    if scenes["not_done"]:
        notices.append(f"{scenes['not_done']} scene(s) could not be made and are left out.")
    return notices


def _rate(data: Json) -> Rate:
    low, high = data["interval"]
    return Rate.of(data["successes"], data["trials"], (low, high))


def _change(data: Json | None) -> tuple[float, float, float] | None:
    return None if data is None else (data["difference"], *data["interval"])


def _failure(outcomes: dict[str, int]) -> str:
    failures = {name: count for name, count in outcomes.items() if name != Outcome.SUCCESS}
    return max(failures, key=lambda name: failures[name]) if failures else ""
