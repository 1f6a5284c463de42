"""``keygrasp report``: write the page of earlier trials again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from keygrasp.cli import console


@dataclass(frozen=True)
class Options:
    """Write the report of earlier trials again, from the folder of results or its JSON file."""

    results: Annotated[Path, tyro.conf.Positional]
    """Folder of results, or a file that 'keygrasp trials --json' wrote (then without pictures)."""
    out: console.OptionalPath = None
    """Where to write the page, instead of report.html beside the results."""
    pictures: int = 12
    """Most pictures of failures of each planner."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="report")
    from keygrasp.cli.trials_progress import drawing_progress
    from keygrasp.trials.report import rewrite_report

    with drawing_progress() as on_scene:
        page = rewrite_report(options.results, options.out, pictures=options.pictures, on_scene=on_scene)
    console.output().print(f"report: {page}", soft_wrap=True)
    return 0
