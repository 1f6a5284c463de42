"""The zero-shot study: what a model of one task's data is worth on other tasks, against five other ways.

Conditions, by what they know of a new task: ``plan`` and ``imagined`` (a Q-network) know its code and take no step
in the workspace; ``coupled`` has a reward head that is refitted on the relabelled episodes, and a Q-network that is
retrained with it; ``frozen`` keeps the old task's Q-network; ``scratch`` learns a Q-network by new steps in the
workspace alone; ``expert`` is scripted for the task and ``random`` knows nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keygrasp.sim.tabletop import Tabletop
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.imagination import train_in_imagination
from keygrasp.worldmodel.model import WorldModel
from keygrasp.worldmodel.planner import PlannerConfig
from keygrasp.worldmodel.policies import Planned, RandomActions, imagined_return
from keygrasp.worldmodel.qlearning import QAgent, QConfig, QPolicy
from keygrasp.worldmodel.reward_head import fit_reward_head
from keygrasp.worldmodel.rollouts import Policy, Scripted, episode_return, rewards_of, roll_out
from keygrasp.worldmodel.scratch import learn_in_workspace
from keygrasp.worldmodel.scripts import EXPERTS
from keygrasp.worldmodel.task_files import FileTask

Json = dict[str, Any]
CONDITIONS = ("random", "expert", "plan", "imagined", "coupled", "frozen", "scratch")
#: Seed of the first evaluated scene: none of these is collected.
_SCENES = 930_000


@dataclass(frozen=True)
class StudyConfig:
    """What is compared.

    Attributes:
        seeds: Models, each with weights, batches and scenes of its own.
        episodes: Scenes a seed and task.
        planner: Of ``plan``.
        imagination: Of the Q-networks.
        scratch_steps: Steps in the workspace from which ``scratch`` learns.
    """

    seeds: int = 5
    episodes: int = 3
    planner: PlannerConfig = field(default_factory=PlannerConfig)
    imagination: QConfig = field(default_factory=QConfig)
    scratch_steps: int = 5000


def scenes(seed: int, episodes: int) -> list[int]:
    """Seeds of the scenes on which a model's seed is evaluated."""
    return [_SCENES + 100 * seed + k for k in range(episodes)]


class Contender:
    """Makes the policy of each condition for one seed.

    Args:
        model: Trained with this seed.
        episodes: What it was trained on.
        old_task: The task of which the episodes come.
        config: Settings.
        seed: The seed.
    """

    def __init__(
        self, model: WorldModel, episodes: Sequence[Episode], old_task: FileTask, config: StudyConfig, seed: int
    ) -> None:
        self.model, self.episodes, self.old_task, self.config, self.seed = model, episodes, old_task, config, seed
        self._frozen: QAgent | None = None

    def policy(self, condition: str, task: FileTask, workspace: Tabletop) -> Policy:
        """The policy of a condition for a task; ``scratch`` alone acts in the workspace before."""
        if condition == "random":
            return RandomActions()
        if condition == "expert":
            return Scripted(EXPERTS[task.name])
        if condition == "plan":
            return Planned(self.model, task, self.config.planner)
        if condition == "frozen":
            if self._frozen is None:
                self._frozen = self._agent(self.old_task, None)
            return QPolicy(self._frozen)
        if condition == "scratch":
            settings = dataclasses.replace(self.config.imagination, seed=self.seed)
            return QPolicy(learn_in_workspace(workspace, task, self.config.scratch_steps, settings))
        reward = fit_reward_head(task, self.episodes, seed=self.seed) if condition == "coupled" else None
        return QPolicy(self._agent(task, reward))

    def _agent(self, task: FileTask, reward: Any) -> QAgent:
        settings = dataclasses.replace(self.config.imagination, seed=self.seed)
        return train_in_imagination(self.model, task, self.episodes, settings, reward=reward)


def run_one(workspace: Tabletop, contender: Contender, condition: str, task: FileTask) -> Json:
    """Returns of one condition, task and seed, JSON-ready."""
    policy = contender.policy(condition, task, workspace)
    layout, seed = contender.model.layout, contender.seed
    found = [
        roll_out(workspace, policy, layout, steps=task.steps, seed=scene, task=task)
        for scene in scenes(seed, contender.config.episodes)
    ]
    record: Json = {
        "condition": condition,
        "task": task.name,
        "seed": seed,
        "returns": [round(episode_return(episode, task), 4) for episode in found],
        "lengths": [len(episode) for episode in found],
        "new_steps_in_workspace": contender.config.scratch_steps if condition == "scratch" else 0,
    }
    if condition == "plan":
        record["predicted_minus_realised"] = prediction_gaps(contender.model, task, found)
    return record


def prediction_gaps(model: WorldModel, task: FileTask, episodes: Sequence[Episode], horizon: int = 12) -> list[float]:
    """Predicted minus realised return of each piece of ``horizon`` actions, a decision: the model's optimism."""
    gaps = []
    for episode in episodes:
        realised = rewards_of(episode, task)
        for t in range(0, len(episode) - horizon + 1, horizon):
            part = slice(t, t + horizon)
            expected = imagined_return(model, task, episode.symbols[t], episode.actions[part])
            gaps.append(round((expected - float(realised[part].sum())) / horizon, 5))
    return gaps


def normalised(records: Sequence[Json], condition: str, task: str) -> list[float]:
    """(R − R_random) / (R_expert − R_random) of each seed, by the means over its scenes."""

    def mean(which: str, seed: int) -> float:
        return float(
            np.mean([r["returns"] for r in records if (r["condition"], r["task"], r["seed"]) == (which, task, seed)])
        )

    seeds = sorted({r["seed"] for r in records if r["condition"] == condition and r["task"] == task})
    return [(mean(condition, s) - mean("random", s)) / (mean("expert", s) - mean("random", s)) for s in seeds]


def summary(records: Sequence[Json], tasks: Sequence[str], conditions: Sequence[str]) -> Json:
    """Normalised returns by condition and task: mean, least seed, and standard deviation over seeds.

    ``capped_mean`` counts no seed's value of a task as more than 1: scenes in which the expert fails can't raise it.
    """
    out: Json = {}
    for condition in conditions:
        rows = {task: normalised(records, condition, task) for task in tasks}
        rows = {task: values for task, values in rows.items() if values}
        if rows:
            means = {task: float(np.mean(values)) for task, values in rows.items()}
            out[condition] = {
                "mean": float(np.mean(list(means.values()))),
                "capped_mean": float(np.mean([np.mean(np.minimum(values, 1.0)) for values in rows.values()])),
                "worst_task": min(means.values()),
                "tasks": {
                    task: {"mean": means[task], "sd": float(np.std(values)), "seeds": values}
                    for task, values in rows.items()
                },
            }
    return out
