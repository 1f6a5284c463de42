"""Refinement in thousands of scenes at once, without physics: outcomes come from the contact model.

What it says is as true as that model (see :mod:`keygrasp.experience.contact_fit`): good for pre-training and for trying
things out, never for a success rate.
"""

from __future__ import annotations

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.experience.contact_model import ContactModel
from keygrasp.experience.solids import SolidScenes
from keygrasp.refine.actions import ActionSet
from keygrasp.refine.batched import BatchedRefinement
from keygrasp.refine.state import SceneTensors
from keygrasp.scene import GripperSpec


def virtual_refinement(
    solids: SolidScenes,
    model: ContactModel,
    gripper: GripperSpec,
    episodes: int,
    *,
    images: SceneTensors | None = None,
    max_steps: int = 10,
    actions: ActionSet | None = None,
    seed: int = 0,
) -> BatchedRefinement:
    """Endless episodes with random starts over the objects of random scenes.

    Args:
        solids: True geometry of S scenes.
        model: Decides whether an executed grasp holds: by chance, with the probability that it gives.
        gripper: The gripper.
        episodes: How many run side by side.
        images: What the camera sees of the scenes, to observe.
        max_steps: Moves after which an episode is truncated.
        actions: Step sizes and bounds.
        seed: Seed of scenes, starts and outcomes.
    """
    if len(solids) == 0:
        raise InputError("batched refinement needs at least one scene")
    actions = actions or ActionSet()
    device = solids.mass.device
    generator = torch.Generator(device).manual_seed(seed)

    def judge(scene: Tensor, grasps: Tensor) -> Tensor:
        success = model.success(solids, scene, grasps, gripper)
        return torch.rand(len(scene), generator=generator, device=device) < success

    def starts(begins: Tensor) -> tuple[Tensor, Tensor]:
        # For all episodes, whether they begin or not: no number has to leave the device.
        count = len(begins)
        noise = torch.rand(count, 5, generator=generator, device=device)
        scene = torch.randint(len(solids), (count,), generator=generator, device=device)
        centre = solids.centre[scene]
        start = torch.stack(
            [
                centre[:, 0] + (noise[:, 0] - 0.5) * 0.06,
                centre[:, 1] + (noise[:, 1] - 0.5) * 0.06,
                (centre[:, 2] * 2 * noise[:, 2]).clamp(actions.bounds.lowest, actions.bounds.highest),
                (noise[:, 3] - 0.5) * torch.pi,
                gripper.min_opening + noise[:, 4] * (gripper.max_opening - gripper.min_opening),
            ],
            dim=1,
        )
        return scene, start

    return BatchedRefinement(
        judge, starts, episodes, gripper,
        images=images, endless=True, max_steps=max_steps, actions=actions, device=device,
    )  # fmt: skip
