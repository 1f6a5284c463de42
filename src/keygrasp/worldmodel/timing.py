"""What one decision of the planner takes."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import torch

from keygrasp.sim.tabletop import Tabletop
from keygrasp.worldmodel.ensemble import Ensemble
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.model import WorldModel
from keygrasp.worldmodel.planner import Planner, PlannerConfig
from keygrasp.worldmodel.policies import focused
from keygrasp.worldmodel.task_files import FileTask, RewardTask


def planning_seconds(
    model: WorldModel, task: RewardTask, workspace: Tabletop, config: PlannerConfig | None = None, decisions: int = 20
) -> dict[str, Any]:
    """Seconds of decisions in one scene, JSON-ready: by the clock and of all processors, and how busy the machine was.

    The first decision is not counted.
    """
    config = config or PlannerConfig()
    view = workspace.reset(0)
    row = torch.as_tensor(Layout().row(view.states, view.force), dtype=torch.float32, device=model.device)
    row = row[Layout().part(model.layout.objects)[1]]
    planner, belief = Planner(model, task, config), model.start(row[None])
    planner.search(belief)
    clock, work = [], []
    for _ in range(decisions):
        begun, used = time.perf_counter(), time.process_time()
        planner.search(belief)
        clock.append(time.perf_counter() - begun)
        work.append(time.process_time() - used)
    return {
        "decisions": decisions,
        "median_s": float(np.median(clock)),
        "p90_s": float(np.quantile(clock, 0.9)),
        "least_s": min(clock),
        "median_processor_s": float(np.median(work)),
        "threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],
        "objects": list(model.layout.objects),
        "samples": config.samples,
        "horizon": config.horizon,
        "iterations": config.iterations,
    }


def decision_times(model: WorldModel, task: FileTask, workspace: Tabletop) -> dict[str, dict[str, Any]]:
    """:func:`planning_seconds` with all objects, and of an ensemble also with those that the task is about alone."""
    found = {"all objects": planning_seconds(model, task, workspace)}
    if isinstance(model, Ensemble):
        smaller, about, _ = focused(model, task)
        found["the task's objects"] = planning_seconds(smaller, about, workspace)
    return found
