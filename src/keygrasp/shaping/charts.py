"""Learning curves as one SVG picture: mean of the seeds with the band of their middle half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from keygrasp.geometry.poses import Array

#: Colours that colour-blind people can tell apart (Okabe and Ito).
_COLOURS = ("#555555", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00")
_WIDTH, _HEIGHT = 756, 396
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 166, 56, 50
#: Points that are drawn of a curve, at most.
_POINTS = 240


@dataclass(frozen=True, eq=False)
class Curve:
    """One curve.

    Attributes:
        name: Its label.
        x: (P,) episodes.
        runs: (seeds, P) values in [0, 1].
    """

    name: str
    x: Array
    runs: Array


def learning_chart(
    title: str, x_label: str, y_label: str, curves: Sequence[Curve], *, left: float = 0.0, top: float = 1.0
) -> str:
    """Draw curves from ``left`` on, with values in [0, ``top``]; returns the SVG file's text."""
    curves = [Curve(curve.name, curve.x - left, curve.runs / top) for curve in curves]
    right = max(float(curve.x[-1]) for curve in curves)
    parts = [_text(_WIDTH / 2, 22, title, size=15, anchor="middle"), *_axes(left, right, top, x_label, y_label)]
    for index, curve in enumerate(curves):
        parts += _curve(curve, right, _COLOURS[index % len(_COLOURS)])
        y = _TOP + 16 + 20 * index
        colour = _COLOURS[index % len(_COLOURS)]
        parts.append(f'<rect x="{_WIDTH - _RIGHT + 14}" y="{y - 9}" width="14" height="10" fill="{colour}"/>')
        parts.append(_text(_WIDTH - _RIGHT + 34, y, curve.name))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _curve(curve: Curve, right: float, colour: str) -> list[str]:
    chosen = np.unique(np.linspace(0, len(curve.x) - 1, min(_POINTS, len(curve.x))).astype(int))
    x, runs = curve.x[chosen], curve.runs[:, chosen]
    low, high = np.quantile(runs, [0.25, 0.75], axis=0)
    band = [*zip(x, high, strict=True), *reversed([*zip(x, low, strict=True)])]
    middle = list(zip(x, runs.mean(axis=0), strict=True))
    return [
        f'<polygon points="{_points(band, right)}" fill="{colour}" fill-opacity="0.15"/>',
        f'<polyline points="{_points(middle, right)}" fill="none" stroke="{colour}" stroke-width="2"/>',
    ]


def _axes(left: float, right: float, top: float, x_label: str, y_label: str) -> list[str]:
    parts = []
    digits = 0 if right >= 8 else 1
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        (x, _), (_, y) = _place(share * right, 0, right), _place(0, share, right)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{share * top:.3g}", anchor="end"))
        parts.append(_text(x, _HEIGHT - _BOTTOM + 18, f"{left + share * right:.{digits}f}", anchor="middle"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, x_label, anchor="middle"))
    parts.append(_text(_LEFT, _TOP - 8, y_label))
    return parts


def _place(x: float, y: float, right: float) -> tuple[float, float]:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return _LEFT + width * x / max(right, 1e-9), _TOP + height * (1 - min(max(y, 0.0), 1.0))


def _points(pairs: Sequence[tuple[float, float]], right: float) -> str:
    return " ".join("{:.1f},{:.1f}".format(*_place(float(x), float(y), right)) for x, y in pairs)


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'
