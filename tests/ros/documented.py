"""Commands that stand in the documentation, for tests that run them."""

import shlex
from pathlib import Path

from node_nursery import run_node, run_up

DOCS = Path(__file__).parents[2] / "docs"


def commands(page, heading):
    """The words of each command in the ``sh`` blocks under a heading of second order."""
    section = (DOCS / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = [block.partition("```")[0] for block in section.split("```sh\n")[1:]]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    assert lines, f"no command under '{heading}' in {page}"
    return [shlex.split(line, comments=True) for line in lines]


def forked(words):
    """What a command that starts nodes does, as a function for ``fork``; ``None`` for another command."""
    if words[:2] == ["keygrasp", "up"]:
        return run_up(*words[2:])
    if words[:3] == ["python", "-m", "keygrasp_ros.executables"]:
        assert words[4:5] in ([], ["--ros-args"])
        return run_node(words[3], *words[5:])
    return None
