"""A model of contact: from what the pads of a grasp would meet in the true geometry to whether physics lets it hold.

Executing a grasp in physics costs a quarter of a second; looking up the geometry around it costs microseconds
(:mod:`keygrasp.experience.solids`). A small network learns from executed grasps how the one decides the other, and
then labels as many grasps as a learner wants, on a GPU millions a second. It knows the true shape, mass and centre
of mass, which no camera sees: it is a teacher, not a planner.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional

from keygrasp.configuration import MOST_SEED, check_ranges, config_from
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.solids import PAD_LAYERS, ROWS, PadProfiles, SolidScenes, pad_profiles
from keygrasp.protocol import PROTOCOL
from keygrasp.scene import GripperSpec
from keygrasp.tensorfiles import read_weights, write_weights

FORMAT = "kg-contact-1"
#: Lengths that bring inputs near ±1: ways and openings, depth behind the first touch, heights beneath, levers.
_OPENING, _BEHIND, _BENEATH, _LEVER, _MASS = 0.085, 0.010, 0.020, 0.05, 0.5
INPUTS = 2 * 2 * ROWS * PAD_LAYERS + 11
_MAX_BYTES = 16 * 2**20


@dataclass(frozen=True)
class ContactConfig:
    """Sizes and training of a contact model.

    Attributes:
        hidden: Width of the two hidden layers.
        dropout: Share of hidden units left out of a training step.
        steps: Gradient steps.
        batch: Executed grasps a step.
        learning_rate: Peak of the cosine schedule (AdamW).
        weight_decay: AdamW's weight decay.
        seed: Seed of weights and batches.
    """

    hidden: int = 256
    dropout: float = 0.2
    steps: int = 4000
    batch: int = 1024
    learning_rate: float = 2e-3
    weight_decay: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.hidden, self.steps, self.batch) < 1 or not 0 <= self.dropout < 1:
            raise ConfigurationError("contact model: hidden, steps, batch ≥ 1 and 0 ≤ dropout < 1 are needed")
        check_ranges(
            self,
            "contact model",
            {
                "hidden": (1, 1024),
                "steps": (1, 100_000_000),
                "batch": (1, 1_000_000),
                "learning_rate": (1e-12, 1),
                "weight_decay": (0, 100),
                "seed": (0, MOST_SEED),
            },
        )


class ContactModel(nn.Module):
    """Logits of success of grasps in known geometry."""

    def __init__(self, config: ContactConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or ContactConfig()
        width = config.hidden
        self.layers = nn.Sequential(
            nn.Linear(INPUTS, width), nn.ReLU(), nn.Dropout(config.dropout),
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(config.dropout),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B,) of inputs (B, INPUTS)."""
        return cast(Tensor, self.layers(inputs)[:, 0])

    @torch.no_grad()
    def success(self, scenes: SolidScenes, index: Tensor, grasps: Tensor, gripper: GripperSpec) -> Tensor:
        """Probability (B,) that grasps (B, 5) in scenes ``index`` (B,) succeed when they are executed exactly."""
        profiles = pad_profiles(scenes, index, grasps, gripper)
        return torch.sigmoid(self(contact_inputs(profiles, grasps, scenes.mass[index])))

    @torch.no_grad()
    def robust_success(
        self,
        scenes: SolidScenes,
        index: Tensor,
        grasps: Tensor,
        gripper: GripperSpec,
        *,
        executions: int,
        generator: torch.Generator,
    ) -> Tensor:
        """Mean success (B,) over ``executions`` with KG-1's errors of position, height and yaw."""
        spread = grasps.new_tensor(
            [PROTOCOL.position_error, PROTOCOL.position_error, PROTOCOL.height_error, PROTOCOL.yaw_error, 0.0]
        )
        noise = torch.randn(len(grasps), executions, 5, generator=generator, device=generator.device).to(grasps.device)
        moved = (grasps[:, None] + noise * spread).reshape(-1, 5)
        moved[:, 2].clamp_(min=0.0)
        success = self.success(scenes, index.repeat_interleave(executions), moved, gripper)
        return success.reshape(-1, executions).mean(dim=1)


def contact_inputs(profiles: PadProfiles, grasps: Tensor, mass: Tensor, flip: Tensor | None = None) -> Tensor:
    """Inputs (B, INPUTS) of the model.

    Args:
        profiles: What the pads would meet.
        grasps: (B, 5) as (x, y, z, yaw, width).
        mass: (B,) kilograms.
        flip: (B, 2) of ±1: mirrors along and across the closing axis, under which no verdict changes.
    """
    way, fingers, centre = profiles.way, profiles.fingers, profiles.centre
    if flip is not None:
        way = torch.where((flip[:, 0] < 0)[:, None, None, None], way.flip(1), way)
        fingers = torch.where((flip[:, 0] < 0)[:, None], fingers.flip(1), fingers)
        way = torch.where((flip[:, 1] < 0)[:, None, None, None], way.flip(2), way)
        centre = centre * torch.cat([flip, torch.ones_like(flip[:, :1])], dim=1)
    first = way.amin(dim=(2, 3))
    behind = ((way - first[:, :, None, None]) / _BEHIND).clamp(0, 1)
    scalars = torch.stack(
        [
            first[:, 0] / _OPENING,
            first[:, 1] / _OPENING,
            (grasps[:, 4] - first.sum(dim=1)).clamp(min=0) / _OPENING,
            *(fingers / _BENEATH).clamp(-2, 2).unbind(dim=1),
            (profiles.palm / _BENEATH).clamp(-2, 2),
            *(centre / _LEVER).clamp(-3, 3).unbind(dim=1),
            grasps[:, 2] / _OPENING,
            mass / _MASS,
        ],
        dim=1,
    )
    return torch.cat([(way / _OPENING).flatten(1), behind.flatten(1), scalars], dim=1)


@dataclass(frozen=True, eq=False)
class ContactData:
    """Executed grasps in known geometry.

    Attributes:
        scenes: S scenes.
        scene: (N,) scene of each grasp.
        grasps: (N, 5) float32.
        success: (N,) float32.
        gripper: The gripper that executed.
    """

    scenes: SolidScenes
    scene: Tensor
    grasps: Tensor
    success: Tensor
    gripper: GripperSpec

    def to(self, device: torch.device) -> ContactData:
        """The same data on another device."""
        parts = (self.scene.to(device), self.grasps.to(device), self.success.to(device))
        return ContactData(self.scenes.to(device), *parts, self.gripper)

    def take(self, rows: Tensor) -> ContactData:
        """Only those grasps for which ``rows`` (N,) holds."""
        return replace(self, scene=self.scene[rows], grasps=self.grasps[rows], success=self.success[rows])


def scheduled_rate(peak: float, step: int, steps: int) -> float:
    """Learning rate of a step: up to ``peak`` over the first 100, then down along half a cosine to 2% of it."""
    rise = min(1.0, (step + 1) / 100)
    return peak * rise * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(step / steps, 1.0))))


def check_converges(where: str, step: int, rate: float, *values: Tensor) -> None:
    """Stop a training at once where its losses or gradients are not finite any more.

    Raises:
        ConfigurationError: Says at which step, and that ``rate``, the peak of the schedule, is too large.
    """
    if not all(bool(value.isfinite()) for value in values):
        raise ConfigurationError(
            f"{where}: training diverged at step {step} (its loss is not finite)",
            f"Give a smaller learning_rate than {rate:g} and start anew; no weights were written",
        )


def train_contact_model(config: ContactConfig, data: ContactData) -> ContactModel:
    """Fit a model to executed grasps, on the device that the data lie on."""
    torch.manual_seed(config.seed)
    generator = torch.Generator().manual_seed(config.seed)
    device = data.grasps.device
    profiles = _all_profiles(data)
    mass = data.scenes.mass[data.scene]
    model = ContactModel(config).to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    for step in range(config.steps):
        for group in optimiser.param_groups:
            group["lr"] = scheduled_rate(config.learning_rate, step, config.steps)
        rows = torch.randint(len(data.grasps), (config.batch,), generator=generator)
        flip = (torch.randint(0, 2, (config.batch, 2), generator=generator).float() * 2 - 1).to(device)
        rows = rows.to(device)
        inputs = contact_inputs(_take(profiles, rows), data.grasps[rows], mass[rows], flip)
        loss = functional.binary_cross_entropy_with_logits(model(inputs), data.success[rows])
        check_converges("contact model", step, config.learning_rate, loss)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return model.eval()


@torch.no_grad()
def predict(model: ContactModel, data: ContactData) -> Tensor:
    """Probabilities (N,) of the data's grasps."""
    profiles = _all_profiles(data)
    mass = data.scenes.mass[data.scene]
    rows = torch.split(torch.arange(len(data.grasps), device=data.grasps.device), 8192)
    parts = [torch.sigmoid(model(contact_inputs(_take(profiles, r), data.grasps[r], mass[r]))) for r in rows]
    return torch.cat(parts)


def save_contact_model(path: Path, model: ContactModel) -> None:
    """Write a model as safetensors, whole or not at all."""
    metadata = {"format": FORMAT, "config": json.dumps(asdict(model.config))}
    write_weights(path, model.state_dict(), metadata)


def load_contact_model(path: Path) -> ContactModel:
    """Read a model, in evaluation mode on the CPU.

    Raises:
        InputError: If the file is missing, too large, or not such a model.
    """
    remedy = "Give a contact model written by 'keygrasp contact'"
    try:
        tensors, metadata = read_weights(path, _MAX_BYTES, remedy)
        if metadata.get("format") != FORMAT:
            raise InputError(f"{path} has format {metadata.get('format')!r}, this version reads {FORMAT!r}", remedy)
        model = ContactModel(config_from(json.loads(metadata["config"]), ContactConfig, where=f"{path}: config"))
        model.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"can't read the contact model {path} ({error})", remedy) from error
    return model.eval()


def _all_profiles(data: ContactData) -> PadProfiles:
    rows = torch.split(torch.arange(len(data.grasps), device=data.grasps.device), 8192)
    parts = [pad_profiles(data.scenes, data.scene[r], data.grasps[r], data.gripper) for r in rows]
    return PadProfiles(*(torch.cat([getattr(p, f.name) for p in parts]) for f in fields(PadProfiles)))


def _take(profiles: PadProfiles, rows: Tensor) -> PadProfiles:
    return PadProfiles(*(getattr(profiles, f.name)[rows] for f in fields(PadProfiles)))
