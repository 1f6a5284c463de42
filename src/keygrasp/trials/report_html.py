"""A report as one HTML file: no network, no scripts, light and dark."""

from __future__ import annotations

import base64
import math
from pathlib import Path
from typing import Any

from keygrasp.extras import require
from keygrasp.trials.report_charts import rate_bar, stacked_bar
from keygrasp.trials.report_model import RATE_COLUMNS, Picture, PlannerSummary, Rate, Report

_TEMPLATES = Path(__file__).parent / "templates"
#: Names of the costs in the order in which the bars show them.
_COSTS = ("scene", "planning", "physics", "rollouts", "credit assignment", "reward")


def template(name: str) -> Any:
    """A template of this package with the filters of all pages; it escapes every name from outside."""
    jinja2 = require("jinja2", "grasp")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=percent, interval=interval, points=points, words=words, seconds=seconds, data_url=_data_url
    )
    environment.globals.update(rate_bar=rate_bar, stacked_bar=stacked_bar, stylesheet=_stylesheet())
    return environment.get_template(name)


def render(report: Report) -> str:
    """The page as text."""
    columns = [c for c in RATE_COLUMNS if any(_measured(planner, c[0]) for planner in report.planners)]
    text: str = template("report.html.j2").render(
        report=report,
        columns=columns,
        costs=_cost_names(report),
        compared=any(planner.against and planner.name != "reference" for planner in report.planners),
        galleries=_galleries(report),
        worst=_most_failures(report),
    )
    return text


def percent(value: float | None) -> str:
    """A share as per cent with one decimal; a dash where there is none."""
    return "–" if value is None or not math.isfinite(value) else f"{100 * value:.1f}%"


def interval(rate: Rate) -> str:
    """The 95% interval in per cent, such as ``71–82``."""
    return f"{100 * rate.low:.0f}–{100 * rate.high:.0f}"


def points(value: float) -> str:
    """A difference of shares in percentage points with its sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def words(name: str) -> str:
    """An identifier as words."""
    return name.replace("_", " ")


def seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _measured(planner: PlannerSummary, key: str) -> bool:
    return key in planner.rates and planner.rates[key].trials > 0


def _most_failures(report: Report) -> int:
    """The largest number of failures of one planner, the full width of the bars of causes."""
    return max((sum(planner.causes.values()) for planner in report.planners), default=0)


def _galleries(report: Report) -> dict[str, list[Picture]]:
    """Pictures by planner, in the order of the planners."""
    galleries: dict[str, list[Picture]] = {}
    for picture in report.pictures:
        galleries.setdefault(picture.planner, []).append(picture)
    return galleries


def _cost_names(report: Report) -> list[str]:
    found = {name for planner in report.planners for name in planner.costs_s}
    return [name for name in _COSTS if name in found] + sorted(found - set(_COSTS))


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _stylesheet() -> Any:
    """The style sheet, marked as safe: it is a file of this package."""
    markup = require("markupsafe", "grasp").Markup
    return markup((_TEMPLATES / "report.css").read_text(encoding="utf-8"))
