"""The typed symbols of table-top grasping: what a state is called, in which unit, within which range.

One state is a :class:`SymbolicState`; N states are an array (N, D) of float64 *rows* with one column a symbol, in the
order of :data:`SYMBOLS`. Predicates, potentials, reward code and world models all read these columns, by name through
:data:`COLUMN`. Lengths are metres in the workspace frame, angles radians, booleans 0 or 1, categories their index.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array, wrap_half_turn


class SymbolKind(StrEnum):
    """What values a symbol takes."""

    REAL = "real"
    ANGLE = "angle"  # to a model: sine and cosine, so that there is no jump at the wrap
    BOOLEAN = "boolean"
    CATEGORY = "category"


@dataclass(frozen=True)
class Symbol:
    """One symbol.

    Attributes:
        name: Name of the column and of the field of :class:`SymbolicState`.
        kind: What values it takes.
        unit: ``m``, ``rad``, ``steps`` or empty.
        low: Least value.
        high: Largest value; an angle's ``high − low`` is its period.
        resolution: Step of :func:`quantise`: states that differ by less count as one.
        description: What it means.
        names: Names of a category's values, by index.
    """

    name: str
    kind: SymbolKind
    unit: str
    low: float
    high: float
    resolution: float
    description: str
    names: tuple[str, ...] = ()


#: Steps in a row that an object must have been held off the table to count as stable.
STABLE_STEPS = 10
#: Shape classes of objects; the last stands for whatever else a source calls its objects.
SHAPES = ("concave", "flat", "elongated", "compact", "other")
#: Colours of objects, in the order in which the simulator gives them out; the last where none is known.
COLOURS = ("orange", "blue", "green", "yellow", "purple", "red", "unknown")


def _length(name: str, low: float, high: float, description: str) -> Symbol:
    return Symbol(name, SymbolKind.REAL, "m", low, high, 0.005, description)


def _yaw(name: str, description: str) -> Symbol:
    return Symbol(name, SymbolKind.ANGLE, "rad", -math.pi / 2, math.pi / 2, math.pi / 36, description)


def _boolean(name: str, description: str) -> Symbol:
    return Symbol(name, SymbolKind.BOOLEAN, "", 0.0, 1.0, 1.0, description)


def _category(name: str, names: tuple[str, ...], description: str) -> Symbol:
    return Symbol(name, SymbolKind.CATEGORY, "", 0.0, len(names) - 1.0, 1.0, description, names)


SYMBOLS = (
    _length("object_x", -0.6, 0.6, "Middle of the object's bounding rectangle, along x."),
    _length("object_y", -0.6, 0.6, "Middle of the object's bounding rectangle, along y."),
    _length("object_z", -0.5, 1.0, "Half way between the object's lowest and highest point."),
    _yaw("object_yaw", "From x to the longer horizontal side of the object; a half turn is the same."),
    _length("object_length", 0.0, 0.5, "Longer horizontal side of the object."),
    _length("object_width", 0.0, 0.5, "Shorter horizontal side of the object."),
    _length("object_height", 0.0, 0.5, "Vertical size of the object."),
    _category("object_shape", SHAPES, "Shape class of the object."),
    _category("object_colour", COLOURS, "Colour of the object."),
    _length("gripper_x", -2.0, 2.0, "Middle between the fingertips, along x."),
    _length("gripper_y", -2.0, 2.0, "Middle between the fingertips, along y."),
    _length("gripper_z", -0.1, 2.5, "Lowest edge of the fingertips above the table."),
    _yaw("gripper_yaw", "From x to the closing axis; a half turn is the same."),
    _length("gripper_width", 0.0, 0.2, "Opening between the pads' inner faces."),
    _boolean("contact_left", "Whether the left pad touches the object."),
    _boolean("contact_right", "Whether the right pad touches the object."),
    _length("height", -1.0, 1.0, "How far the object has risen from where it rested."),
    Symbol(
        "held_steps", SymbolKind.REAL, "steps", 0.0, float(STABLE_STEPS), 1.0,
        "Steps in a row for which the object was grasped and lifted, at most as many as count as stable.",
    ),
    _boolean("in_target", "Whether the middle of the object is inside the task's target circle."),
)  # fmt: skip
#: Column of each symbol in a row.
COLUMN = {symbol.name: index for index, symbol in enumerate(SYMBOLS)}


@dataclass(frozen=True)
class SymbolicState:
    """One state in symbols; the fields are those of :data:`SYMBOLS`, which say units, frames and ranges.

    Yaws are wrapped to [-π/2, π/2) and values outside a symbol's range are clipped to it.

    Raises:
        InputError: If a value is not finite, or a category has no such value.
    """

    object_x: float
    object_y: float
    object_z: float
    object_yaw: float
    object_length: float
    object_width: float
    object_height: float
    object_shape: str
    object_colour: str
    gripper_x: float
    gripper_y: float
    gripper_z: float
    gripper_yaw: float
    gripper_width: float
    contact_left: bool = False
    contact_right: bool = False
    height: float = 0.0
    held_steps: int = 0
    in_target: bool = False

    def __post_init__(self) -> None:
        for symbol in SYMBOLS:
            object.__setattr__(self, symbol.name, _checked(symbol, getattr(self, symbol.name)))

    @property
    def grasped(self) -> bool:
        """Whether both pads touch the object."""
        return self.contact_left and self.contact_right

    def to_row(self) -> Array:
        """The state as a row (D,)."""
        values = (getattr(self, symbol.name) for symbol in SYMBOLS)
        pairs = zip(SYMBOLS, values, strict=True)
        return np.array([symbol.names.index(v) if symbol.names else v for symbol, v in pairs], dtype=float)

    @classmethod
    def from_row(cls, row: ArrayLike) -> SymbolicState:
        """The state of a row (D,).

        Raises:
            InputError: If the row has another length or a value that its symbol can't take.
        """
        values = check_rows(np.asarray(row, dtype=float)[None])[0]
        return cls(**{s.name: _from_column(s, float(v)) for s, v in zip(SYMBOLS, values, strict=True)})  # type: ignore[arg-type]

    def replace(self, **changes: float | str | bool) -> SymbolicState:
        """Copy with some values changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def check_rows(rows: Array) -> Array:
    """Refuse an array that can't be rows (N, D) of states.

    Raises:
        InputError: If the shape is another, or a value is not finite.
    """
    if rows.ndim != 2 or rows.shape[1] != len(SYMBOLS):
        raise InputError(f"states have shape {rows.shape}, expected (N, {len(SYMBOLS)})", "Stack rows of to_row()")
    if not np.all(np.isfinite(rows)):
        column = int(np.argwhere(~np.isfinite(rows))[0, 1])
        raise InputError(f"symbol {SYMBOLS[column].name} is not finite in a state", "Check where the state comes from")
    return rows


def quantise(rows: Array) -> NDArray[np.int32]:
    """Rows (N, D) as whole multiples (N, D) of the symbols' resolutions; angles wrap, values are clipped to ranges."""
    values = np.clip(check_rows(rows), _LOW, _HIGH)
    steps = np.rint(values / _RESOLUTION).astype(np.int32)
    periods = np.rint((_HIGH - _LOW) / _RESOLUTION).astype(np.int32)
    first = np.rint(_LOW / _RESOLUTION).astype(np.int32)
    return np.asarray(np.where(_IS_ANGLE, (steps - first) % periods + first, steps), dtype=np.int32)


def dequantise(steps: NDArray[np.int32]) -> Array:
    """Rows (N, D) that stand for quantised ones (N, D): equal steps give equal rows."""
    return np.asarray(steps * _RESOLUTION)


def features(rows: Array) -> Array:
    """Rows (N, D) for a model: reals scaled to [-1, 1], angles as sine and cosine, categories one-hot; (N, F)."""
    columns = []
    for symbol, values in zip(SYMBOLS, check_rows(rows).T, strict=True):
        if symbol.kind is SymbolKind.ANGLE:
            turns = 2 * np.pi / (symbol.high - symbol.low) * values
            columns += [np.sin(turns), np.cos(turns)]
        elif symbol.kind is SymbolKind.CATEGORY:
            columns += [(values == index).astype(float) for index in range(len(symbol.names))]
        else:
            middle, half = (symbol.high + symbol.low) / 2, (symbol.high - symbol.low) / 2
            columns.append(np.clip((values - middle) / half, -1, 1))
    return np.stack(columns, axis=1)


#: Columns of :func:`features`.
FEATURES = sum(
    2 if s.kind is SymbolKind.ANGLE else len(s.names) if s.kind is SymbolKind.CATEGORY else 1 for s in SYMBOLS
)
_LOW, _HIGH, _RESOLUTION = (np.array([getattr(s, name) for s in SYMBOLS]) for name in ("low", "high", "resolution"))
_IS_ANGLE = np.array([s.kind is SymbolKind.ANGLE for s in SYMBOLS])


def _checked(symbol: Symbol, value: float | str) -> float | str | bool | int:
    if symbol.kind is SymbolKind.CATEGORY:
        if value not in symbol.names:
            raise InputError(f"symbol {symbol.name} is {value!r}", f"Known: {', '.join(symbol.names)}")
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        raise InputError(f"symbol {symbol.name} is {number}", "A symbol must be finite")
    if symbol.kind is SymbolKind.ANGLE:
        return wrap_half_turn(number)
    if symbol.kind is SymbolKind.BOOLEAN:
        return bool(number)
    number = min(max(number, symbol.low), symbol.high)
    return round(number) if symbol.unit == "steps" else number


def _from_column(symbol: Symbol, value: float) -> float | str:
    if symbol.kind is not SymbolKind.CATEGORY:
        return value
    if not (value.is_integer() and 0 <= value < len(symbol.names)):
        raise InputError(f"symbol {symbol.name} is {value}", f"It must be an index of {', '.join(symbol.names)}")
    return symbol.names[int(value)]
