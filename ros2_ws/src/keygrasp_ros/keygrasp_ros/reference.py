"""The tables of docs/ros.md, made from what the nodes declare: ``python -m keygrasp_ros.reference docs/ros.md``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from keygrasp_ros.graph import NODES
from keygrasp_ros.message_types import type_name
from keygrasp_ros.parameters import Parameter
from keygrasp_ros.topics import ACTIONS, SERVICES, TOPICS

BEGIN, END = "<!-- generated tables -->", "<!-- end of generated tables -->"


def parameters_of_nodes() -> dict[str, tuple[Parameter, ...]]:
    """Parameters of each node of the graph."""
    return {spec.name: importlib.import_module(spec.module).PARAMETERS for spec in NODES}


def tables() -> str:
    """Topics, services, actions and parameters as Markdown."""
    parts = [
        "## Topics",
        _table(
            ("Topic", "Type", "From", "Reliability", "Durability", "What"),
            [
                (
                    f"`{t.name}`",
                    type_name(t.type),
                    t.publisher,
                    _word(t.qos.reliability),
                    _word(t.qos.durability),
                    t.description,
                )
                for t in TOPICS
            ],
        ),
        "## Services",
        _table(("Service", "Type", "Server", "What"), [_endpoint(e) for e in SERVICES]),
        "## Actions",
        _table(("Action", "Type", "Server", "What"), [_endpoint(e) for e in ACTIONS]),
        "## Parameters",
    ]
    shared: dict[Parameter, str] = {}
    for node, parameters in parameters_of_nodes().items():
        own = [p for p in parameters if p not in shared]
        others = sorted({shared[p] for p in parameters if p in shared})
        note = f"Also those of {' and '.join(others)} that have the same names." if others else ""
        parts += [f"### {node}", note, _table(("Parameter", "Default", "Range", "What"), [_parameter(p) for p in own])]
        shared.update(dict.fromkeys(own, node))
    return "\n\n".join(part for part in parts if part) + "\n"


def update(path: Path) -> None:
    """Put the tables between the marks of a Markdown file."""
    head, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    path.write_text(f"{head}{BEGIN}\n\n{tables()}\n{END}{tail}", encoding="utf-8")


def _endpoint(endpoint: object) -> tuple[str, ...]:
    return (f"`{endpoint.name}`", type_name(endpoint.type), endpoint.server, endpoint.description)


def _parameter(parameter: Parameter) -> tuple[str, ...]:
    value = parameter.default
    default = list(value) if isinstance(value, tuple) else str(value).lower() if isinstance(value, bool) else value
    text = parameter.description + ("" if parameter.read_only else " Can be set while running.")
    return (f"`{parameter.name}`", f"`{default if default != '' else repr('')}`", parameter.range_text, text)


def _word(policy: object) -> str:
    return policy.name.lower().replace("_", " ")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    import sys

    if len(sys.argv) > 1:
        update(Path(sys.argv[1]))
    else:
        print(tables())
