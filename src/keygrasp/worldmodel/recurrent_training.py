"""Training of the recurrent image model: configuration, loop, checkpoints that resume, weights on disk."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from torch import Tensor

from keygrasp.configuration import config_from
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.contact_model import scheduled_rate
from keygrasp.provenance import provenance
from keygrasp.tensorfiles import read_tensors, read_weights, write_tensors, write_weights
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.recurrent import RecurrentConfig, RecurrentModel, RecurrentNetwork
from keygrasp.worldmodel.recurrent_data import Frames, Sequences
from keygrasp.worldmodel.recurrent_graph import Gradients, recorded
from keygrasp.worldmodel.recurrent_losses import LOSSES, Noise, sequence_losses

FORMAT = "kg-images-2"
_MAX_BYTES = 512 * 2**20
_REMEDY = "Make one with 'keygrasp worldmodel train --model images'"
#: Steps between two times that the losses are fetched from the device, which has to finish all work before.
_FETCHED = 50
#: Told the step and the newest losses that were fetched.
OnStep = Callable[[int, dict[str, float]], None]


@dataclass(frozen=True)
class ImageTrainConfig:
    """Training of the image model.

    Attributes:
        steps: Gradient steps.
        seconds: Seconds of training after which the schedule has run out, too, however many steps were taken; 0 for no
            limit. Which steps those are depends on the machine: only without a limit is the outcome that of the seed.
        batch: Pieces of episodes a step.
        length: Actions of a piece.
        horizon: K, steps of the open-loop prediction of symbols, 5 to 15.
        learning_rate: Peak of the cosine schedule (AdamW).
        weight_decay: AdamW's weight decay.
        image_scale: Weight of the images' squared error.
        mirror: Whether pieces are mirrored at random; physics knows no left and right.
        graph: Whether a GPU records a step's computation once and plays it back, which saves most of its launches.
        save_every: Steps between checkpoints.
        device: ``cpu``, ``cuda`` or ``auto``.
        seed: Seed of weights, pieces and samples.
        network: Sizes of the network.
    """

    steps: int = 30_000
    seconds: float = 0.0
    batch: int = 32
    length: int = 20
    horizon: int = 10
    learning_rate: float = 4e-4
    weight_decay: float = 0.01
    image_scale: float = 0.1
    mirror: bool = True
    graph: bool = True
    save_every: int = 500
    device: str = "auto"
    seed: int = 0
    network: RecurrentConfig = field(default_factory=RecurrentConfig)

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.save_every) < 1 or self.learning_rate <= 0 or self.image_scale < 0:
            raise ConfigurationError(
                "image model: steps, batch, save_every ≥ 1, learning_rate > 0 and image_scale ≥ 0 are needed"
            )
        if not self.seconds >= 0:
            raise ConfigurationError(f"image model: seconds is {self.seconds}", "Give 0 for no limit, or more")
        if not 5 <= self.horizon <= 15 or self.length < self.horizon:
            raise ConfigurationError("image model: horizon lies in [5, 15], and length is at least as long")
        if self.device not in ("auto", "cpu", "cuda"):
            raise ConfigurationError(f"image model: device is {self.device!r}", "Known: auto, cpu, cuda")


class ImageTrainer:
    """Owns the network, the optimiser and the clock of one run.

    Attributes:
        step: Gradient steps taken.
        seconds: Of training, those before it was stopped included.
        recording: Whether steps are played back (``recorded``), or why not.
    """

    def __init__(self, config: ImageTrainConfig, episodes: Sequence[Episode], layout: Layout) -> None:
        torch.manual_seed(config.seed)
        name = config.device
        if name == "cuda" and not torch.cuda.is_available():
            raise ConfigurationError("image model: device is cuda, but torch finds no GPU", "Use device auto or cpu")
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        self.config, self.device = config, torch.device(name)
        self.network = RecurrentNetwork(config.network, layout).to(self.device)
        self._parameters = list(self.network.parameters())
        self.optimiser = torch.optim.AdamW(
            self._parameters, config.learning_rate, weight_decay=config.weight_decay, fused=name == "cuda"
        )
        self._frames = Frames(self.network, episodes, mirror=config.mirror)
        self._generator = torch.Generator(self.device)
        self._gradients: Gradients = self._computed
        self.recording = "" if name == "cuda" and config.graph else "not asked for"
        self.step, self.seconds = 0, 0.0

    @property
    def progress(self) -> float:
        """Share of the schedule that has run; 1 at the end."""
        config = self.config
        share = self.step / config.steps
        return max(share, self.seconds / config.seconds) if config.seconds > 0 else share

    def train_step(self) -> Tensor:
        """One gradient step; returns its losses (4,), see :data:`LOSSES`, on the device.

        Each step draws from its own seed, so that resuming draws the same.
        """
        config = self.config
        # As many steps as there would be at the pace so far.
        steps = self.step / self.progress if self.step else config.steps
        for group in self.optimiser.param_groups:
            group["lr"] = scheduled_rate(config.learning_rate, self.step, max(1, round(steps)))
        self._generator.manual_seed(config.seed * 1_000_003 + self.step)
        sequences = self._frames.draw(config.batch, config.length, self._generator)
        noise = Noise.draw(self.network, (config.batch, config.length), config.horizon, self._generator)
        if not self.recording:
            self._record(sequences, noise)
        losses = self._gradients(sequences, noise)
        torch.nn.utils.clip_grad_norm_(self._parameters, 100.0)
        self.optimiser.step()
        self.step += 1
        return losses

    def _computed(self, sequences: Sequences, noise: Noise) -> Tensor:
        """Losses of a batch; their gradients stay in the parameters."""
        self.network.zero_grad(set_to_none=True)
        losses = sequence_losses(self.network, sequences, noise, self.config.image_scale)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def _record(self, sequences: Sequences, noise: Noise) -> None:
        try:
            self._gradients = recorded(self._computed, self.network, sequences, noise)
            self.recording = "recorded"
        except RuntimeError as error:
            self.recording = f"refused: {error}".splitlines()[0]


def train_images(
    episodes: Sequence[Episode],
    out: Path,
    config: ImageTrainConfig | None = None,
    on_step: OnStep | None = None,
    *,
    layout: Layout | None = None,
) -> dict[str, Any]:
    """Train and write the weights; goes on from the checkpoint beside them where an earlier run was stopped.

    What is stopped loses at most ``save_every`` steps; the checkpoint stays until it is deleted.

    Args:
        episodes: With images, see :class:`keygrasp.worldmodel.recurrent_data.Frames`.
        out: File of the weights.
        config: How to train.
        on_step: Told how far it is.
        layout: Symbols of the episodes.

    Returns:
        A report: configuration, losses at the end, seconds, provenance.

    Raises:
        InputError: If there are no episodes with images, or the checkpoint is damaged or of another configuration.
    """
    config = config or ImageTrainConfig()
    if not episodes:
        raise InputError("there are no episodes to learn from", "Collect them: keygrasp worldmodel collect --images")
    trainer = ImageTrainer(config, episodes, layout or Layout())
    checkpoint, fingerprint = checkpoint_path(out), _fingerprint(config, episodes)
    if checkpoint.is_file():
        load_checkpoint(checkpoint, trainer, fingerprint)
    running = _run(trainer, lambda: save_checkpoint(checkpoint, trainer, fingerprint), on_step)
    save_images_model(out, trainer.network)
    return {
        "config": fingerprint,
        "episodes": len(episodes),
        "parameters": sum(p.numel() for p in trainer.network.parameters()),
        "steps": trainer.step,
        "seconds": trainer.seconds,
        "recording": trainer.recording,
        "device": torch.cuda.get_device_name(trainer.device) if trainer.device.type == "cuda" else "cpu",
        "final": running,
        "provenance": provenance(config.seed),
    }


def _run(trainer: ImageTrainer, save: Callable[[], None], on_step: OnStep | None) -> dict[str, float]:
    """Train to the end; returns running means of the losses."""
    config, told = trainer.config, dict.fromkeys(LOSSES, math.nan)
    mean, begun = torch.zeros(len(LOSSES), device=trainer.device), time.perf_counter() - trainer.seconds
    first = trainer.step
    while trainer.progress < 1:
        losses = trainer.train_step()
        mean.lerp_(losses, max(0.02, 1 / (trainer.step - first)))
        if trainer.step % _FETCHED == 0 or trainer.step - first == 1:
            told = dict(zip(LOSSES, mean.tolist(), strict=True))
        trainer.seconds = time.perf_counter() - begun
        if trainer.step % config.save_every == 0 or trainer.progress >= 1:
            save()
        if on_step is not None:
            on_step(trainer.step, told)
    return dict(zip(LOSSES, mean.tolist(), strict=True)) if trainer.step > first else told


def checkpoint_path(out: Path) -> Path:
    """Where a training keeps what it needs to go on, by the file of its weights."""
    return out.with_name(f"{out.stem}.checkpoint.safetensors")


def save_checkpoint(path: Path, trainer: ImageTrainer, fingerprint: dict[str, Any]) -> None:
    """Write network, optimiser, step and clock as safetensors, whole or not at all."""
    tensors = {f"network.{name}": value for name, value in trainer.network.state_dict().items()}
    for number, state in trainer.optimiser.state_dict()["state"].items():
        tensors |= {f"adam.{number}.{name}": torch.as_tensor(value) for name, value in state.items()}
    metadata = {"step": trainer.step, "seconds": trainer.seconds, "config": fingerprint}
    write_tensors(path, tensors, {name: json.dumps(value) for name, value in metadata.items()})


def load_checkpoint(path: Path, trainer: ImageTrainer, fingerprint: dict[str, Any]) -> None:
    """Restore what :func:`save_checkpoint` wrote.

    Raises:
        InputError: If the file is damaged or belongs to another configuration.
    """
    remedy = "Choose another --out, or delete the checkpoint to start anew"
    try:
        tensors, metadata = read_tensors(path, 4 * _MAX_BYTES, remedy)
        if json.loads(metadata["config"]) != fingerprint:
            raise InputError(f"the checkpoint {path} was made with another configuration", remedy)
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "adam": {}}
        for name, value in tensors.items():
            part, rest = name.split(".", 1)
            parts[part][rest] = value
        trainer.network.load_state_dict(parts["network"])
        adam: dict[int, dict[str, Tensor]] = {}
        for name, value in parts["adam"].items():
            number, entry = name.split(".", 1)
            adam.setdefault(int(number), {})[entry] = value
        groups = trainer.optimiser.state_dict()["param_groups"]
        trainer.optimiser.load_state_dict({"state": adam, "param_groups": groups})
        trainer.step, trainer.seconds = int(json.loads(metadata["step"])), float(json.loads(metadata["seconds"]))
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"can't resume from {path} ({error})", remedy) from error


def save_images_model(path: Path, network: RecurrentNetwork) -> None:
    """Write the weights as safetensors with sizes and layout, whole or not at all."""
    metadata = {
        "format": FORMAT,
        "config": json.dumps(asdict(network.config)),
        "objects": json.dumps(list(network.layout.objects)),
        "columns": json.dumps(list(network.layout.names)),
    }
    write_weights(path, network.state_dict(), metadata)


def load_images_model(path: Path, symbols_from: Literal["given", "images"] = "given") -> RecurrentModel:
    """Read a model, on the CPU.

    Raises:
        InputError: If the file is missing, too large, damaged or made for other symbols.
    """
    try:
        tensors, metadata = read_weights(path, _MAX_BYTES, _REMEDY)
        if metadata.get("format") != FORMAT:
            raise InputError(f"{path} has format {metadata.get('format')!r}, this version reads {FORMAT!r}", _REMEDY)
        layout = Layout(tuple(json.loads(metadata["objects"])))
        if json.loads(metadata["columns"]) != list(layout.names):
            raise InputError(f"{path} was made for other symbols than this version knows", _REMEDY)
        config = config_from(json.loads(metadata["config"]), RecurrentConfig, where=f"{path}: config")
        network = RecurrentNetwork(config, layout)
        network.load_state_dict(tensors)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"can't read the image model {path} ({error})", _REMEDY) from error
    return RecurrentModel(network, symbols_from)


def _fingerprint(config: ImageTrainConfig, episodes: Sequence[Episode]) -> dict[str, Any]:
    """The configuration and the amount of data as JSON: a checkpoint of others is refused."""
    result: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return {**result, "decisions": sum(map(len, episodes))}
