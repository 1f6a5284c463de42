"""The layout between typed symbols and tensors: a gripper and several named objects in one row.

A *row* (..., D) holds the symbols as :mod:`keygrasp.scene.symbols` means them: metres, radians, newtons, 0 or 1, the
index of a category. Rewards, terminations and plans read rows. *Features* (..., F) are the same for a network: reals
over a scale of their unit, angles as sine and cosine, categories one-hot.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.scene.symbols import SYMBOLS, Symbol, SymbolicState, SymbolKind
from keygrasp.scene.tabletop import OBJECTS

#: What one stands for in the features of a real symbol, by its unit.
UNIT_SCALE = {"m": 0.1, "N": 10.0, "steps": 10.0, "": 1.0}
#: Largest sum of contact forces in newtons that is told apart.
MAX_FORCE = 100.0
_FORCE = Symbol(
    "gripper_force", SymbolKind.REAL, "N", 0.0, MAX_FORCE, 0.5,
    "Half the sum of the contact forces on the gripper, which is a grasp's force; mean over the last decision.",
)  # fmt: skip
#: Symbols of the gripper, which stand once in a row.
GRIPPER_SYMBOLS = (*(s for s in SYMBOLS if s.name.startswith("gripper_")), _FORCE)
#: Symbols that each object has. Whether it is in a target is the task's own matter, computed by its code.
OBJECT_SYMBOLS = tuple(s for s in SYMBOLS if not s.name.startswith("gripper_") and s.name != "in_target")


@dataclass(frozen=True)
class Layout:
    """Which symbols of which objects stand in which column.

    Attributes:
        objects: Names of the objects, without dots; their columns are named like ``red.object_x``.
    """

    objects: tuple[str, ...] = OBJECTS

    def __post_init__(self) -> None:
        if not 0 < len(self.objects) <= 16 or len(set(self.objects)) < len(self.objects):
            raise InputError(f"a layout can't have the objects {list(self.objects)}", "Give 1 to 16 different names")
        if any(not name.isidentifier() for name in self.objects):
            raise InputError(f"objects {list(self.objects)} must be named like identifiers", "Use letters and digits")

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        own = tuple(f"{name}.{s.name}" for name in self.objects for s in OBJECT_SYMBOLS)
        return (*(s.name for s in GRIPPER_SYMBOLS), *own)

    @functools.cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbol of each column, which says kind, unit and range."""
        return (*GRIPPER_SYMBOLS, *(s for _ in self.objects for s in OBJECT_SYMBOLS))

    @functools.cached_property
    def columns(self) -> dict[str, int]:
        """Column of each name."""
        return {name: index for index, name in enumerate(self.names)}

    @property
    def size(self) -> int:
        """Number of columns D."""
        return len(self.names)

    @functools.cached_property
    def feature_size(self) -> int:
        """Number of features F."""
        return sum(_feature_count(s) for s in self.symbols)

    def columns_of(self, name: str) -> slice:
        """Columns of an object, in the order of :data:`OBJECT_SYMBOLS`.

        Raises:
            InputError: If there is no such object.
        """
        if name not in self.objects:
            raise InputError(f"object '{name}' is not in the layout", f"Known: {', '.join(self.objects)}")
        first = len(GRIPPER_SYMBOLS) + self.objects.index(name) * len(OBJECT_SYMBOLS)
        return slice(first, first + len(OBJECT_SYMBOLS))

    def part(self, objects: tuple[str, ...]) -> tuple[Layout, list[int]]:
        """The layout of some of the objects, and the columns of this one that it has."""
        smaller = Layout(objects)
        own = [index for name in objects for index in range(self.size)[self.columns_of(name)]]
        return smaller, [*range(len(GRIPPER_SYMBOLS)), *own]

    # Between scenes and rows

    def row(self, states: Mapping[str, SymbolicState], force: float = 0.0) -> Array:
        """The row (D,) of float64 of what was observed.

        Args:
            states: The symbols of each object with the gripper's, as an observer gives them.
            force: Newtons, see ``gripper_force``.

        Raises:
            InputError: If an object is missing or the force is not finite.
        """
        missing = [name for name in self.objects if name not in states]
        if missing:
            raise InputError(f"no symbols of object '{missing[0]}'", f"Observe {', '.join(self.objects)}")
        if not math.isfinite(force):
            raise InputError(f"symbol gripper_force is {force}", "A symbol must be finite")
        rows = {name: states[name].to_row() for name in self.objects}
        gripper = rows[self.objects[0]][_GRIPPER_IN_SCENE]
        own = [rows[name][_OBJECT_IN_SCENE] for name in self.objects]
        return np.concatenate([gripper, [min(max(force, 0.0), MAX_FORCE)], *own])

    def states(self, row: Array | Tensor) -> dict[str, SymbolicState]:
        """Each object's symbols, with the gripper's, of a row (D,)."""
        values = self.check(torch.as_tensor(row)[None])
        return {
            name: SymbolicState.from_row(self.scene_rows(values, name)[0].cpu().double().numpy())
            for name in self.objects
        }

    def scene_rows(self, rows: Tensor, name: str) -> Tensor:
        """Rows (..., 19) of one object as :mod:`keygrasp.scene.predicates` reads them; ``in_target`` is 0."""
        own = rows[..., self.columns_of(name)]
        scene = rows.new_zeros((*rows.shape[:-1], len(SYMBOLS)))
        scene[..., _GRIPPER_IN_SCENE] = rows[..., : len(_GRIPPER_IN_SCENE)]
        scene[..., _OBJECT_IN_SCENE] = own
        return scene

    def check(self, rows: Tensor) -> Tensor:
        """Refuse a tensor that can't be rows (..., D).

        Raises:
            InputError: If the last dimension is not D, or a value is not finite; names the symbol.
        """
        if rows.ndim < 1 or rows.shape[-1] != self.size:
            raise InputError(
                f"rows have shape {tuple(rows.shape)}, expected (..., {self.size})", "Stack rows of Layout.row()"
            )
        if not bool(torch.isfinite(rows).all()):
            column = int(torch.argwhere(~torch.isfinite(rows))[0, -1])
            raise InputError(f"symbol {self.names[column]} is not finite", "Check where the rows come from")
        return rows

    # Between rows and features

    def features(self, rows: Tensor) -> Tensor:
        """Features (..., F) of rows (..., D)."""
        parts = []
        for index, symbol in enumerate(self.symbols):
            value = rows[..., index]
            if symbol.kind is SymbolKind.ANGLE:
                turns = 2 * math.pi / (symbol.high - symbol.low) * value
                parts += [turns.sin(), turns.cos()]
            elif symbol.kind is SymbolKind.CATEGORY:
                parts += [(value == k).to(rows.dtype) for k in range(len(symbol.names))]
            else:
                parts.append(value / UNIT_SCALE[symbol.unit])
        return torch.stack(parts, dim=-1)

    def from_features(self, features: Tensor) -> Tensor:
        """Rows (..., D) of features (..., F), such as a decoder's: within ranges, booleans 1 above a half."""
        rows, at = [], 0
        for symbol in self.symbols:
            part = features[..., at : (at := at + _feature_count(symbol))]
            if symbol.kind is SymbolKind.ANGLE:
                value = torch.atan2(part[..., 0], part[..., 1]) * (symbol.high - symbol.low) / (2 * math.pi)
            elif symbol.kind is SymbolKind.CATEGORY:
                value = part.argmax(dim=-1).to(features.dtype)
            elif symbol.kind is SymbolKind.BOOLEAN:
                value = (part[..., 0] > 0.5).to(features.dtype)
            else:
                value = (part[..., 0] * UNIT_SCALE[symbol.unit]).clamp(symbol.low, symbol.high)
            rows.append(value)
        return torch.stack(rows, dim=-1)


def _feature_count(symbol: Symbol) -> int:
    if symbol.kind is SymbolKind.ANGLE:
        return 2
    return len(symbol.names) if symbol.kind is SymbolKind.CATEGORY else 1


_SCENE = [s.name for s in SYMBOLS]
_GRIPPER_IN_SCENE = [_SCENE.index(s.name) for s in GRIPPER_SYMBOLS if s is not _FORCE]
_OBJECT_IN_SCENE = [_SCENE.index(s.name) for s in OBJECT_SYMBOLS]
