"""Many refinement episodes side by side, on tensors: moves change grasps over images, *execute* asks a judge.

The same moves, the same reward and the same end of an episode as :class:`keygrasp.refine.environment.RefinementEnv`.
Who judges and where episodes begin is given: see :mod:`keygrasp.refine.virtual` for the contact model, and
:mod:`keygrasp.refine.vector_environment` for Gymnasium's interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.refine.actions import EXECUTE, ActionSet
from keygrasp.refine.state import GraspFeatures, SceneTensors, featurise
from keygrasp.scene import GripperSpec


class BatchJudge(Protocol):
    """Decides about executions."""

    def __call__(self, scene: Tensor, grasps: Tensor) -> Tensor:
        """Rewards (n,) of executing grasps (n, 5) in scenes (n,)."""
        ...


class BatchStarts(Protocol):
    """Says where episodes begin."""

    def __call__(self, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Scenes (B,) and grasps (B, 5); they are taken where ``begins`` (B,) holds, and may be anything elsewhere."""
        ...


@dataclass(frozen=True, eq=False)
class Transition:
    """What one step of B episodes gave.

    Attributes:
        reward: (B,) what the judge said of executed grasps, else 0.
        terminated: (B,) bool, executed.
        truncated: (B,) bool, out of moves.
    """

    reward: Tensor
    terminated: Tensor
    truncated: Tensor


class BatchedRefinement:
    """B episodes side by side.

    Attributes:
        scene: (B,) number of each episode's scene.
        grasps: (B, 5) grasps as they stand.

    Args:
        judge: Decides about executions.
        starts: Where episodes begin.
        episodes: B.
        gripper: The gripper.
        images: What the camera sees of the scenes, for :meth:`observe`.
        endless: Whether an episode that ends begins anew by itself; else :meth:`begin` is to be called.
        max_steps: Moves after which an episode is truncated.
        actions: Step sizes and bounds.
        device: Where the episodes are.
    """

    def __init__(
        self,
        judge: BatchJudge,
        starts: BatchStarts,
        episodes: int,
        gripper: GripperSpec,
        *,
        images: SceneTensors | None = None,
        endless: bool = False,
        max_steps: int = 10,
        actions: ActionSet | None = None,
        device: torch.device | None = None,
    ) -> None:
        if min(episodes, max_steps) < 1:
            raise InputError(f"{episodes} episodes of {max_steps} moves", "Both must be at least 1")
        self._judge, self._starts, self._gripper, self._images = judge, starts, gripper, images
        self._endless, self._max_steps, self._actions = endless, max_steps, actions or ActionSet()
        self.scene = torch.zeros(episodes, dtype=torch.long, device=device)
        self.grasps = torch.zeros(episodes, 5, device=device)
        self._steps = torch.zeros(episodes, dtype=torch.long, device=device)
        self._ended = torch.ones(episodes, dtype=torch.bool, device=device)
        if endless:
            self.begin(self._ended)

    def begin(self, begins: Tensor) -> None:
        """Begin episodes anew where ``begins`` (B,) holds."""
        scene, grasps = self._starts(begins)
        self.scene = torch.where(begins, scene, self.scene)
        self.grasps = torch.where(begins[:, None], grasps, self.grasps)
        self._steps = torch.where(begins, 0, self._steps)
        self._ended = self._ended & ~begins

    def step(self, actions: Tensor) -> Transition:
        """Move, or execute, by actions (B,) of :class:`keygrasp.refine.actions.ActionSet`.

        Raises:
            InputError: If an episode has ended and was not begun anew.
        """
        if not self._endless and bool(self._ended.any()):
            raise InputError("a step in an episode that has ended", "Begin it anew: begin() or options['reset_mask']")
        terminated = actions == EXECUTE
        reward = torch.zeros_like(self.grasps[:, 0])
        rows = torch.nonzero(terminated)[:, 0]
        if len(rows):
            reward[rows] = self._judge(self.scene[rows], self.grasps[rows]).to(reward.dtype)
        # An executed grasp stays where it is: that row of the table of moves is zero.
        self.grasps = self._actions.apply(self.grasps, actions, self._gripper)
        self._steps += 1
        truncated = ~terminated & (self._steps >= self._max_steps)
        self._ended = terminated | truncated
        if self._endless:
            self.begin(self._ended)
        return Transition(reward, terminated, truncated)

    def observe(self) -> GraspFeatures:
        """The network's inputs for the B grasps as they stand.

        Raises:
            InputError: If the environment was made without images.
        """
        if self._images is None:
            raise InputError("this batched refinement has no images to observe", "Give images=SceneTensors")
        return featurise(self._images, self.scene, self.grasps, self._gripper)
