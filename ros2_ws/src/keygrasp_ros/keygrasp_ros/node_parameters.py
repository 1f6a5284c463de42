"""Parameters that are meant for one node of a graph, wherever its namespace is: from the command line and from files.

ROS 2 reads ``-p NODE:name:=value`` as a rule for ``/NODE`` alone, and passes over rules and sections for nodes that
don't exist: in a namespace, or with a misspelt name, they would do nothing without a word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from keygrasp.errors import ConfigurationError, suggestion

_RULE = re.compile(r"(\w+):(?!=)(.+)", re.DOTALL)
_MOST_BYTES = 1 << 20
_DEEPEST = 16


def split_by_node(ros: Sequence[str], names: Collection[str]) -> tuple[list[str], dict[str, list[str]]]:
    """ROS arguments for all nodes, and those that each node gets besides.

    Args:
        ros: ROS arguments without ``--ros-args``.
        names: Names of the graph's nodes.

    Raises:
        ConfigurationError: If a parameter is meant for a node that the graph doesn't hold.
    """
    common: list[str] = []
    own: dict[str, list[str]] = {name: [] for name in names}
    words = iter(ros)
    for word in words:
        rule = next(words, None) if word in ("-p", "--param") else None
        match = _RULE.fullmatch(rule or "")
        if match is None:
            common += [word] if rule is None else [word, rule]
        elif match[1] in own:
            own[match[1]] += [word, match[2]]
        else:
            raise ConfigurationError(f"'-p {rule}': this graph holds no node '{match[1]}'", suggestion(match[1], names))
    return common, own


def strange_sections(params: Path, names: Collection[str]) -> Iterator[str]:
    """What is said of each section of a parameter file whose node has none of the names; broken files are ROS's."""
    try:
        text = params.read_text(encoding="utf-8") if params.stat().st_size <= _MOST_BYTES else ""
        sections = list(_nodes(yaml.safe_load(text)))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return
    for name in sections:
        if name not in names and "*" not in name:
            yield f"{params}: no node is called '{name}'. {suggestion(name, names)}"


def _nodes(content: Any, key: str = "", depth: int = 0) -> Iterator[str]:
    """Names of the nodes for which there are parameters."""
    if not isinstance(content, dict) or depth > _DEEPEST:
        return
    for name, value in content.items():
        if name == "ros__parameters":
            yield key.rpartition("/")[2]
        else:
            yield from _nodes(value, str(name), depth + 1)
