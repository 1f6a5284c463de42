"""Episodes on disk: one safetensors file each, of its own length, without rewards: a task's code gives those later.

A file holds ``symbols`` (T+1, D) float32, rows of the layout; ``actions`` (T, 5) float32 in [-1, 1]; and, where
images were taken, ``rgb`` (T+1, 64, 64, 3) uint8 and ``depth`` (T+1, 64, 64) float32 metres along the optical axis of
the overhead camera, 0 where nothing is seen. Its metadata ``episode`` is JSON: the format's version, the names of
the columns, ``terminated`` (the collecting task's own end), ``truncated`` (time was over, or the scene was left),
behaviour, task and seed. Row t is what was seen before action t, row t+1 what was seen after it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.scene.tabletop import ACTIONS
from keygrasp.tensorfiles import read_tensors, write_tensors
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.model import IMAGE_SIZE

FORMAT = "keygrasp-episode-1"
#: Most actions of an episode, and bytes of a file, that are read.
MAX_STEPS = 10_000
MAX_BYTES = 512 * 2**20
_REMEDY = "Delete it, and collect it again with the same seed"


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode of T actions.

    Attributes:
        symbols: (T+1, D) float32 rows.
        actions: (T, 5) float32 in [-1, 1].
        terminated: Whether the task that was collected with ended it; another task's code decides anew.
        truncated: Whether it was cut off: nothing is known of how it would have gone on.
        behaviour: What chose the actions.
        task: Name of the task that was collected with; empty for none.
        seed: Seed of the scene and of the behaviour.
        rgb: (T+1, 64, 64, 3) uint8 overhead pictures, or ``None``.
        depth: (T+1, 64, 64) float32 metres, 0 where nothing is seen, or ``None``.
    """

    symbols: Tensor
    actions: Tensor
    terminated: bool = False
    truncated: bool = False
    behaviour: str = ""
    task: str = ""
    seed: int = 0
    rgb: Tensor | None = None
    depth: Tensor | None = None

    def __len__(self) -> int:
        return len(self.actions)

    def check(self, layout: Layout, where: str = "the episode") -> Episode:
        """Refuse what can't be an episode of a layout.

        Raises:
            InputError: If a shape, a type, a value or a flag is impossible; names ``where``.
        """
        steps = len(self.actions)
        problem = _shape_problem(self, steps, layout.size)
        if not problem and not (torch.isfinite(self.symbols).all() and torch.isfinite(self.actions).all()):
            problem = "holds values that are not finite"
        if not problem and bool((self.actions.abs() > 1 + 1e-6).any()):
            problem = "holds actions outside [-1, 1]"
        if not problem and self.terminated and self.truncated:
            problem = "is marked as terminated and truncated at once"
        if problem:
            raise InputError(f"{where} {problem}", _REMEDY)
        return self

    def images(self) -> Tensor | None:
        """(T+1, 4, 64, 64) float32 as a model takes them: colours in [0, 1], then depth in metres."""
        if self.rgb is None or self.depth is None:
            return None
        return torch.cat([self.rgb.permute(0, 3, 1, 2).float() / 255, self.depth[:, None].float()], dim=1)


def _shape_problem(episode: Episode, steps: int, size: int) -> str:
    if not 1 <= steps <= MAX_STEPS:
        return f"has {steps} actions, not 1 to {MAX_STEPS}"
    expected: list[tuple[str, Tensor | None, tuple[int, ...], torch.dtype]] = [
        ("symbols", episode.symbols, (steps + 1, size), torch.float32),
        ("actions", episode.actions, (steps, len(ACTIONS)), torch.float32),
        ("rgb", episode.rgb, (steps + 1, IMAGE_SIZE, IMAGE_SIZE, 3), torch.uint8),
        ("depth", episode.depth, (steps + 1, IMAGE_SIZE, IMAGE_SIZE), torch.float32),
    ]
    for name, tensor, shape, kind in expected:
        if tensor is not None and (tuple(tensor.shape) != shape or tensor.dtype != kind):
            return f"has {name} of shape {tuple(tensor.shape)} and {tensor.dtype}, expected {shape} and {kind}"
    return (
        "has colours without depth, or depth without colours"
        if (episode.rgb is None) != (episode.depth is None)
        else ""
    )


def write_episode(path: Path, episode: Episode, layout: Layout) -> None:
    """Write an episode whole or not at all.

    Raises:
        InputError: If it is not one of this layout.
        StorageError: If it can't be written.
    """
    episode.check(layout)
    tensors = {"symbols": episode.symbols, "actions": episode.actions}
    if episode.rgb is not None and episode.depth is not None:
        tensors |= {"rgb": episode.rgb, "depth": episode.depth}
    about = {
        "format": FORMAT,
        "columns": list(layout.names),
        "terminated": episode.terminated,
        "truncated": episode.truncated,
        "behaviour": episode.behaviour,
        "task": episode.task,
        "seed": episode.seed,
    }
    write_tensors(path, tensors, {"episode": json.dumps(about)})


def read_episode(path: Path, layout: Layout) -> Episode:
    """Read an episode.

    Raises:
        InputError: If the file is missing, damaged, too large, of another format or of another layout.
    """
    try:
        tensors, metadata = read_tensors(path, MAX_BYTES, _REMEDY)
    except OSError as error:
        raise InputError(f"can't read {path}: {error.strerror or error}", "Check the path") from error
    except SafetensorError as error:
        raise InputError(f"{path} is no whole safetensors file ({error})", _REMEDY) from error
    about = _about(path, metadata, layout)
    if not {"symbols", "actions"} <= set(tensors) <= {"symbols", "actions", "rgb", "depth"}:
        raise InputError(f"{path} holds {sorted(tensors)}, not an episode", _REMEDY)
    return Episode(
        **tensors,  # type: ignore[arg-type]
        **{name: about[name] for name in ("terminated", "truncated", "behaviour", "task", "seed")},
    ).check(layout, str(path))


def _about(path: Path, metadata: dict[str, str], layout: Layout) -> dict[str, Any]:
    try:
        about = json.loads(metadata.get("episode", ""))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} says nothing about its episode", _REMEDY) from error
    kinds = {"terminated": bool, "truncated": bool, "behaviour": str, "task": str, "seed": int}
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise InputError(f"{path} is not of the format {FORMAT}", _REMEDY)
    if any(not isinstance(about.get(name), kind) for name, kind in kinds.items()):
        raise InputError(f"{path} describes its episode wrongly", _REMEDY)
    if about.get("columns") != list(layout.names):
        raise InputError(f"{path} has other symbols than this layout", "Read it with the layout it was collected with")
    return about


def read_episodes(folder: Path, layout: Layout) -> list[Episode]:
    """All episodes of a folder, in the order of their files' names.

    Raises:
        InputError: If there is no folder or no episode in it, or a file can't be read.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder", "Collect episodes first: keygrasp worldmodel collect")
    paths = sorted(folder.glob("episode-*.safetensors"))
    if not paths:
        raise InputError(f"no episode in {folder}", "Collect some first: keygrasp worldmodel collect")
    return [read_episode(path, layout) for path in paths]


def split(episodes: Sequence[Episode], held_out: int) -> tuple[list[Episode], list[Episode]]:
    """Episodes to learn from, and ``held_out`` others, taken evenly from among them.

    Raises:
        InputError: If none would be left to learn from.
    """
    if not 0 <= held_out < len(episodes):
        raise InputError(f"{held_out} of {len(episodes)} episodes can't be held out", "Collect more, or hold out fewer")
    held = {(2 * k + 1) * len(episodes) // (2 * held_out) for k in range(held_out)}
    return [e for i, e in enumerate(episodes) if i not in held], [episodes[i] for i in sorted(held)]


@dataclass(frozen=True, eq=False)
class Windows:
    """Pieces of K actions of episodes, batch first; where an episode ends within one, the rest is not ``valid``.

    Attributes:
        symbols: (N, K+1, D).
        actions: (N, K, 5); 0 where not valid.
        valid: (N, K) whether action k and the row after it belong to the episode.
        first: (N,) whether the piece begins with the episode's first row.
    """

    symbols: Tensor
    actions: Tensor
    valid: Tensor
    first: Tensor


def windows(episodes: Sequence[Episode], length: int, stride: int = 1) -> Windows:
    """All pieces of ``length`` actions that begin every ``stride`` steps; short ones are filled with the last row.

    Raises:
        InputError: If there is no episode, or ``length`` or ``stride`` is below 1.
    """
    if not episodes or length < 1 or stride < 1:
        raise InputError("there is nothing to cut into pieces", "Give episodes, and a length and stride of at least 1")
    rows, actions, valid, first = [], [], [], []
    for episode in episodes:
        steps = len(episode)
        starts = torch.arange(0, steps, stride)
        at = starts[:, None] + torch.arange(length + 1)
        rows.append(episode.symbols[at.clamp(max=steps)])
        inside = at[:, :-1] < steps
        actions.append(episode.actions[at[:, :-1].clamp(max=steps - 1)] * inside[..., None])
        valid.append(inside)
        first.append(starts == 0)
    return Windows(torch.cat(rows), torch.cat(actions), torch.cat(valid), torch.cat(first))
