"""Collecting episodes in the workspace: random, scripted and novelty-seeking behaviour, resumed where it stopped."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.scene.tabletop import ACTIONS, OBJECTS, REACH_HIGH, REACH_LOW
from keygrasp.sim.tabletop import Tabletop, TabletopView
from keygrasp.worldmodel.episodes import Episode, read_episode, write_episode
from keygrasp.worldmodel.experts import across, towards
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.model import WorldModel
from keygrasp.worldmodel.planner import Planner, PlannerConfig
from keygrasp.worldmodel.rollouts import Policy, Scripted, roll_out
from keygrasp.worldmodel.scripts import EXPERTS
from keygrasp.worldmodel.task_files import CodeTask

BEHAVIOURS = ("random", "scripted", "novelty")
#: Least and largest number of decisions of an episode.
_LENGTHS = (25, 60)


@dataclass(frozen=True)
class CollectConfig:
    """What is collected.

    Attributes:
        episodes: Episodes in the folder afterwards.
        behaviours: What acts, in turn.
        task: Task of the scripted behaviour; the others know none.
        noise: Standard deviation of what is added to the script's motions.
        images: Whether overhead pictures are kept.
        seed: Seed of the first episode; each has its own.
    """

    episodes: int = 500
    behaviours: tuple[str, ...] = ("random", "scripted")
    task: str = "reach_red"
    noise: float = 0.4
    images: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.episodes <= 1_000_000:
            raise ConfigurationError(f"collect: episodes is {self.episodes}", "Give 1 to 1,000,000")
        unknown = [name for name in self.behaviours if name not in BEHAVIOURS]
        if unknown or not self.behaviours:
            raise ConfigurationError(f"collect: behaviours {unknown} are unknown", f"Known: {', '.join(BEHAVIOURS)}")
        if self.task not in EXPERTS:
            raise ConfigurationError(f"collect: no script for task '{self.task}'", f"Known: {', '.join(EXPERTS)}")


class Babbling:
    """Random behaviour that knows no task: smooth random motions, and random poses at random objects.

    A new one of these begins every few decisions: motions with correlated noise and a random grip; or a walk to a
    point within some centimetres of a random object, with a random yaw and grip. A gripper that only trembles in the
    air would hardly ever touch anything.
    """

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        self._random = np.random.default_rng(seed)
        self._left = 0
        self._drift = np.zeros(4)

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        random = self._random
        if self._left == 0:
            self._left = int(random.integers(2, 9))
            self._object = str(random.choice(OBJECTS)) if random.random() < 0.7 else ""
            self._grip = float(random.uniform(-1, 1))
            self._offset = random.normal(0, 0.025, 2)
            self._z = float(random.choice([random.uniform(REACH_LOW[2], 0.04), random.uniform(0.05, REACH_HIGH[2])]))
            self._turn = float(random.choice([random.normal(0, 0.3), random.uniform(-math.pi / 2, math.pi / 2)]))
        self._left -= 1
        self._drift = 0.7 * self._drift + 0.7 * random.normal(0, 0.6, 4)
        if not self._object:
            return np.asarray(np.clip(np.append(self._drift, self._grip), -1, 1))
        state = view.states[self._object]
        x, y = state.object_x + self._offset[0], state.object_y + self._offset[1]
        action = towards(state, x, y, self._z, across(state) + self._turn, self._grip)
        action[:4] += 0.3 * self._drift
        return np.asarray(np.clip(action, -1, 1))


class Curious:
    """Seeks what the model's members disagree about, with a small planner.

    Args:
        model: The model so far.
    """

    def __init__(self, model: WorldModel) -> None:
        self._model = model
        nothing = CodeTask("nothing", lambda step: step.after.new_zeros(len(step.after)), model.layout)
        settings = PlannerConfig(samples=64, elites=10, iterations=2, horizon=8, kept=4, penalty=-1.0)
        self._planner = Planner(model, nothing, settings)

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        self._planner.reset(seed)

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        plan = self._planner.plan(self._model.start(row[None].to(self._model.device)))
        return np.asarray(plan.actions[0].cpu().double().numpy())


def episode_path(folder: Path, number: int) -> Path:
    """Where an episode is kept."""
    return folder / f"episode-{number:06d}.safetensors"


def collect(
    folder: Path,
    config: CollectConfig,
    *,
    layout: Layout | None = None,
    model: WorldModel | None = None,
    progress: Callable[[int, int, dict[str, float]], None] | None = None,
) -> int:
    """Collect the episodes that are missing in a folder; each is on disk before the next begins.

    Args:
        folder: Where they go.
        config: What.
        layout: Symbols.
        model: For novelty-seeking behaviour.
        progress: Called with episodes done, episodes in all, and decisions.

    Returns:
        Decisions of all episodes in the folder.

    Raises:
        ConfigurationError: If novelty is to be sought without a model.
        InputError: If an episode that is there is damaged.
        StorageError: If one can't be written.
    """
    layout = layout or Layout()
    if "novelty" in config.behaviours and model is None:
        raise ConfigurationError("novelty can't be sought without a model", "Train one on random episodes first")
    script = EXPERTS[config.task]
    policies: dict[str, Policy] = {"random": Babbling(), "scripted": Scripted(script, config.noise)}
    if model is not None:
        policies["novelty"] = Curious(model)
    decisions = 0
    with Tabletop(images=config.images) as workspace:
        for number in range(config.episodes):
            path = episode_path(folder, number)
            if path.exists():
                decisions += len(read_episode(path, layout))
            else:
                episode = _one(workspace, policies, config, number, layout)
                write_episode(path, episode, layout)
                decisions += len(episode)
            if progress is not None:
                progress(number + 1, config.episodes, {"decisions": decisions})
    return decisions


def _one(
    workspace: Tabletop, policies: dict[str, Policy], config: CollectConfig, number: int, layout: Layout
) -> Episode:
    behaviour = config.behaviours[number % len(config.behaviours)]
    seed = config.seed + number
    steps = int(np.random.default_rng([seed, len(ACTIONS)]).integers(_LENGTHS[0], _LENGTHS[1] + 1))
    with torch.no_grad():
        return roll_out(workspace, policies[behaviour], layout, steps=steps, seed=seed, behaviour=behaviour)
