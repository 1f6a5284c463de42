"""A symbolic state as text, for people, logs and language models."""

from __future__ import annotations

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.scene.predicates import PREDICATES, misalignment, relative_offset
from keygrasp.scene.symbols import SYMBOLS, SymbolKind, check_rows


def state_text(row: Array) -> str:
    """A row (D,) as one ``name = value unit`` line a symbol, then the relative offset and the predicates that hold."""
    rows = check_rows(np.asarray(row, dtype=float)[None])
    lines = []
    for symbol, value in zip(SYMBOLS, rows[0], strict=True):
        if symbol.kind is SymbolKind.CATEGORY:
            lines.append(f"{symbol.name} = {symbol.names[int(value)]}")
        elif symbol.kind is SymbolKind.BOOLEAN:
            lines.append(f"{symbol.name} = {'yes' if value else 'no'}")
        else:
            digits = 0 if symbol.unit == "steps" else 3
            lines.append(f"{symbol.name} = {value:.{digits}f} {symbol.unit}")
    along, across, up = relative_offset(rows)[0]
    lines.append(f"object relative to the fingertips = {along:.3f} m along, {across:.3f} m across, {up:.3f} m up")
    lines.append(f"angle between closing axis and shorter side = {np.degrees(misalignment(rows)[0]):.0f} degrees")
    lines.append(f"true now: {', '.join(held) if (held := holding(rows[0])) else 'nothing'}")
    return "\n".join(lines)


def holding(row: Array) -> tuple[str, ...]:
    """Names of the predicates that hold in a row (D,)."""
    return tuple(name for name, predicate in PREDICATES.items() if bool(predicate(row)))
