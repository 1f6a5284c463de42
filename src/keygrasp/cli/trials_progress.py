"""Progress of trials: a bar with live figures on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from keygrasp.cli import console

if TYPE_CHECKING:
    from keygrasp.trials.running import Progress as TrialsState

#: Seconds between lines where the output is not a terminal.
_LINE_SECONDS = 30.0


def _bar(what: str) -> Progress:
    return Progress(
        TextColumn(what),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console.progress_output(),
        expand=True,
    )


class TrialsProgress:
    """Shows the state of a run; a context manager.

    Args:
        planners: Names of the planners, in the order in which their figures are shown.
    """

    def __init__(self, planners: Sequence[str]) -> None:
        self._planners = planners
        self._console = console.progress_output()
        self._bar = _bar("scenes")
        self._task = self._bar.add_task("", total=None)
        self._live = Live(console=self._console, refresh_per_second=4, transient=True, auto_refresh=True)
        self._next_line = 0.0

    def __enter__(self) -> TrialsProgress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(self, state: TrialsState) -> None:
        """Show a new state."""
        if self._console.is_terminal:
            self._bar.update(self._task, completed=state.done, total=state.total)
            shown = [self._bar, self._figures(state)] if state.trials else [self._bar]
            self._live.update(Group(*shown))
            return
        now = time.monotonic()
        if now >= self._next_line or state.done == state.total:
            self._next_line = now + _LINE_SECONDS
            self._console.print(self._line(state), soft_wrap=True)

    def _figures(self, state: TrialsState) -> Text:
        """Single-shot success so far."""
        text = Text("single-shot  ", style="dim")
        for name, rate in self._rates(state):
            text.append(f"{name} ", style="default")
            text.append(f"{rate}   ", style="bold default")
        if state.resumed:
            text.append(f"({state.resumed} from before)", style="dim")
        return text

    def _line(self, state: TrialsState) -> str:
        figures = [f"{name} {rate}" for name, rate in self._rates(state)]
        return ", ".join([f"{state.done}/{state.total} scenes", *figures])

    def _rates(self, state: TrialsState) -> Iterator[tuple[str, str]]:
        for name in self._planners:
            trials = state.trials.get(name, 0)
            if trials:
                yield name, f"{100 * state.successes.get(name, 0) / trials:.1f}%"


@contextlib.contextmanager
def drawing_progress() -> Iterator[Callable[[int, int], None]]:
    """A bar for the pictures of a report; silent where the output is not a terminal."""
    bar = _bar("pictures of failures")
    bar.live.transient = True
    if not bar.console.is_terminal:
        yield lambda done, total: None
        return
    with bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
