"""Message types by name: their classes, and their definitions as recordings carry them."""

from __future__ import annotations

import functools
import importlib
import json
import re
from pathlib import Path
from typing import Any

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

from keygrasp.errors import InputError

_NAME = re.compile(r"([a-z][a-z0-9_]*)/(msg)/([A-Z][A-Za-z0-9]*)")
_FIELD = re.compile(r"\s*([A-Za-z][\w/]*)(?:<=\d+)?(?:\[[^\]]*\])?\s+\w+")
#: Between the definitions of the types that a schema needs, by the convention of ``ros2msg``.
_SEPARATOR = "=" * 80


def type_name(kind: type) -> str:
    """Name such as ``sensor_msgs/msg/Image`` of a message, service or action class."""
    package, folder = kind.__module__.split(".")[:2]
    return f"{package}/{folder}/{kind.__name__}"


def message_class(name: str) -> Any:
    """The class of a message type.

    Raises:
        InputError: If the name is none, or its package is not installed.
    """
    package, folder, short = _parts(name)
    try:
        return getattr(importlib.import_module(f"{package}.{folder}"), short)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"message type '{name}' is not installed", "Build or source the package that has it"
        ) from error


@functools.cache
def definition(name: str) -> str:
    """The text of a type's ``.msg`` file, followed by those of all types that it contains.

    Raises:
        InputError: If a file is not installed.
    """
    texts = {name: _text(name)}
    waiting = _contained(name, texts[name])
    while waiting:
        other = waiting.pop(0)
        if other not in texts:
            texts[other] = _text(other)
            waiting += _contained(other, texts[other])
    first, *others = texts
    parts = [texts[first]]
    for other in others:
        package, _, short = _parts(other)
        parts.append(f"{_SEPARATOR}\nMSG: {package}/{short}\n{texts[other]}")
    return "\n".join(parts)


@functools.cache
def type_hash(name: str) -> str:
    """The type's hash (REP-2011), empty where the package was built without one."""
    package, folder, short = _parts(name)
    path = _share(package) / folder / f"{short}.json"
    if not path.is_file():
        return ""
    hashes = json.loads(path.read_text(encoding="utf-8")).get("type_hashes", [])
    return next((entry["hash_string"] for entry in hashes if entry["type_name"] == name), "")


def _contained(name: str, text: str) -> list[str]:
    """Full names of the message types among a definition's fields, in order."""
    package = _parts(name)[0]
    found = []
    for line in text.splitlines():
        field = _FIELD.match(line.partition("#")[0])
        if field is None:
            continue
        head, _, tail = field[1].rpartition("/")
        if tail[0].isupper():
            found.append(f"{head.removesuffix('/msg') or package}/msg/{tail}")
    return found


def _text(name: str) -> str:
    package, folder, short = _parts(name)
    path = _share(package) / folder / f"{short}.msg"
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"can't read the definition of '{name}' at {path}", "Install the package anew") from error


def _share(package: str) -> Path:
    try:
        return Path(get_package_share_directory(package))
    except PackageNotFoundError as error:
        raise InputError(f"package '{package}' is not installed", "Build or source it") from error


def _parts(name: str) -> tuple[str, str, str]:
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(f"'{name}' is no message type", "Name it like sensor_msgs/msg/Image")
    return match[1], match[2], match[3]
