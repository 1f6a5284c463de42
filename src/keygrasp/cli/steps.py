"""What long commands share: settings from a file and the command line, and a bar with figures."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from keygrasp.cli import console
from keygrasp.configuration import load_config

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)

#: Seconds between lines where the output is not a terminal.
_LINE_SECONDS = 30.0


def load_settings(kind: type[Settings], path: Path | None, default: Path, **changes: Any) -> Settings:
    """Settings from a YAML file, with what the command line changes.

    Args:
        kind: The dataclass of the settings.
        path: The file; ``None`` takes ``default`` where it exists, else the dataclass's own values.
        default: File that is used where none is named.
        **changes: Values that replace the file's; ``None`` leaves it.

    Raises:
        ConfigurationError: If the file can't be read or a value is wrong.
    """
    file = path if path is not None else (default if default.is_file() else None)
    settings = load_config(file, kind) if file is not None else kind()
    return dataclasses.replace(settings, **{name: value for name, value in changes.items() if value is not None})


class StepBar:
    """Progress of one long loop with its newest figures; plain lines where the output is not a terminal.

    Args:
        what: What is counted.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._console = console.progress_output()
        self._bar = Progress(
            TextColumn(what),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}", style="dim"),
            console=self._console,
            expand=True,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, figures="")
        self._next_line = 0.0

    def __enter__(self) -> StepBar:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:  # elsewhere rich would print an empty line
            self._bar.stop()

    def update(self, done: int, total: int, figures: Mapping[str, float]) -> None:
        """Show how far the loop is."""
        text = "  ".join(f"{name} {value:.4g}" for name, value in list(figures.items())[:2])
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, total=total, figures=text)
            return
        now = time.monotonic()
        if now >= self._next_line or done == total:
            self._next_line = now + _LINE_SECONDS
            self._console.print(f"{done}/{total} {self._what}  {text}".rstrip(), soft_wrap=True)
