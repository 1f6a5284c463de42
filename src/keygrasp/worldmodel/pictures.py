"""Imagined against real: the workspace from above and its symbols over time, as one SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import torch
from torch import Tensor

from keygrasp.scene.tabletop import DECISION_SECONDS, REACH_HIGH
from keygrasp.worldmodel.layout import Layout

#: Colours of objects by name, and of what is imagined (Okabe and Ito).
_COLOURS = {"red": "#c0392b", "blue": "#2b5fb4", "other": "#8a8a84"}
_GRIPPER, _INK, _GRID = "#111111", "#333333", "#dddddd"
_TOP, _CHART_W, _CHART_H, _GAP, _TITLE = 430, 400, 104, 38, 66
_HALF = REACH_HIGH[0] + 0.06


def rollout_picture(layout: Layout, real: Tensor, imagined: Tensor, deviation: Tensor, title: str, subject: str) -> str:
    """Draw an episode and what the model imagined for the same actions, open loop from its first row.

    Args:
        layout: Which symbols.
        real: (T+1, D) rows.
        imagined: (T+1, D) rows.
        deviation: (T+1, D) the model's deviations.
        title: Heading.
        subject: The object whose symbols are drawn over time.

    Returns:
        The SVG file's text. Solid is real, dashed is imagined.
    """
    body = [
        _text(20, 26, title, size=16),
        _text(20, 46, "solid: real · dashed: imagined, open loop · bands: two deviations between members", size=11),
    ]
    body.append(f'<g transform="translate(20 {_TITLE})">{_from_above(layout, real, imagined)}</g>')
    charts = (
        ("height of the tips", "m", [("gripper_z", _GRIPPER)]),
        ("opening", "m", [("gripper_width", _GRIPPER)]),
        (f"rise of the {subject} block", "m", [(f"{subject}.height", _COLOURS.get(subject, _INK))]),
        ("force", "N", [("gripper_force", _GRIPPER)]),
    )
    for index, (label, unit, lines) in enumerate(charts):
        x, y = _TOP + 78, _TITLE + index * (_CHART_H + _GAP)
        parts = [(layout.columns[name], colour) for name, colour in lines]
        body.append(f'<g transform="translate({x} {y})">{_chart(label, unit, parts, real, imagined, deviation)}</g>')
    width, height = _TOP + 78 + _CHART_W + 24, _TITLE + 4 * (_CHART_H + _GAP) + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif">\n'
        f'<title>{escape(title)}</title>\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _from_above(layout: Layout, real: Tensor, imagined: Tensor) -> str:
    """Paths of the gripper and the objects, with the objects' outlines at the beginning and at the end.

    What lies outside is cut off: a picture in a picture.
    """
    parts = [f'<rect width="{_TOP}" height="{_TOP}" fill="#f7f7f5" stroke="{_GRID}"/>']
    reach = _pixels(torch.tensor([[-REACH_HIGH[0], REACH_HIGH[1]], [REACH_HIGH[0], -REACH_HIGH[1]]]))
    (x0, y0), (x1, y1) = reach[0].tolist(), reach[1].tolist()
    parts.append(
        f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" fill="#ffffff" '
        f'stroke="{_GRID}"/>'
    )
    for name in layout.objects:
        colour = _COLOURS.get(name, _INK)
        own = layout.columns_of(name)
        parts.append(_outline(real[0, own], colour, fill=True))
        parts.append(_outline(real[-1, own], colour))
        parts.append(_outline(imagined[-1, own], colour, dashed=True))
        parts.append(_path(real[:, own][:, :2], colour))
        parts.append(_path(imagined[:, own][:, :2], colour, dashed=True))
    parts.append(_path(real[:, :2], _GRIPPER))
    parts.append(_path(imagined[:, :2], _GRIPPER, dashed=True))
    x, y = _pixels(real[:1, :2])[0].tolist()
    parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_GRIPPER}"/>')
    caption = _text(0, _TOP + 16, "from above, 52 cm wide · filled: objects at the beginning · dot: gripper", size=10)
    return f'<svg width="{_TOP}" height="{_TOP}">{"".join(parts)}</svg>{caption}'


def _outline(own: Tensor, colour: str, *, fill: bool = False, dashed: bool = False) -> str:
    x, y, _, yaw, length, width = own[:6].tolist()
    cos, sin = math.cos(yaw), math.sin(yaw)
    corners = [(a * length / 2, b * width / 2) for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
    points = _pixels(torch.tensor([[x + cos * a - sin * b, y + sin * a + cos * b] for a, b in corners]))
    text = " ".join(f"{px:.1f},{py:.1f}" for px, py in points.tolist())
    style = f'fill="{colour}" fill-opacity="0.25"' if fill else 'fill="none"'
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<polygon points="{text}" {style} stroke="{colour}" stroke-width="1.2"{dash}/>'


def _path(places: Tensor, colour: str, *, dashed: bool = False) -> str:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in _pixels(places).tolist())
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.8"{dash} stroke-linejoin="round"/>'


def _pixels(places: Tensor) -> Tensor:
    return (places * torch.tensor([1.0, -1.0]) + _HALF) * (_TOP / (2 * _HALF))


def _chart(
    label: str, unit: str, lines: Sequence[tuple[int, str]], real: Tensor, imagined: Tensor, deviation: Tensor
) -> str:
    columns = [column for column, _ in lines]
    both = torch.cat([real[:, columns], imagined[:, columns]])
    low, high = min(0.0, float(both.min())), float(both.max())
    high = max(high, low + 1e-3) * 1.05
    steps = len(real) - 1

    def at(values: Tensor) -> list[tuple[float, float]]:
        return [
            (_CHART_W * t / steps, _CHART_H * (1 - (min(max(v, low), high) - low) / (high - low)))
            for t, v in enumerate(values.tolist())
        ]

    parts = [f'<rect width="{_CHART_W}" height="{_CHART_H}" fill="#ffffff" stroke="{_GRID}"/>']
    for column, colour in lines:
        up, down = (
            at(imagined[:, column] + 2 * deviation[:, column]),
            at(imagined[:, column] - 2 * deviation[:, column]),
        )
        band = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*up, *reversed(down)])
        parts.append(f'<polygon points="{band}" fill="{colour}" fill-opacity="0.12"/>')
        for values, dash in ((real, ""), (imagined, ' stroke-dasharray="5 4"')):
            text = " ".join(f"{x:.1f},{y:.1f}" for x, y in at(values[:, column]))
            parts.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
    parts.append(_text(0, -6, f"{label} in {unit}", size=11))
    parts.append(
        _text(-6, 10, f"{high:.2f}", size=10, anchor="end")
        + _text(-6, _CHART_H, f"{round(low, 2) + 0.0:.2f}", size=10, anchor="end")  # no minus before a 0
    )
    parts.append(_text(_CHART_W, _CHART_H + 13, f"{steps * DECISION_SECONDS:.1f} s", size=10, anchor="end"))
    return "".join(parts)


def _text(x: float, y: float, text: str, *, size: int, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{_INK}" text-anchor="{anchor}">{escape(text)}</text>'
    )
