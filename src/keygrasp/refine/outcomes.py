"""Predicts from an image how a grasp would end: by which cause, how far the object is pushed, with what force.

The same view of a grasp as the Q-network's (:mod:`keygrasp.refine.state`) goes through the same kind of trunk, or
through the shipped refiner's own; small heads that saw different shares of the executions say what they expect, and how
far they differ says what isn't known. It is the one-step world model of grasping: a state, an action, and the symbols
of what comes of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from keygrasp.configuration import config_from
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.geometry.poses import Array
from keygrasp.perception import Perceived
from keygrasp.refine.network import NetworkConfig, QNetwork, default_weights, load_network
from keygrasp.refine.state import GraspFeatures, SceneTensors, featurise
from keygrasp.scene import GripperSpec, Outcome
from keygrasp.tensorfiles import read_weights, shipped_model, write_weights

FORMAT = "kg-outcomes-1"
DEFAULT_OUTCOMES = "outcomes.safetensors"
#: Outcomes that are told apart; executions that ended otherwise say nothing about the grasp.
CAUSES = (Outcome.SUCCESS, Outcome.CONTACT_TOO_EARLY, Outcome.EMPTY, Outcome.SLIPPED, Outcome.SHAKEN)
#: Force and way are learned as log(1 + value / unit): most are near 0, some large. Newtons and metres.
UNITS = (1.0, 0.001)
_MEASURES = len(UNITS)
#: Largest logarithm that is turned back: 1,800 N and 1.8 m.
_LARGEST = 7.5
_MAX_BYTES = 64 * 2**20
_REMEDY = "Make one with 'keygrasp outcomes'"


@dataclass(frozen=True)
class OutcomeConfig:
    """Sizes of the network.

    Attributes:
        members: Heads, each of which saw its own share of the executions.
        head: Width of a head's hidden layer.
        network: Sizes of the trunk.
    """

    members: int = 5
    head: int = 48
    network: NetworkConfig = field(default_factory=NetworkConfig)

    def __post_init__(self) -> None:
        if not (1 <= self.members <= 64 and 1 <= self.head <= 4096):
            raise ConfigurationError("outcomes: members lies in [1, 64], head in [1, 4096]")


@dataclass(frozen=True, eq=False)
class Expectation:
    """What is expected of n grasps.

    Attributes:
        causes: (n, 5) probabilities of :data:`CAUSES`, mean of the members'.
        force: (n,) newtons, largest contact force while descending.
        moved: (n,) metres by which the object will have been moved along the table at the end.
        success_deviation: (n,) standard deviation of the members' probabilities of success.
        force_deviation: (n,) standard deviation of the members' forces.
        moved_deviation: (n,) standard deviation of the members' ways.
    """

    causes: Array
    force: Array
    moved: Array
    success_deviation: Array
    force_deviation: Array
    moved_deviation: Array

    @property
    def success(self) -> Array:
        """(n,) probabilities that the object is lifted and held."""
        return np.asarray(self.causes[:, 0])


class OutcomeNetwork(nn.Module):
    """A Q-network's trunk with an ensemble of heads."""

    def __init__(self, config: OutcomeConfig | None = None, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config = config or OutcomeConfig()
        self.base = QNetwork(config.network)
        del self.base.value, self.base.advantage
        width, outputs = config.network.hidden, len(CAUSES) + _MEASURES
        self.heads = nn.ModuleList(
            nn.Sequential(
                nn.Dropout(dropout), nn.Linear(width, config.head), nn.ReLU(), nn.Linear(config.head, outputs)
            )
            for _ in range(config.members)
        )

    def forward(self, features: GraspFeatures) -> tuple[Tensor, Tensor]:
        """Logits (M, B, 5) of causes, and logarithms (M, B, 2) of force and way (see :data:`UNITS`)."""
        hidden = self.base.hidden(features)
        out = torch.stack([head(hidden) for head in self.heads])
        return out[..., : len(CAUSES)], out[..., len(CAUSES) :]

    @torch.no_grad()
    def success(self, features: GraspFeatures) -> Tensor:
        """Mean probability (B,) of success."""
        logits: Tensor = self(features)[0]
        return torch.softmax(logits, dim=-1)[..., 0].mean(dim=0)

    @torch.no_grad()
    def expect(self, features: GraspFeatures) -> Expectation:
        """What is expected of B grasps."""
        logits, measures = self(features)
        causes = torch.softmax(logits, dim=-1)
        values = torch.expm1(measures.clamp(0.0, _LARGEST)) * measures.new_tensor(UNITS)
        spread = values.std(dim=0, correction=0)
        parts = (
            causes.mean(dim=0), values[..., 0].mean(dim=0), values[..., 1].mean(dim=0),
            causes[..., 0].std(dim=0, correction=0), spread[:, 0], spread[:, 1],
        )  # fmt: skip
        return Expectation(*(part.double().cpu().numpy() for part in parts))


class OutcomePredictor:
    """Predicts outcomes of grasps on perceived objects."""

    def __init__(self, network: OutcomeNetwork) -> None:
        self.network = network.eval()

    @classmethod
    def load(cls, path: Path) -> OutcomePredictor:
        """Read a model; see :func:`load_outcomes`."""
        return cls(load_outcomes(path))

    def __call__(self, perceived: Perceived, segment_index: int, grasps: Array, gripper: GripperSpec) -> Expectation:
        """What is expected of grasps on one object.

        Args:
            perceived: The image, perceived.
            segment_index: Which of its objects.
            grasps: (n, 5) as (x, y, z, yaw, width) in the workspace frame.
            gripper: Who would execute.

        Raises:
            InputError: If there is no such object, or the grasps have another shape or are not finite.
        """
        if not 0 <= segment_index < len(perceived.segments):
            raise InputError(f"there is no object {segment_index}: {len(perceived.segments)} object(s) are seen")
        if grasps.ndim != 2 or grasps.shape[1] != 5 or not np.all(np.isfinite(grasps)):
            raise InputError(f"grasps of shape {grasps.shape}", "Give (n, 5) finite numbers: x, y, z, yaw, width")
        if len(grasps) == 0:
            nothing = np.empty(0)
            return Expectation(np.empty((0, len(CAUSES))), nothing, nothing, nothing, nothing, nothing)
        scene = SceneTensors.build([perceived.height_map], [perceived.keypoints[segment_index]])
        rows = torch.as_tensor(grasps, dtype=torch.float32)
        return self.network.expect(featurise(scene, torch.zeros(len(rows), dtype=torch.long), rows, gripper))


def save_outcomes(path: Path, network: OutcomeNetwork, *, shares_trunk: bool = False) -> None:
    """Write a model as safetensors, whole or not at all.

    Args:
        path: The file.
        network: The model.
        shares_trunk: Whether its trunk is the shipped refiner's, which then is not written again: the file is small,
            and is refused beside another refiner.
    """
    tensors, metadata = network.state_dict(), {"format": FORMAT, "config": json.dumps(asdict(network.config))}
    if shares_trunk:
        metadata["trunk"] = _fingerprint(network.base)
        tensors = {name: value for name, value in tensors.items() if not name.startswith("base.")}
    write_weights(path, tensors, metadata)


def load_outcomes(path: Path) -> OutcomeNetwork:
    """Read a model, in evaluation mode on the CPU.

    Raises:
        InputError: If the file is missing, too large, not such a model, or made for another refiner's trunk.
    """
    try:
        tensors, metadata = read_weights(path, _MAX_BYTES, _REMEDY)
        if metadata.get("format") != FORMAT:
            raise InputError(f"{path} has format {metadata.get('format')!r}, this version reads {FORMAT!r}", _REMEDY)
        network = OutcomeNetwork(config_from(json.loads(metadata["config"]), OutcomeConfig, where=f"{path}: config"))
        if "trunk" in metadata:
            take_trunk(network, load_network(default_weights())[0])
            if _fingerprint(network.base) != metadata["trunk"]:
                raise InputError(f"{path} was made for the trunk of another refiner than ships here", _REMEDY)
            tensors |= {f"base.{name}": value for name, value in network.base.state_dict().items()}
        network.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"can't read the outcome model {path} ({error})", _REMEDY) from error
    return network.eval()


def take_trunk(network: OutcomeNetwork, refiner: QNetwork) -> None:
    """Give a model the trunk of a refiner.

    Raises:
        RuntimeError: If the sizes differ.
    """
    heads = ("value.", "advantage.")
    network.base.load_state_dict({k: v for k, v in refiner.state_dict().items() if not k.startswith(heads)})


def _fingerprint(trunk: QNetwork) -> str:
    """Tells trunks apart."""
    digest = hashlib.sha256()
    for name, value in sorted(trunk.state_dict().items()):
        digest.update(name.encode() + value.cpu().numpy().tobytes())
    return digest.hexdigest()


def default_outcomes() -> Path:
    """Path of the outcome model that ships with the project.

    Raises:
        InputError: If it is not there.
    """
    return shipped_model(DEFAULT_OUTCOMES, "Make them with 'keygrasp outcomes', and name the file")
