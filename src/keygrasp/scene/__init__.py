"""The nouns: views, height maps, keypoints, grasps, outcomes, what a planner is; symbols of a state, and tasks."""

from keygrasp.scene.grasps import GraspPlan, GripperSpec, PlanarGrasp
from keygrasp.scene.heightmap import HeightMap, Segment
from keygrasp.scene.keypoints import ROWS, TOTAL_ROWS, KeypointKind, Keypoints
from keygrasp.scene.outcomes import Outcome, Stage, TrialOutcome
from keygrasp.scene.planning import Attempt, Planner, ReachFilter
from keygrasp.scene.symbols import SYMBOLS, SymbolicState
from keygrasp.scene.tasks import Task, TaskKind
from keygrasp.scene.views import OverheadView

__all__ = [
    "ROWS",
    "SYMBOLS",
    "TOTAL_ROWS",
    "Attempt",
    "GraspPlan",
    "GripperSpec",
    "HeightMap",
    "KeypointKind",
    "Keypoints",
    "Outcome",
    "OverheadView",
    "PlanarGrasp",
    "Planner",
    "ReachFilter",
    "Segment",
    "Stage",
    "SymbolicState",
    "Task",
    "TaskKind",
    "TrialOutcome",
]
