"""Gymnasium's face of batched refinement, over the images of a few scenes; a judge decides about executions.

The same episodes as :class:`keygrasp.refine.environment.RefinementEnv`'s, for a learner that needs thousands of them:
:class:`keygrasp.refine.batched.BatchedRefinement` moves the grasps, this class says what they are in symbols.
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
from torch import Tensor

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.geometry.poses import Array, wrap_half_turn
from keygrasp.perception import Perceived
from keygrasp.refine.actions import ACTIONS, ActionSet
from keygrasp.refine.batched import BatchedRefinement
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
        if not perceived or not all(image.segments for image in perceived):
            raise InputError("an image shows no object", "Give images of scenes with something to grasp")
        self.num_envs = count
        self.scenes = SceneTensors.build([p.height_map for p in perceived], [p.keypoints[0] for p in perceived])
        self.gripper, self.starts = gripper or GripperSpec(), starts or Starts()
        self._judge, self._bounds = judge, (actions or ActionSet()).bounds
        self._objects = np.stack([seen_object(image, 0).to_row() for image in perceived])
        self._seen = [seen_object(image, 0) for image in perceived]
        self._episodes = BatchedRefinement(
            self._rewards, self._begun, count, self.gripper, images=self.scenes, max_steps=max_steps, actions=actions
        )
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
        self._episodes.begin(torch.from_numpy(begins))
        return self._observe(), self.infos()

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observation, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Move all grasps, or execute them.

        Raises:
            InputError: If an episode has ended; reset it first, with ``options["reset_mask"]``.
        """
        done = self._episodes.step(torch.as_tensor(actions))
        ends = done.terminated.numpy(), done.truncated.numpy()
        return self._observe(), done.reward.double().numpy(), *ends, self.infos()

    def features(self, scene: NDArray[np.int64], grasps: NDArray[np.float32]) -> GraspFeatures:
        """The network's inputs of any grasps (B, 5) in scenes (B,)."""
        return featurise(self.scenes, torch.from_numpy(scene), torch.from_numpy(grasps), self.gripper)

    def _rewards(self, scene: Tensor, grasps: Tensor) -> Tensor:
        """What the judge says of executed grasps, scene by scene."""
        rewards = torch.zeros(len(scene))
        for each in np.unique(scene.numpy()).tolist():
            rows = torch.nonzero(scene == each)[:, 0]
            rewards[rows] = torch.as_tensor(self._judge(each, grasps[rows].double().numpy())).float()
        return rewards

    def _begun(self, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Random scenes and starts where episodes begin."""
        scene, grasps = torch.zeros(self.num_envs, dtype=torch.long), torch.zeros(self.num_envs, 5)
        for index in torch.nonzero(begins)[:, 0].tolist():
            scene[index] = int(self.np_random.integers(len(self._seen)))
            grasps[index] = torch.tensor(self._start(int(scene[index])))
        return scene, grasps

    def _start(self, scene: int) -> list[float]:
        seen, starts, rng = self._seen[scene], self.starts, self.np_random
        side, distance = rng.uniform(-np.pi, np.pi), rng.uniform(*starts.distance)
        bounds = self._bounds
        return [
            seen.object_x + distance * np.cos(side),
            seen.object_y + distance * np.sin(side),
            float(np.clip(seen.object_height + rng.uniform(*starts.above), bounds.lowest, bounds.highest)),
            wrap_half_turn(seen.object_yaw + np.pi / 2 + rng.uniform(-starts.turn, starts.turn)),
            self.gripper.max_opening,
        ]

    def _observe(self) -> Observation:
        features = self._episodes.observe()
        return {
            "heights": features.heights.numpy(),
            "keypoints": features.keypoints.numpy(),
            "mask": features.mask.numpy().astype(np.int8),
            "scalars": features.scalars.numpy(),
        }

    def infos(self) -> dict[str, Any]:
        """Symbols, grasps and scenes as they stand."""
        grasps, scene = self._episodes.grasps.numpy().copy(), self._episodes.scene.numpy().copy()
        return {"symbols": rows_with_grasps(self._objects[scene], grasps), "grasp": grasps, "scene": scene}
