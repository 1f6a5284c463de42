"""The table at the end of trials."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from keygrasp.cli.console import table
from keygrasp.trials.summary import intervals_in_words

Json = dict[str, Any]

#: Key in the summary and heading of each rate.
_RATES = (
    ("single_shot", "single-shot"),
    ("up_to_three", "up to three"),
    ("tail", "tail"),
    ("kept", "kept"),
    ("robust", "robust"),
    ("no_candidate", "none found"),
)


def print_summary(out: Console, summary: Json) -> None:
    """Print one row a planner: rates in per cent with their 95% intervals below, and the median planning time."""
    planners = list(summary["planners"].values())
    rates = [(key, heading) for key, heading in _RATES if any(_trials(planner.get(key)) for planner in planners)]
    grid = table("planner", *(heading for _, heading in rates), "plan ms")
    for planner in planners:
        cells = [_cell(planner.get(key)) for key, _ in rates]
        grid.add_row(f"[bold]{_plain(planner['planner'])}[/bold]", *cells, _milliseconds(planner["plan_ms"].get("p50")))
    out.print()
    out.print(grid)
    scenes = max((_trials(planner["single_shot"]) for planner in planners), default=0)
    how = intervals_in_words(planner.get(key) for planner in planners for key, _ in rates)
    out.print(f"[dim]{scenes} scenes; below each share its 95% interval: {how}[/dim]")
    for planner in planners:
        for key, what in (("faults", "trials could not be carried out"), ("unreachable", "grasps were out of reach")):
            if planner.get(key):
                out.print(f"{_plain(planner['planner'])}: {planner[key]} {what}")


def _plain(name: str) -> str:
    """A name that rich doesn't take for markup."""
    return name.replace("[", r"\[")


def _trials(rate: Json | None) -> int:
    return int(rate["trials"]) if rate else 0


def _cell(rate: Json | None) -> str:
    if not _trials(rate) or rate is None:
        return "–"
    low, high = rate["interval"]
    return f"{100 * rate['successes'] / rate['trials']:.1f}%\n[dim]{100 * low:.0f}–{100 * high:.0f}[/dim]"


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
