"""Who labels further grasps around the executed ones, without executing them: extra experience for the refiner."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.experience.contact_model import load_contact_model
from keygrasp.refine.dataset import GraspDataset
from keygrasp.refine.outcomes import load_outcomes
from keygrasp.refine.state import featurise


class Teacher(Protocol):
    """Says how probable success is."""

    def success(self, data: GraspDataset, index: Tensor, grasps: Tensor, generator: torch.Generator) -> Tensor:
        """Probabilities (B,) of success of grasps (B, 5) in the data's scenes ``index`` (B,)."""
        ...


class ContactTeacher:
    """Looks the true geometry up; see :mod:`keygrasp.experience.contact_model`.

    Args:
        path: The contact model.
        executions: Executions with KG-1's errors over which each probability is the mean.
        device: Where to compute.
    """

    def __init__(self, path: Path, executions: int, device: torch.device) -> None:
        self._model, self._executions = load_contact_model(path).to(device), executions

    def success(self, data: GraspDataset, index: Tensor, grasps: Tensor, generator: torch.Generator) -> Tensor:
        """See :class:`Teacher`."""
        if data.solids is None:
            raise InputError("a contact model needs the scenes' true geometry", "Load the labels with solids=True")
        return self._model.robust_success(
            data.solids, index, grasps, data.gripper, executions=self._executions, generator=generator
        )


class OutcomeTeacher:
    """Looks at the image alone, as the refiner does; see :mod:`keygrasp.refine.outcomes`.

    Args:
        path: The outcome model.
        device: Where to compute.
    """

    def __init__(self, path: Path, device: torch.device) -> None:
        self._network = load_outcomes(path).to(device)

    def success(self, data: GraspDataset, index: Tensor, grasps: Tensor, generator: torch.Generator) -> Tensor:
        """See :class:`Teacher`."""
        return self._network.success(featurise(data.scenes, index, grasps, data.gripper))
