"""Pictures as SVG: the patterns as they were really driven, and the graph of the skills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from keygrasp.skills.core import PATTERNS, SKILLS, SkillState, needs
from keygrasp.skills.curves import Array, curve
from keygrasp.skills.development import Drawn

_CELL, _COLUMNS, _TITLE = 240, 4, 34
#: Height of a picture's title, and length in millimetres of the bar that shows a cell's scale.
_HEAD, _BAR = 30, 20
_NODE_WIDTH, _NODE_HEIGHT, _GAP_X, _GAP_Y = 128, 46, 62, 22
_CURVE, _PATH, _LEARNED, _OPEN = "#999999", "#0072B2", "#009E73", "#bbbbbb"


def patterns_picture(drawn: Sequence[Drawn]) -> str:
    """Draw runs of patterns over their curves, one cell a pattern; returns the SVG file's text."""
    rows = math.ceil(len(PATTERNS) / _COLUMNS)
    cells = []
    for index, name in enumerate(PATTERNS):
        x, y = index % _COLUMNS * _CELL, _HEAD + index // _COLUMNS * (_CELL + _TITLE) + _TITLE
        cells.append(f'<g transform="translate({x} {y})">{_cell(name, [d for d in drawn if d.pattern == name])}</g>')
    title = "Patterns as the robot drove them (blue) and as they should be (grey); figures are means of all runs"
    return _svg(_COLUMNS * _CELL, _HEAD + rows * (_CELL + _TITLE) + 8, title, cells)


def _cell(name: str, runs: Sequence[Drawn]) -> str:
    points, _ = curve(name)
    low, high = points.min(axis=0), points.max(axis=0)
    centre, extent = (low + high) / 2, float(max(high - low)) * 1.25
    scale = (_CELL - 16) / extent

    def path(array: Array, colour: str, width: float, opacity: float = 1.0) -> str:
        placed = (array - centre) * [scale, -scale] + _CELL / 2
        text = " ".join(f"{px:.1f},{py:.1f}" for px, py in placed)
        return (
            f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'stroke-opacity="{opacity}" stroke-linejoin="round"/>'
        )

    parts = [path(points, _CURVE, 3)]
    for run in runs:
        turn = _rotation(-run.start.heading)
        parts.append(path((run.path[::6, :2] - [run.start.x, run.start.y]) @ turn.T, _PATH, 1.2, 0.7))
    label = name
    if runs:
        cross = float(np.mean([run.error.cross_track for run in runs]))
        closure = float(np.mean([run.error.closure for run in runs]))
        label += f": {cross:.1f} mm RMS, end {closure:.1f} mm off"
    return _text(_CELL / 2, -8, label, anchor="middle", size=11) + "".join(parts) + _scale_bar(_BAR * scale)


def _scale_bar(length: float) -> str:
    """A bar in a cell's lower left corner, where no pattern begins or ends."""
    line = f'<path d="M8 {_CELL - 6}h{length:.1f}" stroke="#555555" stroke-width="2"/>'
    return line + _text(8, _CELL - 11, f"{_BAR} mm", size=9)


def _rotation(angle: float) -> Array:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def graph_picture(skills: Sequence[SkillState]) -> str:
    """Draw which skill is built on which, and how far each is; returns the SVG file's text."""
    levels: dict[str, int] = {}
    for name in SKILLS:
        levels[name] = 1 + max((levels[below] for below in needs(name)), default=-1)
    columns = [[name for name in SKILLS if levels[name] == level] for level in range(max(levels.values()) + 1)]
    tallest = max(map(len, columns))
    place: dict[str, tuple[float, float]] = {}
    for level, names in enumerate(columns):
        offset = (tallest - len(names)) / 2
        for row, name in enumerate(names):
            place[name] = (
                20 + level * (_NODE_WIDTH + _GAP_X),
                _HEAD + 14 + (row + offset) * (_NODE_HEIGHT + _GAP_Y),
            )
    parts = [_edge(place[below], place[name]) for name in SKILLS for below in needs(name)]
    parts += [_node(place[state.name], state) for state in skills]
    width = 20 + len(columns) * (_NODE_WIDTH + _GAP_X) - _GAP_X + 20
    height = _HEAD + 14 + tallest * (_NODE_HEIGHT + _GAP_Y)
    return _svg(width, height, "Skills, and what each is built on; green: learned, grey: to be shown", parts)


def _edge(below: tuple[float, float], above: tuple[float, float]) -> str:
    x1, y1 = below[0] + _NODE_WIDTH, below[1] + _NODE_HEIGHT / 2
    x2, y2 = above[0], above[1] + _NODE_HEIGHT / 2
    bend = max((x2 - x1) / 2, 24)
    return (
        f'<path d="M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}" '
        f'fill="none" stroke="#888888" stroke-width="1.5"/>'
    )


def _node(at: tuple[float, float], state: SkillState) -> str:
    colour = _LEARNED if state.learned else _OPEN
    runs = f"{state.runs} run{'s' * (state.runs != 1)}"
    figures = f"fitness {state.fitness:.2f}, {runs}" if state.tried else "not tried"
    return (
        f'<rect x="{at[0]:.0f}" y="{at[1]:.0f}" width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="6" fill="#ffffff" '
        f'stroke="{colour}" stroke-width="2.5"/>'
        + _text(at[0] + _NODE_WIDTH / 2, at[1] + 19, state.name, anchor="middle", size=13)
        + _text(at[0] + _NODE_WIDTH / 2, at[1] + 36, figures, anchor="middle", size=10)
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'font-family="sans-serif">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + _text(width / 2, 20, title, anchor="middle", size=14)
        + "\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )
