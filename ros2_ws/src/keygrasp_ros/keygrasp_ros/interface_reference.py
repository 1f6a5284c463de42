"""The page docs/interfaces.md, made from the interface files (``python -m keygrasp_ros.interface_reference FILE``)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ament_index_python.packages import get_package_share_directory

PACKAGE = "keygrasp_interfaces"
#: Sections of each kind of interface, in the order of its file.
SECTIONS = {"msg": ("",), "srv": ("Request", "Response"), "action": ("Goal", "Result", "Feedback")}
_FIELD = re.compile(
    r"(?P<type>[A-Za-z][\w/]*(?:<=\d+)?(?:\[[^\]]*\])?)\s+(?P<name>[A-Za-z]\w*)\s*(?:=\s*(?P<value>.+))?"
)


@dataclass(frozen=True)
class Field:
    """One field or constant.

    Attributes:
        section: Part of the interface that holds it; empty for a message.
        type: Its type.
        name: Its name.
        value: A constant's value, empty for a field.
        text: The comment directly above it; empty where there is none.
    """

    section: str
    type: str
    name: str
    value: str
    text: str


@dataclass(frozen=True)
class Interface:
    """One interface file: its name such as ``msg/Grasp``, what it says at its head, and its fields."""

    name: str
    text: str
    fields: tuple[Field, ...]


def interfaces(folder: Path) -> Iterator[Interface]:
    """The interfaces of a package's folder, by kind and name."""
    for kind in SECTIONS:
        for path in sorted((folder / kind).glob(f"*.{kind}")):
            if path.is_file():  # an installed link to a file that was renamed since then points nowhere
                yield parse(f"{kind}/{path.stem}", path.read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Interface:
    """Read an interface file: a comment belongs to the field that follows it without an empty line between."""
    sections = iter(SECTIONS[name.split("/", maxsplit=1)[0]])
    section, head, fields, above = next(sections), "", [], []
    for line in [*text.splitlines(), ""]:
        match = _FIELD.match(line)
        if line.startswith("#"):
            above.append(line.lstrip("# ").rstrip())
        elif match is not None:
            value = match["value"] or ""
            fields.append(Field(section, match["type"], match["name"], value.strip(), " ".join(above)))
            above = []
        else:
            if not fields and not head:
                head = " ".join(above)
            above = []
            section = next(sections) if line.startswith("---") else section
    return Interface(name, head, tuple(fields))


def page(folder: Path) -> str:
    """The page as Markdown."""
    parts = [
        "# Interfaces",
        f"The messages, services and actions of `{PACKAGE}`, as their files say; generated, see {_command()}. SI units "
        "and radians everywhere; the workspace frame is the centre of the table's surface, z up.",
    ]
    for interface in interfaces(folder):
        parts += [f"## {interface.name}", interface.text]
        for section in dict.fromkeys(field.section for field in interface.fields):
            rows = [field for field in interface.fields if field.section == section]
            parts += [f"**{section}**"] if section else []
            table = ["| Field | Type | What |", "| --- | --- | --- |"]
            table += [
                f"| `{_shown(field)}` | `{field.type}` | {field.text.replace('|', chr(92) + '|')} |" for field in rows
            ]
            parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"


def _shown(field: Field) -> str:
    return f"{field.name} = {field.value}" if field.value else field.name


def _command() -> str:
    return "`python -m keygrasp_ros.interface_reference`"


if __name__ == "__main__":
    text = page(Path(get_package_share_directory(PACKAGE)))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        print(text)
