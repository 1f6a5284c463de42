"""``keygrasp outcomes``: fit the model that predicts from an image how a grasp would end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from keygrasp.cli import console, steps
from keygrasp.files import ensure_writable, write_json


@dataclass(frozen=True)
class Options:
    """Fit the outcome model to collected labels, and show how well it predicts those of other objects."""

    config: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="CONFIG.yaml", help_behavior_hint="")
    ] = None
    """Settings; without them configs/outcomes.yaml, or the defaults where there is no such file."""
    out: console.OptionalPath = None
    """Folder for the model and its report, instead of that of the settings."""
    device: Annotated[str | None, tyro.conf.arg(metavar="{auto,cpu,cuda}", help_behavior_hint="")] = None
    """Where to fit, instead of that of the settings."""
    json: console.OptionalPath = None
    """Also write the report to this file."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="outcomes")
    from keygrasp.refine.outcome_fit import OutcomeFitConfig, fit_outcomes

    config = steps.load_settings(
        OutcomeFitConfig, options.config, Path("configs/outcomes.yaml"), out=options.out, device=options.device
    )
    if options.json is not None:
        ensure_writable(options.json)
    with steps.StepBar("steps") as bar:
        report = fit_outcomes(config, lambda step, losses: bar.update(step, config.steps, losses))
    out = console.output()
    out.print(_table(report))
    out.print(f"model: {config.out / 'outcomes.safetensors'}", soft_wrap=True)
    if options.json is not None:
        write_json(options.json, report)
    return 0


def _table(report: dict[str, Any]) -> Any:
    """What was predicted how well, on the labels it was fitted to and on others."""
    parts = {"fitted": report["fit"], "other objects": report.get("validation")}
    parts = {name: part for name, part in parts.items() if part is not None}
    table = console.table("", *parts, title=f"{report['labels']:,} executed grasps")
    rows: dict[str, list[str]] = {}
    for part in parts.values():
        area = part["success"]["auroc"]
        figures = {
            "success: AUROC": "undefined" if area is None else f"{area:.3f}",
            "success: Brier score": f"{part['success']['brier']:.3f}",
            "cause: right": f"{part['cause_accuracy']:.3f}",
            "cause: always the most frequent": f"{part['most_frequent_cause']:.3f}",
        }
        for name, unit, scale in (("moved", "mm", 1e3), ("force", "N", 1.0)):
            if name in part:
                figures[f"{name}: mean error, {unit}"] = f"{scale * part[name]['mean_absolute_error']:.1f}"
                figures[f"{name}: that of the median, {unit}"] = f"{scale * part[name]['error_of_median']:.1f}"
                figures[f"{name}: rank correlation"] = f"{part[name]['rank_correlation']:.2f}"
        for label, text in figures.items():
            rows.setdefault(label, []).append(text)
    for label, texts in rows.items():
        table.add_row(label, *texts)
    return table
