"""Refinement as a Gymnasium environment: moves change the grasp over one image, *execute* asks physics.

The reward is 1 for a successful execution and 0 otherwise. ``terminated`` means executed; ``truncated`` means that the
steps ran out before. ``info["symbols"]`` has the state in symbols, on which :mod:`keygrasp.shaping` shapes the reward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from keygrasp.errors import InputError
from keygrasp.grasps import random_feasible
from keygrasp.perception import perceive
from keygrasp.protocol import Scene
from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet
from keygrasp.refine.state import (
    GRID_ACROSS,
    GRID_ALONG,
    HEIGHT_CHANNELS,
    KEYPOINT_FEATURES,
    SCALARS,
    SceneTensors,
    featurise,
)
from keygrasp.refine.symbols import seen_object, with_grasp
from keygrasp.scene import TOTAL_ROWS, GripperSpec, PlanarGrasp

Observation = dict[str, Any]


def observation_space() -> spaces.Dict:
    """Space of one observation: the network's inputs of one grasp."""
    return spaces.Dict(
        {
            "heights": spaces.Box(-np.inf, np.inf, (HEIGHT_CHANNELS, GRID_ACROSS, GRID_ALONG), np.float32),
            "keypoints": spaces.Box(-np.inf, np.inf, (TOTAL_ROWS, KEYPOINT_FEATURES), np.float32),
            "mask": spaces.MultiBinary(TOTAL_ROWS),
            "scalars": spaces.Box(-np.inf, np.inf, (SCALARS,), np.float32),
        }
    )


class RefinementEnv(gymnasium.Env[Observation, np.int64]):
    """One episode refines one grasp on one object.

    Observations are the network's inputs (see :class:`keygrasp.refine.state.GraspFeatures`); actions are indices
    into :class:`keygrasp.refine.actions.ActionSet`.

    Args:
        make_scene: Builds a settled scene from a seed; the environment closes it.
        max_steps: Moves after which an episode is truncated.
        actions: Step sizes and bounds.
    """

    def __init__(
        self,
        make_scene: Callable[[int], Scene],
        max_steps: int = 10,
        actions: ActionSet | None = None,
    ) -> None:
        if max_steps < 1:
            raise InputError(f"max_steps must be at least 1, not {max_steps}")
        self._make_scene = make_scene
        self._max_steps = max_steps
        self._actions = actions or ActionSet()
        self._scene: Scene | None = None
        self._steps = 0
        self.action_space = spaces.Discrete(ACTIONS)
        self.observation_space = observation_space()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin with a new object and a random feasible grasp.

        Args:
            seed: Seed of object and grasp.
            options: ``start`` sets the grasp (x, y, z, yaw, width).
        """
        super().reset(seed=seed)
        self._leave()
        rng = np.random.default_rng(int(self.np_random.integers(2**63)))
        start = np.asarray((options or {}).get("start", ()), dtype=float)
        while True:
            self._scene = self._make_scene(int(rng.integers(2**31)))
            perceived = perceive(self._scene.view)
            if perceived.segments:
                if start.size == 0:
                    drawn = random_feasible(perceived, 0, self._gripper, rng, 1)
                    start = drawn[0] if len(drawn) else start
                if start.size == 5:
                    break
            self._leave()  # nothing to grasp there: another one is drawn
        self._seen = seen_object(perceived, 0)
        self._tensors = SceneTensors.build([perceived.height_map], [perceived.keypoints[0]])
        self._grasp = torch.as_tensor(start, dtype=torch.float32)[None]
        self._steps = 0
        return self._observe(), self._info()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move the grasp, or execute it."""
        if self._scene is None:
            raise InputError("step() before reset()", "Call reset() first")
        outcome = None
        reward, terminated = 0.0, int(action) == EXECUTE
        if terminated:
            outcome = self._scene.execute(self.grasp)
            reward = float(outcome.success)
        else:
            self._grasp = self._actions.apply(self._grasp, torch.tensor([int(action)]), self._gripper)
            self._steps += 1
        info = self._info() if outcome is None else {**self._info(), "outcome": outcome}
        return self._observe(), reward, terminated, not terminated and self._steps >= self._max_steps, info

    def close(self) -> None:
        """Release the physics world."""
        self._leave()

    def _leave(self) -> None:
        if self._scene is not None:
            self._scene.close()
        self._scene = None

    def _info(self) -> dict[str, Any]:
        return {"grasp": self.grasp, "symbols": with_grasp(self._seen, self.grasp).to_row()}

    @property
    def grasp(self) -> PlanarGrasp:
        """The grasp as it stands now."""
        return PlanarGrasp(*(float(v) for v in self._grasp[0]))

    @property
    def _gripper(self) -> GripperSpec:
        return self._scene.robot.gripper if self._scene is not None else GripperSpec()

    def _observe(self) -> Observation:
        features = featurise(self._tensors, torch.zeros(1, dtype=torch.long), self._grasp, self._gripper)
        return {
            "heights": features.heights[0].numpy(),
            "keypoints": features.keypoints[0].numpy(),
            "mask": features.mask[0].numpy().astype(np.int8),
            "scalars": features.scalars[0].numpy(),
        }
