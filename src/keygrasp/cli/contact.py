"""``keygrasp contact``: fit the contact model that labels grasps without physics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from keygrasp.cli import console, steps


@dataclass(frozen=True)
class Options:
    """Fit the contact model to collected labels, and show how often it agrees with physics on objects held out."""

    config: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="CONFIG.yaml", help_behavior_hint="")
    ] = None
    """Settings; without them configs/contact.yaml, or the defaults where there is no such file."""
    out: console.OptionalPath = None
    """Folder for the model and its report, instead of that of the settings."""
    device: Annotated[str | None, tyro.conf.arg(metavar="{auto,cpu,cuda}", help_behavior_hint="")] = None
    """Where to fit, instead of that of the settings."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="contact")
    from keygrasp.experience.contact_fit import ContactFitConfig, fit_contact_model

    config = steps.load_settings(
        ContactFitConfig, options.config, Path("configs/contact.yaml"), out=options.out, device=options.device
    )
    with steps.StepBar("scenes") as bar:
        report = fit_contact_model(config, lambda done, total: bar.update(done, total, {}))
    found = report["agreement"]
    table = Table(title=f"{report['held_out_objects']} of {report['objects']} objects held out")
    table.add_column("outcome")
    table.add_column("grasps", justify="right")
    for name, count in found["confusion"].items():
        table.add_row(name, f"{count}")
    out = console.output()
    out.print(table)
    area = "undefined" if found["auroc"] is None else f"{found['auroc']:.3f}"
    out.print(f"balanced accuracy {found['balanced_accuracy']:.3f}, AUROC {area}, Brier score {found['brier']:.3f}")
    out.print(f"model: {config.out / 'contact.safetensors'}", soft_wrap=True)
    return 0
