"""What a training run of the refiner is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from keygrasp.configuration import MOST_SEED, check_ranges
from keygrasp.curriculum import SCHEDULERS
from keygrasp.errors import ConfigurationError
from keygrasp.refine.actions import ActionSet
from keygrasp.refine.network import NetworkConfig

_BATCH = 1_000_000
#: Least and most of each number: beyond them training can't work, or no memory holds it.
_RANGES: dict[str, tuple[float, float]] = {
    "steps": (1, 100_000_000),
    "execute_batch": (1, _BATCH),
    "move_batch": (1, _BATCH),
    "learning_rate": (1e-12, 1),
    "weight_decay": (0, 100),
    "gamma": (1e-6, 1),
    "n_step": (1, 100),
    "trace": (0, 1),
    "replay": (1, _BATCH),
    "fresh": (1, _BATCH),
    "explore": (0, 1),
    "target_rate": (1e-9, 1),
    "warm_up": (0, 100_000_000),
    "noise": (0, 10),
    "label_noise": (0, 10),
    "height_noise": (0, 10),
    "virtual_batch": (0, _BATCH),
    "virtual_executions": (1, 1000),
    "evaluate_every": (1, 100_000_000),
    "shaping_scale": (0, 1_000_000),
    "seed": (0, MOST_SEED),
}


def check_folders(where: str, labels: tuple[Path, ...], validation: tuple[Path, ...]) -> None:
    """Check that there are folders of labels, none of which is watched as well.

    Raises:
        ConfigurationError: If there are none or one is in both; ``where`` says of what.
    """
    if not labels:
        raise ConfigurationError(f"{where}: labels names no folder", "Name one that 'keygrasp collect' made")
    both = {path.resolve() for path in labels} & {path.resolve() for path in validation}
    if both:
        raise ConfigurationError(
            f"{where}: {sorted(both)[0]} is in labels and in validation",
            "Watch labels of other objects than those it learns from",
        )


@dataclass(frozen=True)
class TrainConfig:
    """Everything that a training run depends on.

    Attributes:
        labels: Folders of labels to train on.
        validation: Folders of labels to watch, never trained on.
        out: Folder for weights, checkpoint and log.
        steps: Gradient steps.
        execute_batch: Execute labels a step.
        move_batch: Moves a step.
        learning_rate: Peak of the cosine schedule (AdamW).
        weight_decay: AdamW's weight decay.
        gamma: Discount a move.
        targets: How moves are credited: ``n_step`` follows the policy anew from each; ``retrace`` learns from sequences
            that were made before and are kept.
        n_step: Length of the returns in moves; with ``retrace`` that of the sequences.
        trace: Retrace's λ.
        replay: Sequences that are kept.
        fresh: New sequences a step.
        explore: Share of random actions in them.
        target_rate: Share of the online network that flows into the target network a step.
        warm_up: Steps on execute labels alone, so that moves bootstrap from something.
        noise: Spread of the start poses around the labels: metres along and across, metres in z, radians, metres width.
        label_noise: Spread of the same five around an executed grasp: the network learns its neighbourhood's success
            rather than one lucky verdict.
        height_noise: Metres of fresh noise on the height samples each time a label is seen.
        dropout: Share of the trunk's units that are left out of a training step.
        start: Weights to start from instead of random ones.
        contact_model: Contact model that labels further grasps (see :mod:`keygrasp.experience.contact_model`).
        outcome_model: Model that does so from the images instead (see :mod:`keygrasp.refine.outcomes`).
        virtual_batch: Grasps around the labels that it labels a step.
        virtual_executions: Executions with KG-1's errors over which each of a contact model's labels is the mean.
        evaluate_every: Steps between looks at the validation labels (and checkpoints).
        shaping: Potential whose shaping term is logged along the moves; in targets from labels it cancels.
        shaping_scale: Factor of that term.
        scheduler: Who decides which labels a batch takes: ``even`` draws any, else a name of
            ``keygrasp.curriculum.make_scheduler``, which follows how often the network tells a scene's outcomes right.
        device: ``cpu``, ``cuda`` or ``auto``.
        seed: Seed of weights, batches and noise.
        network: Sizes of the network.
        actions: Step sizes of the moves.
    """

    labels: tuple[Path, ...] = (Path("runs/labels/train"),)
    validation: tuple[Path, ...] = ()
    out: Path = Path("runs/refiner")
    steps: int = 3000
    execute_batch: int = 384
    move_batch: int = 96
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    gamma: float = 0.995
    targets: Literal["n_step", "retrace"] = "n_step"
    n_step: int = 3
    trace: float = 1.0
    replay: int = 4096
    fresh: int = 16
    explore: float = 0.2
    target_rate: float = 0.01
    warm_up: int = 600
    noise: tuple[float, float, float, float, float] = (0.012, 0.012, 0.012, 0.4, 0.015)
    label_noise: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    height_noise: float = 0.0
    dropout: float = 0.0
    start: Path | None = None
    contact_model: Path | None = None
    outcome_model: Path | None = None
    virtual_batch: int = 0
    virtual_executions: int = 4
    evaluate_every: int = 250
    shaping: Literal["none", "rules", "llm", "learned"] = "none"
    shaping_scale: float = 1.0
    scheduler: str = "even"
    device: str = "auto"
    seed: int = 0
    network: NetworkConfig = field(default_factory=NetworkConfig)
    actions: ActionSet = field(default_factory=ActionSet)

    def __post_init__(self) -> None:
        if not (0 <= self.dropout < 1 and self.height_noise >= 0):
            raise ConfigurationError("train: dropout lies in [0, 1), height_noise is at least 0")
        check_ranges(self, "train", _RANGES)
        check_folders("train", self.labels, self.validation)
        if (self.contact_model is not None) + (self.outcome_model is not None) != (self.virtual_batch > 0):
            raise ConfigurationError(
                "train: contact_model or outcome_model and virtual_batch need each other",
                "Give one of the two, or none",
            )
        if self.device not in ("auto", "cpu", "cuda"):
            raise ConfigurationError(f"train: device is {self.device!r}", "Known: auto, cpu, cuda")
        if self.scheduler not in ("even", *SCHEDULERS):
            raise ConfigurationError(
                f"train: scheduler is {self.scheduler!r}", f"Known: {', '.join(('even', *SCHEDULERS))}"
            )
        self._check_targets()

    def _check_targets(self) -> None:
        if self.targets not in ("n_step", "retrace"):
            raise ConfigurationError(f"train: targets are {self.targets!r}", "Known: n_step, retrace")
        if self.fresh > self.replay:
            raise ConfigurationError(f"train: fresh is {self.fresh}", f"Give 1 to {self.replay}, which is replay")
        if self.targets == "retrace" and self.shaping != "none":
            raise ConfigurationError("train: the shaping term is logged along n-step returns", "Use targets: n_step")
