"""Many trials of any planners over worker processes: journalled, resumable, summarised as KG-1 asks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keygrasp.trials.config import TrialsConfig
    from keygrasp.trials.planners import FACTORIES, PlannerSpec, ScenePlanner, build_planner, planner_spec
    from keygrasp.trials.records import AttemptRecord, TrialRecord
    from keygrasp.trials.running import Progress, Results, run_trials

__all__ = [
    "FACTORIES",
    "AttemptRecord",
    "PlannerSpec",
    "Progress",
    "Results",
    "ScenePlanner",
    "TrialRecord",
    "TrialsConfig",
    "build_planner",
    "planner_spec",
    "run_trials",
]
#: Where each public name lives: whoever only draws a picture need not load the physics.
_HOMES = {
    "config": ("TrialsConfig",),
    "planners": ("FACTORIES", "PlannerSpec", "ScenePlanner", "build_planner", "planner_spec"),
    "records": ("AttemptRecord", "TrialRecord"),
    "running": ("Progress", "Results", "run_trials"),
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
