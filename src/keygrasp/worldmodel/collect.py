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
#: Probabilities that a grip that changes while something is carried becomes any, a weak one, or an opening one.
_REGRIP = (0.4, 0.4, 0.2)
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
    behaviours: tuple[str, ...] = ("random", "random", "random", "scripted")
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
    """Random behaviour that knows no task, made of motions that last a few decisions, with a grasp reflex.

    A motion is one of: drifting with correlated noise; going to a random pose at a random object, or to a random
    point; and, where the last one went to an object, more often than not squeezing what is between the fingers and
    carrying it to a random point. Grips, yaws, heights and places are random. A gripper that only trembles in the air
    would hardly ever touch anything, and one without the reflex hardly ever lift it.
    """

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        self._random = np.random.default_rng(seed)
        self._left = 0
        self._motion, self._drift, self._grip = "drift", np.zeros(4), 0.0

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        random = self._random
        if self._left == 0:
            self._begin(view)
        self._left -= 1
        self._drift = 0.7 * self._drift + 0.7 * random.normal(0, 0.6, 4)
        if self._motion == "drift":
            action = np.append(self._drift, self._grip)
        elif self._motion == "squeeze":
            action = np.append(0.1 * self._drift, self._grip)
        elif self._motion == "carry":
            state = view.states[self._object]
            if random.random() < 0.3:  # held things are squeezed harder, less, or let go on the way
                self._grip = float(
                    random.choice([random.uniform(0, 1), random.uniform(0, 0.2), random.uniform(-1, 0)], p=_REGRIP)
                )
            action = towards(state, *self._point, state.gripper_yaw + self._turn, self._grip)
            if float(np.abs(action[:3]).max()) < 0.3:
                self._left = 0  # there
            action[:4] *= self._pace
        else:
            state = view.states[self._object]
            x, y = state.object_x + self._offset[0], state.object_y + self._offset[1]
            # Down on what is below only when it is near; across the table a little higher.
            far = math.hypot(x - state.gripper_x, y - state.gripper_y) > 0.03
            z = max(self._point[2], 0.055) if far and self._over else self._point[2]
            action = towards(state, x, y, z, across(state) + self._turn, self._grip)
            if float(np.abs(action[:4]).max()) < 0.3:
                self._left = 0  # there
            action[:4] += 0.15 * self._drift
        return np.asarray(np.clip(action, -1, 1))

    def _begin(self, view: TabletopView) -> None:
        """Choose the next motion."""
        random = self._random
        if self._motion == "approach" and random.random() < 0.75:
            self._motion, self._left, self._grip = "squeeze", int(random.integers(3, 5)), float(random.uniform(0, 1))
            return
        if self._motion == "squeeze" and random.random() < 0.85:
            self._motion, self._left = "carry", int(random.integers(2, 11))
            self._turn = float(random.normal(0, 0.5))
        else:
            self._motion = str(random.choice(["drift", "approach", "approach", "approach"]))
            self._left = int(random.integers(3, 9)) if self._motion == "drift" else int(random.integers(6, 16))
            self._grip = float(random.uniform(-1, -0.5) if random.random() < 0.85 else random.uniform(-0.5, 1))
            self._object = str(random.choice(OBJECTS))
            self._turn = float(random.normal(0, 0.25) if random.random() < 0.7 else random.uniform(-1.5, 1.5))
        self._offset = random.normal(0, 0.015, 2)
        self._over = bool(random.random() < 0.75)
        self._pace = float(random.uniform(0.3, 1.0))
        low = random.uniform(REACH_LOW[2], 0.02) if random.random() < 0.75 else random.uniform(0.02, REACH_HIGH[2])
        if self._motion == "carry":
            low = random.uniform(REACH_LOW[2], REACH_HIGH[2])
        x, y = random.uniform(REACH_LOW[:2], REACH_HIGH[:2])
        self._point = (float(x), float(y), float(low))


class Curious:
    """Seeks what the model's members disagree about, with a small planner; several decisions of a plan are taken.

    Args:
        model: The model so far.
    """

    #: Decisions of a plan that are taken.
    TAKEN = 4

    def __init__(self, model: WorldModel) -> None:
        self._model = model
        nothing = CodeTask("nothing", lambda step: step.after.new_zeros(len(step.after)), model.layout)
        settings = PlannerConfig(samples=32, elites=6, iterations=2, horizon=8, kept=3, penalty=-1.0)
        self._planner = Planner(model, nothing, settings)
        self._actions: list[Array] = []

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        self._planner.reset(seed)
        self._actions = []

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        if not self._actions:
            found = self._planner.search(self._model.start(row[None].to(self._model.device)))
            self._actions = list(found[: self.TAKEN].cpu().double().numpy())
        return self._actions.pop(0)


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
