"""Refinement in thousands of scenes at once, without physics: outcomes come from the contact model.

The same moves, the same reward and the same end of an episode as :class:`keygrasp.refine.environment.RefinementEnv`,
on tensors. What it says is as true as the contact model (see :mod:`keygrasp.experience.contact_fit`): good for
pre-training and for trying things out, never for a success rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.experience.contact_model import ContactModel
from keygrasp.experience.solids import SolidScenes
from keygrasp.refine.actions import EXECUTE, ActionSet
from keygrasp.refine.state import GraspFeatures, SceneTensors, featurise
from keygrasp.scene import GripperSpec


@dataclass(frozen=True, eq=False)
class Transition:
    """What one step of B episodes gave.

    Attributes:
        reward: (B,) 1 where a grasp was executed and holds.
        terminated: (B,) bool, executed.
        truncated: (B,) bool, out of moves.
    """

    reward: Tensor
    terminated: Tensor
    truncated: Tensor


class BatchedRefinement:
    """B episodes side by side; an episode that ends begins anew by itself, in another scene.

    Args:
        solids: True geometry of S scenes.
        model: Decides whether an executed grasp holds.
        gripper: The gripper.
        episodes: B.
        images: What the camera sees of the scenes, for :meth:`observe`.
        max_steps: Moves after which an episode is truncated.
        actions: Step sizes and bounds.
        seed: Seed of scenes, starts and outcomes.
    """

    def __init__(
        self,
        solids: SolidScenes,
        model: ContactModel,
        gripper: GripperSpec,
        episodes: int,
        *,
        images: SceneTensors | None = None,
        max_steps: int = 10,
        actions: ActionSet | None = None,
        seed: int = 0,
    ) -> None:
        if min(episodes, max_steps) < 1 or len(solids) == 0:
            raise InputError("batched refinement needs at least one scene, episode and step")
        self._solids, self._model, self._gripper, self._images = solids, model, gripper, images
        self._max_steps, self._actions = max_steps, actions or ActionSet()
        device = solids.mass.device
        self._generator = torch.Generator(device).manual_seed(seed)
        self.scene = torch.zeros(episodes, dtype=torch.long, device=device)
        self.grasps = torch.zeros(episodes, 5, device=device)
        self._steps = torch.zeros(episodes, dtype=torch.long, device=device)
        self._begin(torch.ones(episodes, dtype=torch.bool, device=device))

    def step(self, actions: Tensor) -> Transition:
        """Move, or execute, by actions (B,) of :class:`keygrasp.refine.actions.ActionSet`."""
        terminated = actions == EXECUTE
        reward = torch.zeros_like(self.grasps[:, 0])
        rows = torch.nonzero(terminated)[:, 0]
        if len(rows):
            success = self._model.success(self._solids, self.scene[rows], self.grasps[rows], self._gripper)
            drawn = torch.rand(len(rows), generator=self._generator, device=reward.device)
            reward[rows] = (drawn < success).to(reward.dtype)
        self.grasps = self._actions.apply(self.grasps, actions, self._gripper)
        self._steps += 1
        truncated = ~terminated & (self._steps >= self._max_steps)
        self._begin(terminated | truncated)
        return Transition(reward, terminated, truncated)

    def observe(self) -> GraspFeatures:
        """The network's inputs for the B grasps as they stand.

        Raises:
            InputError: If the environment was made without images.
        """
        if self._images is None:
            raise InputError("this batched refinement has no images to observe", "Give images=SceneTensors")
        return featurise(self._images, self.scene, self.grasps, self._gripper)

    def _begin(self, ended: Tensor) -> None:
        """New scenes and random starts over their objects where ``ended`` (B,) holds."""
        count, device = len(ended), ended.device
        noise = torch.rand(count, 5, generator=self._generator, device=device)
        scene = torch.randint(len(self._solids), (count,), generator=self._generator, device=device)
        centre = self._solids.centre[scene]
        start = torch.stack(
            [
                centre[:, 0] + (noise[:, 0] - 0.5) * 0.06,
                centre[:, 1] + (noise[:, 1] - 0.5) * 0.06,
                (centre[:, 2] * 2 * noise[:, 2]).clamp(self._actions.bounds.lowest, self._actions.bounds.highest),
                (noise[:, 3] - 0.5) * torch.pi,
                self._gripper.min_opening + noise[:, 4] * (self._gripper.max_opening - self._gripper.min_opening),
            ],
            dim=1,
        )
        self.scene = torch.where(ended, scene, self.scene)
        self.grasps = torch.where(ended[:, None], start, self.grasps)
        self._steps = torch.where(ended, 0, self._steps)
