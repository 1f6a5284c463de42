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
from keygrasp.scene.symbols import SymbolicState
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
#: Share of the force below which a grip is weak.
_WEAK = 0.12
#: Probability that a held object is carried on to another place.
_ON = 0.7
#: Probabilities that a grip is kept on the way, slackens, or changes; and of each decision that it then does.
_HANDLING, _CHANGE = (0.5, 0.2, 0.3), 0.3
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
    carrying it on, to one random place after another while it is held: anywhere, straight up or down, or past another
    object. Grips, yaws, heights and places are random; weak grips are as frequent as strong ones, and a grip is kept
    on the way, slackens slowly, or changes at random. A gripper that only trembles in the air would hardly ever touch
    anything, and one without the reflex hardly ever lift it.
    """

    def reset(self, view: TabletopView, seed: int) -> None:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        self._random = np.random.default_rng(seed)
        self._left = 0
        self._motion, self._drift, self._grip = "drift", np.zeros(4), 0.0
        self._object: str = OBJECTS[0]

    def act(self, view: TabletopView, row: Tensor) -> Array:
        """See :class:`keygrasp.worldmodel.rollouts.Policy`."""
        if self._left == 0:
            self._begin(view)
        self._left -= 1
        self._drift = 0.7 * self._drift + 0.7 * self._random.normal(0, 0.6, 4)
        if self._motion == "drift":
            action = np.append(self._drift, self._grip)
        elif self._motion == "squeeze":
            action = np.append(0.1 * self._drift, self._grip)
        elif self._motion == "carry":
            action = self._carry(view.states[self._object])
        else:
            action = self._approach(view.states[self._object])
        return np.asarray(np.clip(action, -1, 1))

    def _carry(self, state: SymbolicState) -> Array:
        """Towards the present place with what is held, or was."""
        if self._handling == "slacken":
            self._grip *= self._slack
        elif self._handling == "change" and self._random.random() < _CHANGE:
            self._grip = self._any_grip()
        action = towards(state, *self._point, state.gripper_yaw + self._turn, self._grip)
        if float(np.abs(action[:3]).max()) < 0.3:
            self._left = 0  # there
        action[:4] *= self._pace
        return action

    def _approach(self, state: SymbolicState) -> Array:
        """Down on what is below only when it is near; across the table a little higher."""
        cos, sin = math.cos(state.object_yaw), math.sin(state.object_yaw)
        along, across_it = self._offset
        x, y = state.object_x + cos * along - sin * across_it, state.object_y + sin * along + cos * across_it
        far = math.hypot(x - state.gripper_x, y - state.gripper_y) > 0.03
        z = max(self._point[2], 0.055) if far and self._over else self._point[2]
        action = towards(state, x, y, z, across(state) + self._turn, self._grip)
        if float(np.abs(action[:4]).max()) < 0.3:
            self._left = 0  # there
        action[:4] += 0.15 * self._drift
        return action

    def _any_grip(self) -> float:
        """A grip that closes, weak ones as often as others, and now and then one that opens."""
        random, kind = self._random, self._random.random()
        if kind < 0.9:
            return float(random.uniform(0, _WEAK if kind < 0.45 else 1))
        return float(random.uniform(-1, 0))

    def _begin(self, view: TabletopView) -> None:
        """Choose the next motion."""
        random = self._random
        if self._motion == "approach" and random.random() < 0.8:
            self._motion, self._left = "squeeze", int(random.integers(3, 5))
            self._grip = abs(self._any_grip())
            return
        held = self._motion != "drift" and view.states[self._object].grasped
        if self._motion == "squeeze" or (self._motion == "carry" and held and random.random() < _ON):
            self._begin_carrying(view)
            return
        self._motion = str(random.choice(["drift", "approach", "approach", "approach"]))
        self._left = int(random.integers(3, 9)) if self._motion == "drift" else int(random.integers(6, 16))
        self._grip = float(random.uniform(-1, -0.5) if random.random() < 0.85 else random.uniform(-0.5, 1))
        self._object = str(random.choice(OBJECTS))
        self._turn = float(random.normal(0, 0.25) if random.random() < 0.7 else random.uniform(-1.5, 1.5))
        spread = 0.015 if random.random() < 0.5 else 0.03  # around the middle, or as far as an end
        self._offset = random.normal(0, (spread, 0.012))
        self._over = bool(random.random() < 0.75)
        low = random.uniform(REACH_LOW[2], 0.02) if random.random() < 0.75 else random.uniform(0.02, REACH_HIGH[2])
        self._point = (0.0, 0.0, float(low))

    def _begin_carrying(self, view: TabletopView) -> None:
        """Choose where to, and what becomes of the grip on the way."""
        random = self._random
        self._motion, self._left = "carry", int(random.integers(3, 12))
        self._turn = float(random.normal(0, 0.5) if random.random() < 0.7 else 0.0)
        self._pace = float(random.uniform(0.3, 1.0))
        self._handling = str(random.choice(["keep", "slacken", "change"], p=_HANDLING))
        self._slack = float(random.uniform(0.6, 0.95))
        state, kind = view.states[self._object], random.random()
        x, y = random.uniform(REACH_LOW[:2], REACH_HIGH[:2])
        z = random.uniform(REACH_LOW[2], REACH_HIGH[2])
        if kind < 0.35:  # straight up or down
            x, y = state.gripper_x, state.gripper_y
        elif kind < 0.55:  # past an object, or into it
            other = view.states[str(random.choice(OBJECTS))]
            x, y = np.array([other.object_x, other.object_y]) + random.normal(0, 0.03, 2)
            z = random.uniform(REACH_LOW[2], 0.12)
        self._point = (float(x), float(y), float(z))


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
