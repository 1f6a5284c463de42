"""Trials where they teach most: the difficulty of all samples from trials of a few, and budgets that follow it.

Needs numpy and scipy alone (pynndescent, extra ``graph``, for more samples than an exact search of neighbours takes).
The model, its fixes and what they are worth are in docs/curriculum.md.
"""

from keygrasp.curriculum.allocation import Allocation, AllocationConfig, mixed_probability
from keygrasp.curriculum.difficulty import DifficultyConfig, GraphDifficulty
from keygrasp.curriculum.estimates import Estimate, Estimator
from keygrasp.curriculum.scheduler import SCHEDULERS, Scheduler, SchedulerName, Visits, make_scheduler

__all__ = [
    "SCHEDULERS",
    "Allocation",
    "AllocationConfig",
    "DifficultyConfig",
    "Estimate",
    "Estimator",
    "GraphDifficulty",
    "Scheduler",
    "SchedulerName",
    "Visits",
    "make_scheduler",
    "mixed_probability",
]
