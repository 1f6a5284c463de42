"""Checkpoints of training: one safetensors file, written whole or not at all, no pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.files import atomic_path

if TYPE_CHECKING:
    from keygrasp.refine.training import Trainer


def save_checkpoint(path: Path, trainer: Trainer, history: list[dict[str, float]], fingerprint: dict[str, Any]) -> None:
    """Write networks, optimiser state, sequences that are kept, schedule, step, clock and history."""
    tensors: dict[str, Tensor] = {}
    for prefix, network in (("online", trainer.online), ("target", trainer.target)):
        for name, value in network.state_dict().items():
            tensors[f"{prefix}.{name}"] = value.detach().cpu().contiguous()
    for number, state in trainer.optimiser.state_dict()["state"].items():
        for name, value in state.items():
            tensors[f"adam.{number}.{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
    if trainer.sequences is not None:
        for name, value in trainer.sequences.state().items():
            tensors[f"sequences.{name}"] = value.cpu().contiguous()
    if trainer.schedule is not None:
        for name, value in trainer.schedule.state().items():
            tensors[f"schedule.{name}"] = value
    metadata = {
        "step": str(trainer.step),
        "seconds": json.dumps(trainer.seconds),
        "history": json.dumps(history),
        "config": json.dumps(fingerprint),
    }
    with atomic_path(path) as temporary:
        save_file(tensors, str(temporary), metadata)


def load_checkpoint(path: Path, trainer: Trainer, fingerprint: dict[str, Any]) -> list[dict[str, float]]:
    """Restore what :func:`save_checkpoint` wrote; returns the history.

    Raises:
        InputError: If the file is damaged or belongs to another configuration.
    """
    remedy = "Choose another 'out' folder, or delete the checkpoint to start anew"
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no iterator)
        if json.loads(metadata["config"]) != fingerprint:
            raise InputError(f"the checkpoint {path} was made with another configuration", remedy)
        for prefix, network in (("online", trainer.online), ("target", trainer.target)):
            network.load_state_dict(_under(tensors, prefix))
        adam: dict[int, dict[str, Tensor]] = {}
        for name, value in _under(tensors, "adam").items():
            number, field = name.split(".", 1)
            adam.setdefault(int(number), {})[field] = value
        state = trainer.optimiser.state_dict()
        trainer.optimiser.load_state_dict({"state": adam, "param_groups": state["param_groups"]})
        if trainer.sequences is not None:
            trainer.sequences.restore(_under(tensors, "sequences"))
        if trainer.schedule is not None:
            trainer.schedule.restore(_under(tensors, "schedule"))
        trainer.step = int(metadata["step"])
        trainer.seconds = {str(k): float(v) for k, v in json.loads(metadata["seconds"]).items()}
        history: list[dict[str, float]] = json.loads(metadata["history"])
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"can't resume from {path} ({error})", remedy) from error
    return history


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    start = len(prefix) + 1
    return {name[start:]: value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
