"""What all commands print through: options by tyro, text by rich, plain where nobody watches."""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from keygrasp.errors import InputError, StorageError

T = TypeVar("T")
#: An option that may be left out and names a file or folder.
OptionalPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
#: The unit of a mesh file's numbers.
Unit = Annotated[Literal["m", "mm", "cm", "in"] | None, tyro.conf.arg(metavar="{m,mm,cm,in}", help_behavior_hint="")]
#: Options that take any number of names.
Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="")]
#: Width of what is written to a file or a pipe.
_PLAIN_WIDTH = 80


def parse(kind: Callable[..., T], argv: list[str], *, command: str) -> T:
    """Fill the dataclass ``kind`` (or a union of them, as sub-commands) from arguments.

    Wrong arguments print what was wrong on stderr and end with status 2; ``--help`` ends with 0.
    """
    paragraphs = inspect.cleandoc(kind.__doc__ or "").split("\n\n") if isinstance(kind, type) else []
    description = "\n\n".join(_wrapped(text) for text in paragraphs)
    return tyro.cli(kind, args=argv, prog=f"keygrasp {command}", description=description or None)


def _wrapped(paragraph: str) -> str:
    """A paragraph for a narrow terminal; tyro joins lines unless they begin with something else than a letter."""
    indent = " "
    return textwrap.fill(" ".join(paragraph.split()), _PLAIN_WIDTH, initial_indent=indent, subsequent_indent=indent)


class _Console(Console):
    """A console that lets the outermost frame decide what a broken pipe means."""

    def on_broken_pipe(self) -> None:
        """Called by rich while it handles the error."""
        raise  # noqa: PLE0704 - within the handler that calls this


def output() -> Console:
    """The console of results (stdout)."""
    return _console(stderr=False)


def progress_output() -> Console:
    """The console of progress and notes (stderr), so that results can be piped."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = _Console(stderr=stderr, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console.soft_wrap = True  # who reads it line by line gets lines as they are; tables keep their width
        if "COLUMNS" not in os.environ:
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


def results_folder(path: Path) -> Path:
    """Check before long work that results can go into a folder; it is made when the first is written.

    Raises:
        InputError: If it, or a folder above it, is a file.
        StorageError: If it can't be written.
    """
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not existing.is_dir():
        raise InputError(f"{existing} is a file, not a folder", "Name a folder for the results")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise StorageError(f"can't write into {existing}", "Choose another folder with the option for it")
    return path
