"""Values of command-line options, for ``argparse``: a wrong one is answered with what is right."""

from __future__ import annotations

import argparse
import math
from pathlib import Path


def count(text: str) -> int:
    """A whole number from 0."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"'{text}' is no count: give a whole number, 0 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time from 0, finite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"'{text}' is no time: give seconds, 0 or more")
    return value


def png_path(text: str) -> Path:
    """A path of a picture, which is written as PNG."""
    if not text.lower().endswith(".png"):
        raise argparse.ArgumentTypeError(f"'{text}' does not end in .png: pictures are written as PNG alone")
    return Path(text)
