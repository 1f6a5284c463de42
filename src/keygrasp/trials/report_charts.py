"""Small charts as inline SVG: numbers in, markup out. Names never enter here; the page escapes and places them.

Every chart is one bar that stretches to the width of its place, so that a page reads well in any window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keygrasp.extras import require

if TYPE_CHECKING:
    from markupsafe import Markup


def rate_bar(value: float, low: float, high: float) -> Markup:
    """A bar of a share in [0, 1] with the whisker of its interval."""
    v, a, b = (_share(x) * 100 for x in (value, low, high))
    ticks = "".join(f'<line class="tick" x1="{x}" x2="{x}" y1="0" y2="20"/>' for x in (25, 50, 75))
    whisker = (
        f'<line class="whisker" x1="{a:.2f}" x2="{b:.2f}" y1="10" y2="10"/>'
        f'<line class="whisker" x1="{a:.2f}" x2="{a:.2f}" y1="5.5" y2="14.5"/>'
        f'<line class="whisker" x1="{b:.2f}" x2="{b:.2f}" y1="5.5" y2="14.5"/>'
    )
    bar = f'<rect class="bar" x="0" y="2" width="{v:.2f}" height="16"/>'
    return _svg(f'<rect class="track" x="0" y="2" width="100" height="16"/>{bar}{ticks}{whisker}')


def stacked_bar(parts: Sequence[tuple[int, float]], whole: float) -> Markup:
    """Parts of a whole side by side.

    Args:
        parts: Index of the colour (class ``c0``, ``c1`` …) and size of each part.
        whole: Size of the full width; what the parts leave stays empty.
    """
    x, pieces = 0.0, []
    for colour, size in parts:
        width = 100 * _share(size / whole) if whole > 0 else 0.0
        width = min(width, 100 - x)
        pieces.append(f'<rect class="c{int(colour)}" x="{x:.2f}" y="2" width="{width:.2f}" height="16"/>')
        x += width
    return _svg('<rect class="track" x="0" y="2" width="100" height="16"/>' + "".join(pieces))


def _share(value: float) -> float:
    """``value`` within [0, 1]; 0 where it isn't a number."""
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


def _svg(content: str) -> Markup:
    markup: type[Markup] = require("markupsafe", "grasp").Markup
    return markup(f'<svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">{content}</svg>')
