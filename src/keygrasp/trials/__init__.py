"""Many trials of any planners over worker processes: journalled, resumable, summarised as KG-1 asks."""

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
