"""The Q-network: a set encoder over keypoints, a small convolution over height samples, a duelling head."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn import functional

from keygrasp.configuration import check_ranges, config_from
from keygrasp.errors import InputError
from keygrasp.refine.actions import ACTIONS, EXECUTE
from keygrasp.refine.state import (
    GRID_ACROSS,
    GRID_ALONG,
    HEIGHT_CHANNELS,
    KEYPOINT_FEATURES,
    SCALARS,
    GraspFeatures,
)
from keygrasp.tensorfiles import read_weights, shipped_model, write_weights

#: Version of the state's layout; weights of another layout are refused.
LAYOUT = "kg-q1"
#: Weights that ship with the project.
DEFAULT_WEIGHTS = "refiner.safetensors"
_MAX_BYTES = 64 * 2**20
_REMEDY = "Give weights written by 'keygrasp train', or use --planner geometric"


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the layers.

    Attributes:
        keypoint_hidden: Width of the per-keypoint layers.
        channels: Channels of the two convolutions.
        hidden: Width of the trunk.
        inputs: What is seen of the object: ``both``, or for ablations ``keypoints`` or the ``heights`` alone.
    """

    keypoint_hidden: int = 32
    channels: tuple[int, int] = (12, 24)
    hidden: int = 128
    inputs: Literal["both", "keypoints", "heights"] = "both"

    def __post_init__(self) -> None:
        check_ranges(self, "network", {"keypoint_hidden": (1, 512), "channels": (1, 256), "hidden": (1, 1024)})


class QNetwork(nn.Module):
    """Action values of grasps, as logits: Q(s, a) = sigmoid(logit).

    Rewards are 1 for a successful execution and 0 otherwise, discounted by γ a move, so that every Q lies in [0, 1]
    and Q(s, execute) is the probability of success. The duelling form (Wang et al., ICML 2016) holds for the logits.
    """

    def __init__(self, config: NetworkConfig | None = None, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout
        self.config = config = config or NetworkConfig()
        width, (first, second), hidden = config.keypoint_hidden, config.channels, config.hidden
        self.keypoints = nn.Sequential(
            nn.Linear(KEYPOINT_FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.heights = nn.Sequential(
            nn.Conv2d(HEIGHT_CHANNELS, first, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * (GRID_ACROSS // 4) * (GRID_ALONG // 4), hidden),
            nn.ReLU(),
        )
        self.trunk = nn.Sequential(
            nn.Linear(hidden + 2 * width + SCALARS, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        # What isn't seen is 0 and has weights of 0, which then stay 0: run-time code needn't know of it.
        ignored = {"both": [], "keypoints": [range(hidden)], "heights": [range(hidden, hidden + 2 * width)]}
        self._ignored = [column for columns in ignored[config.inputs] for column in columns]
        with torch.no_grad():
            cast(nn.Linear, self.trunk[0]).weight[:, self._ignored] = 0.0
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, ACTIONS)

    def forward(self, features: GraspFeatures) -> Tensor:
        """Logits (B, ACTIONS)."""
        hidden = self.hidden(features)
        advantage, value = self.advantage(hidden), self.value(hidden)
        return cast(Tensor, value + advantage - advantage.mean(dim=1, keepdim=True))

    def execute_logit(self, features: GraspFeatures) -> Tensor:
        """Logits (B,) of success when the grasp is executed as it is."""
        return cast(Tensor, self(features)[:, EXECUTE])

    def hidden(self, features: GraspFeatures) -> Tensor:
        """What the trunk makes of the features, (B, hidden): for this network's heads and for those of others."""
        used = features.mask[..., None]
        rows = self.keypoints(features.keypoints) * used  # ReLU outputs: 0 is the floor, so unused rows never win
        largest = rows.amax(dim=1)
        mean = rows.sum(dim=1) / used.sum(dim=1).clamp(min=1)
        joined = torch.cat([self.heights(features.heights), largest, mean, features.scalars], dim=1)
        if self._ignored:
            joined[:, self._ignored] = 0.0
        return functional.dropout(self.trunk(joined), self.dropout, self.training)


@dataclass(frozen=True)
class Calibration:
    """Maps the chosen grasp's logit to a probability: sigmoid(slope · logit + offset) (Platt, 1999).

    The network's own value of the grasp it picked among many is too high (the winner's curse); the two numbers are
    fitted on executions of chosen grasps on validation objects.
    """

    slope: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, "calibration", dict.fromkeys(("slope", "offset"), (-1e6, 1e6)))

    def probability(self, logit: float) -> float:
        """Success probability of a chosen grasp."""
        return float(torch.sigmoid(torch.tensor(self.slope * logit + self.offset)))


def save_network(path: Path, network: QNetwork, calibration: Calibration | None = None) -> None:
    """Write weights as safetensors, whole or not at all; sizes and calibration go into the metadata."""
    metadata = {
        "layout": LAYOUT,
        "config": json.dumps(asdict(network.config)),
        "calibration": json.dumps(asdict(calibration or Calibration())),
    }
    write_weights(path, network.state_dict(), metadata)


def load_network(path: Path, remedy: str = _REMEDY) -> tuple[QNetwork, Calibration]:
    """Read weights written by :func:`save_network`, in evaluation mode on the CPU.

    Raises:
        InputError: If the file is missing, too large, not safetensors, made for another layout, or holds numbers that
            are not finite; says ``remedy``.
    """
    try:
        tensors, metadata = read_weights(path, _MAX_BYTES, remedy)
    except OSError as error:
        raise InputError(f"can't read the weights {path}: {error.strerror or error}", remedy) from error
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file ({error})", remedy) from error
    if metadata.get("layout") != LAYOUT:
        raise InputError(f"{path} is for layout {metadata.get('layout')!r}, this version needs {LAYOUT!r}", remedy)
    try:
        config = config_from(json.loads(metadata["config"]), NetworkConfig, where=f"{path}: config")
        calibration = config_from(json.loads(metadata["calibration"]), Calibration, where=f"{path}: calibration")
        network = QNetwork(config)
        network.load_state_dict(tensors)
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} doesn't hold the weights its metadata describe ({error})", remedy) from error
    return network.eval(), calibration


def default_weights() -> Path:
    """Path of the weights that ship with the project.

    Raises:
        InputError: If they are not there (a partial checkout).
    """
    return shipped_model(DEFAULT_WEIGHTS, "Train them with 'keygrasp train'")
