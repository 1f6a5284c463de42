"""How well a model predicts: R² of reals and F1 of contacts, open loop, several steps ahead, on held-out episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from keygrasp.scene.symbols import SymbolKind
from keygrasp.worldmodel.episodes import Episode, windows
from keygrasp.worldmodel.layout import UNIT_SCALE, Layout
from keygrasp.worldmodel.model import WorldModel

#: What varies by less than this share of its unit's scale has no R²: a millimetre, a tenth of a newton or of a step.
_LEAST_VARIATION = 0.01


@dataclass(frozen=True)
class SymbolScores:
    """Scores some steps ahead; ``None`` where there was nothing to be told apart.

    Attributes:
        steps: How many.
        r2: R² of each real symbol and angle, pooled over objects, by the symbol's name; ``None`` where the true values
            hardly vary (root mean square below a millimetre, a tenth of a newton or of a step): errors over next to
            nothing say nothing.
        r2_of_change: R² of the change since the prediction began: 0 for a model that says that all stays as it is;
            ``None``, too, where hardly anything changed, and 0 steps ahead.
        f1: F1 of each contact, pooled over objects; ``None`` without contacts.
        pieces: Predictions that were scored.
    """

    steps: int
    r2: dict[str, float | None]
    r2_of_change: dict[str, float | None]
    f1: dict[str, float | None]
    pieces: int


@torch.no_grad()
def symbol_scores(
    model: WorldModel, episodes: Sequence[Episode], steps: Sequence[int] = (1, 5, 15)
) -> list[SymbolScores]:
    """Score open-loop predictions that begin at every third row of episodes."""
    longest = max(steps)
    data = windows(episodes, longest, stride=3)
    whole = data.valid.all(dim=1)
    rows, actions = data.symbols[whole].to(model.device), data.actions[whole].to(model.device)
    belief = model.start(rows[:, 0])
    found = []
    for step in range(1, longest + 1):
        belief = model.step(belief, actions[:, step - 1])
        if step in steps:
            found.append(score_rows(model.layout, step, rows[:, 0], rows[:, step], belief.symbols))
    return found


def score_rows(layout: Layout, steps: int, start: Tensor, true: Tensor, predicted: Tensor) -> SymbolScores:
    """Scores of rows (N, D) that were ``predicted`` some steps after ``start``, where ``true`` ones came."""
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(layout.names):
        groups.setdefault(name.rpartition(".")[2], []).append(index)
    r2: dict[str, float | None] = {}
    change: dict[str, float | None] = {}
    f1: dict[str, float | None] = {}
    for name, columns in groups.items():
        symbol = layout.symbols[columns[0]]
        t, p, s = true[:, columns], predicted[:, columns], start[:, columns]
        if symbol.kind is SymbolKind.BOOLEAN:
            hits, there = float(((t > 0.5) & (p > 0.5)).sum()), float((t > 0.5).sum())
            f1[name] = 2 * hits / (there + float((p > 0.5).sum())) if there else None
        elif symbol.kind is SymbolKind.ANGLE:
            period = symbol.high - symbol.low
            turned, off = _wrapped(t - s, period), _wrapped(p - t, period)
            r2[name] = _r2(_circle(t, period), _circle(p, period), 1.0)
            change[name] = _r2(turned, turned + off, 1.0, about=0.0) if steps else None
        elif symbol.kind is SymbolKind.REAL:
            scale = UNIT_SCALE[symbol.unit]
            r2[name] = _r2(t, p, scale)
            change[name] = _r2(t - s, p - s, scale, about=0.0) if steps else None
    return SymbolScores(steps, r2, change, f1, len(true))


def _r2(true: Tensor, predicted: Tensor, scale: float, about: float | None = None) -> float | None:
    """1 − squared errors over squared distances from the mean of each column, or from ``about``; see SymbolScores."""
    centre = true.mean(dim=0) if about is None else about
    variation = (true - centre).square().mean()
    if float(variation.sqrt()) < _LEAST_VARIATION * scale:
        return None
    return 1 - float((true - predicted).square().mean() / variation)


def _circle(angle: Tensor, period: float) -> Tensor:
    turns = 2 * math.pi / period * angle
    return torch.cat([turns.sin(), turns.cos()], dim=1)


def _wrapped(angle: Tensor, period: float) -> Tensor:
    return torch.remainder(angle + period / 2, period) - period / 2
