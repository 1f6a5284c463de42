"""Many refinement episodes side by side, over the images of a few scenes; a judge decides about executions.

The same episodes as :class:`keygrasp.refine.environment.RefinementEnv`'s, for a learner that needs thousands of them:
features and symbols of all grasps are computed in one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.geometry.poses import Array, wrap_half_turn
from keygrasp.perception import Perceived
from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet
from keygrasp.refine.environment import Observation, observation_space
from keygrasp.refine.judges import Judge
from keygrasp.refine.state import GraspFeatures, SceneTensors, featurise
from keygrasp.refine.symbols import rows_with_grasps, seen_object
from keygrasp.scene import GripperSpec


@dataclass(frozen=True)
class Starts:
    """Where episodes begin: beside the middle of the object, turned off its shorter side, with the fingers open.

    Attributes:
        distance: Metres from the object's middle, least and most.
        above: Metres of the fingertips above the object's top, least and most; negative is below it.
        turn: Largest angle in radians between the closing axis and the object's shorter side.
    """

    distance: tuple[float, float] = (0.0, 0.03)
    above: tuple[float, float] = (-0.005, 0.015)
    turn: float = 1.2

    def __post_init__(self) -> None:
        if not (0 <= self.distance[0] <= self.distance[1] and self.above[0] <= self.above[1] and self.turn >= 0):
            raise ConfigurationError("starts: ranges go from least to most; distance and turn are at least 0")


class RefinementVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """N episodes, each of which refines one grasp; reset those that have ended with ``options["reset_mask"]``.

    ``infos`` has ``symbols`` (N, D), ``grasp`` (N, 5) and ``scene`` (N,).

    Args:
        perceived: What the image of each scene shows; the first segment is the object.
        judge: Decides about executions.
        count: Number of episodes N.
        starts: Where they begin.
        max_steps: Moves after which an episode is truncated.
        actions: Step sizes and bounds.
        gripper: Who would execute.
    """

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012 - Gymnasium's own name and type

    def __init__(
        self,
        perceived: Sequence[Perceived],
        judge: Judge,
        count: int,
        *,
        starts: Starts | None = None,
        max_steps: int = 10,
        actions: ActionSet | None = None,
        gripper: GripperSpec | None = None,
    ) -> None:
        if count < 1 or max_steps < 1:
            raise InputError(f"{count} episodes of {max_steps} moves", "Both must be at least 1")
        if not perceived or not all(image.segments for image in perceived):
            raise InputError("an image shows no object", "Give images of scenes with something to grasp")
        self.num_envs = count
        self.scenes = SceneTensors.build([p.height_map for p in perceived], [p.keypoints[0] for p in perceived])
        self.gripper, self.starts = gripper or GripperSpec(), starts or Starts()
        self._judge, self._max_steps, self._actions = judge, max_steps, actions or ActionSet()
        self._objects = np.stack([seen_object(image, 0).to_row() for image in perceived])
        self._seen = [seen_object(image, 0) for image in perceived]
        self._scene = np.zeros(count, dtype=np.int64)
        self._grasps = torch.zeros(count, 5)
        self._age = np.zeros(count, dtype=np.int64)
        self._ended = np.ones(count, dtype=bool)
        self.single_observation_space, self.single_action_space = observation_space(), spaces.Discrete(ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin episodes, those of ``options["reset_mask"]`` (N,) alone where that is given.

        Raises:
            InputError: If ``seed`` is a list: all episodes draw from one source.
        """
        if isinstance(seed, list):
            raise InputError("a list of seeds", "Give one seed for all episodes")
        if seed is not None:
            self._np_random = np.random.default_rng(seed)
        begins = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool)), dtype=bool)
        for index in np.flatnonzero(begins):
            self._scene[index] = self.np_random.integers(len(self._seen))
            self._grasps[index] = torch.tensor(self._start(int(self._scene[index])))
        self._age[begins], self._ended[begins] = 0, False
        return self._observe(), self.infos()

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observation, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Move all grasps, or execute them."""
        if self._ended.any():
            raise InputError("step() in an episode that has ended", "Reset it first, with options['reset_mask']")
        executed = np.asarray(actions) == EXECUTE
        rewards = np.zeros(self.num_envs)
        for scene in np.unique(self._scene[executed]):
            rows = np.flatnonzero(executed & (self._scene == scene))
            rewards[rows] = self._judge(int(scene), self._grasps[rows].double().numpy())
        # An executed grasp stays where it is: that row of the table of moves is zero.
        self._grasps = self._actions.apply(self._grasps, torch.as_tensor(actions), self.gripper)
        self._age += 1
        truncated = ~executed & (self._age >= self._max_steps)
        self._ended = executed | truncated
        return self._observe(), rewards, executed, truncated, self.infos()

    def features(self, scene: NDArray[np.int64], grasps: NDArray[np.float32]) -> GraspFeatures:
        """The network's inputs of any grasps (B, 5) in scenes (B,)."""
        return featurise(self.scenes, torch.from_numpy(scene), torch.from_numpy(grasps), self.gripper)

    def _start(self, scene: int) -> list[float]:
        seen, starts, rng = self._seen[scene], self.starts, self.np_random
        side, distance = rng.uniform(-np.pi, np.pi), rng.uniform(*starts.distance)
        bounds = self._actions.bounds
        return [
            seen.object_x + distance * np.cos(side),
            seen.object_y + distance * np.sin(side),
            float(np.clip(seen.object_height + rng.uniform(*starts.above), bounds.lowest, bounds.highest)),
            wrap_half_turn(seen.object_yaw + np.pi / 2 + rng.uniform(-starts.turn, starts.turn)),
            self.gripper.max_opening,
        ]

    def _observe(self) -> Observation:
        features = self.features(self._scene, self._grasps.numpy())
        return {
            "heights": features.heights.numpy(),
            "keypoints": features.keypoints.numpy(),
            "mask": features.mask.numpy().astype(np.int8),
            "scalars": features.scalars.numpy(),
        }

    def infos(self) -> dict[str, Any]:
        """Symbols, grasps and scenes as they stand."""
        grasps = self._grasps.numpy().copy()
        symbols = rows_with_grasps(self._objects[self._scene], grasps)
        return {"symbols": symbols, "grasp": grasps, "scene": self._scene.copy()}
