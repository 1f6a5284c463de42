"""Numbers as the firmware's C++ library reads and prints them."""

from __future__ import annotations

import re

import numpy as np

_FLOAT = re.compile(r"\s*[-+]?\d*\.?\d*")


def print_float(value: float) -> str:
    """Two decimals, rounded half away from zero in single precision; a small negative number keeps its sign."""
    number = np.float32(value)
    sign = "-" if number < 0 else ""
    number = np.float32(abs(number) + np.float32(0.005))
    whole = int(number)
    digits = []
    rest = np.float32(number - np.float32(whole))
    for _ in range(2):
        rest = np.float32(rest * np.float32(10))
        digits.append(str(int(rest)))
        rest = np.float32(rest - np.float32(int(rest)))
    return f"{sign}{whole}.{''.join(digits)}"


def read_float(text: str) -> float:
    """The number with which a text begins; 0 where it begins with none."""
    match = _FLOAT.match(text)
    try:
        return float(match.group()) if match else 0.0
    except ValueError:
        return 0.0


def words(line: str) -> list[tuple[str, float]]:
    """A line as letters with numbers; only spaces part words, so ``G1X10`` is the one word ``G1``."""
    return [(word[0], read_float(word[1:])) for word in line.split(" ") if word]
