"""What all commands print through: options by tyro, text by rich, plain where nobody watches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from keygrasp.errors import InputError

T = TypeVar("T")
#: An option that may be left out and names a file or folder.
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
#: Width of what is written to a file or a pipe.
_PLAIN_WIDTH = 80


def parse(kind: type[T], argv: list[str], *, command: str) -> T:
    """Fill the dataclass ``kind`` (or a union of them, as sub-commands) from arguments.

    Wrong arguments print what was wrong on stderr and end with status 2; ``--help`` ends with 0.
    """
    return tyro.cli(kind, args=argv, prog=f"keygrasp {command}")


def output() -> Console:
    """The console of results (stdout)."""
    return _console(stderr=False)


def progress_output() -> Console:
    """The console of progress and notes (stderr), so that results can be piped."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PLAIN_WIDTH
    return console


def table(*columns: str, title: str | None = None) -> Table:
    """A table whose first column is text and whose others are figures."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for index, heading in enumerate(columns):
        if index == 0:
            grid.add_column(heading, overflow="fold")
        else:
            grid.add_column(heading, justify="right", no_wrap=True)
    return grid


def writable_folder(path: Path) -> Path:
    """Check that a folder can be written before long work begins; makes it.

    Raises:
        InputError: If it is a file.
        StorageError: Through the outermost frame, if it can't be made.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, not a folder", "Name a folder for the results")
    path.mkdir(parents=True, exist_ok=True)
    return path
