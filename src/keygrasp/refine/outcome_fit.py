"""Fits an outcome model to executed grasps, and says how well it predicts those of other objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional

from keygrasp.configuration import MOST_SEED, check_ranges
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.contact_fit import agreement
from keygrasp.experience.contact_model import check_converges, scheduled_rate
from keygrasp.experience.labels import OUTCOMES
from keygrasp.files import write_json
from keygrasp.geometry.poses import Array
from keygrasp.provenance import provenance
from keygrasp.refine.dataset import GraspDataset, GraspEnds, load_dataset
from keygrasp.refine.network import default_weights, load_network
from keygrasp.refine.outcomes import (
    CAUSES,
    UNITS,
    Expectation,
    OutcomeConfig,
    OutcomeNetwork,
    save_outcomes,
    take_trunk,
)
from keygrasp.refine.state import featurise
from keygrasp.refine.train_config import check_folders

#: Told the step and its losses.
OnStep = Callable[[int, dict[str, float]], None]
_CAUSE_OF = torch.tensor([CAUSES.index(o) if o in CAUSES else -1 for o in OUTCOMES])


@dataclass(frozen=True)
class OutcomeFitConfig:
    """What to fit to, and how.

    Attributes:
        labels: Folders of labels to fit to.
        validation: Folders of labels of other objects, on which the fitted model is measured.
        out: Folder for ``outcomes.safetensors`` and ``report.json``.
        start: Weights of a refiner whose trunk is taken as it is; none for a trunk of its own, from random numbers.
        steps: Gradient steps.
        batch: Executed grasps a step.
        learning_rate: Peak of the cosine schedule (AdamW).
        weight_decay: AdamW's weight decay.
        dropout: Share of the trunk's outputs that a head does without in a training step.
        share: Share of the executions that each member of the ensemble sees.
        device: ``cpu``, ``cuda`` or ``auto``.
        seed: Seed of weights, shares and batches.
        model: Sizes; those of the trunk are taken from ``start`` where it is given.
    """

    labels: tuple[Path, ...] = (Path("runs/labels/train"),)
    validation: tuple[Path, ...] = ()
    out: Path = Path("runs/outcomes")
    start: Path | None = None
    steps: int = 2000
    batch: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    dropout: float = 0.2
    share: float = 0.7
    device: str = "auto"
    seed: int = 0
    model: OutcomeConfig = field(default_factory=OutcomeConfig)

    def __post_init__(self) -> None:
        if min(self.steps, self.batch) < 1 or not (0 <= self.dropout < 1 and 0 < self.share <= 1):
            raise ConfigurationError("outcomes: steps, batch ≥ 1, dropout in [0, 1) and share in (0, 1] are needed")
        check_folders("outcomes", self.labels, ())
        check_ranges(
            self,
            "outcomes",
            {
                "steps": (1, 100_000_000),
                "batch": (1, 1_000_000),
                "learning_rate": (1e-12, 1),
                "weight_decay": (0, 100),
                "seed": (0, MOST_SEED),
            },
        )
        if self.device not in ("auto", "cpu", "cuda"):
            raise ConfigurationError(f"outcomes: device is {self.device!r}", "Known: auto, cpu, cuda")


def fit_outcomes(config: OutcomeFitConfig, on_step: OnStep | None = None) -> dict[str, Any]:
    """Fit, measure, and write the model and its report, which is returned.

    Raises:
        InputError: If labels or weights can't be read, or no label has a usable outcome.
    """
    chosen = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(chosen if config.device == "auto" else config.device)
    data = load_dataset(config.labels).to(device)
    network = train_outcomes(config, data, on_step)
    report: dict[str, Any] = {
        "config": json.loads(json.dumps(asdict(config), default=str)),
        "labels": len(data.grasps),
        "scenes": len(data.objects),
        "fit": measure(expect_all(network, data), _ends(data)),
        "provenance": provenance(config.seed),
    }
    if config.validation:
        other = load_dataset(config.validation).to(device)
        report |= {"validation_labels": len(other.grasps), "validation_objects": len(set(other.objects))}
        report["validation"] = measure(expect_all(network, other), _ends(other))
    shared = config.start is not None and _same_file(config.start, default_weights())
    save_outcomes(config.out / "outcomes.safetensors", network, shares_trunk=shared)
    write_json(config.out / "report.json", report)
    return report


def train_outcomes(config: OutcomeFitConfig, data: GraspDataset, on_step: OnStep | None = None) -> OutcomeNetwork:
    """Fit a network to executed grasps, on the device that they lie on."""
    torch.manual_seed(config.seed)
    device, ends = data.grasps.device, _ends(data)
    network = _start(config).to(device).train()
    learned = network.heads.parameters() if config.start is not None else network.parameters()
    optimiser = torch.optim.AdamW(learned, config.learning_rate, weight_decay=config.weight_decay)
    generator = torch.Generator().manual_seed(config.seed)
    cause, measures = _CAUSE_OF.to(device)[ends.outcome], _logarithms(ends)
    usable = torch.nonzero(cause >= 0)[:, 0].cpu()
    if len(usable) == 0:
        raise InputError("no label ended in a way that says something about its grasp", "Collect labels first")
    members = config.model.members
    seen = (torch.rand(members, len(cause), generator=generator) < config.share).to(device)
    for step in range(config.steps):
        for group in optimiser.param_groups:
            group["lr"] = scheduled_rate(config.learning_rate, step, config.steps)
        rows = usable[torch.randint(len(usable), (config.batch,), generator=generator)].to(device)
        flip = (torch.randint(0, 2, (config.batch, 2), generator=generator).float() * 2 - 1).to(device)
        logits, values = network(featurise(data.scenes, data.scene[rows], data.grasps[rows], data.gripper, flip))
        losses = _losses(logits, values, cause[rows], measures[rows], seen[:, rows].float())
        optimiser.zero_grad(set_to_none=True)
        loss = torch.stack(list(losses.values())).sum()
        check_converges("outcomes", step, config.learning_rate, loss)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()
        if on_step is not None:
            on_step(step + 1, {name: float(value.detach()) for name, value in losses.items()})
    return network.eval()


def _losses(logits: Tensor, values: Tensor, cause: Tensor, measures: Tensor, seen: Tensor) -> dict[str, Tensor]:
    """Means over what each member sees: cross-entropy of causes, Huber loss of force and way where measured."""
    members, count = seen.shape
    entropy = functional.cross_entropy(logits.flatten(0, 1), cause.repeat(members), reduction="none")
    known = torch.isfinite(measures)
    error = functional.huber_loss(
        values, torch.where(known, measures, 0.0).expand_as(values), reduction="none", delta=1.0
    )
    weight = seen[..., None] * known
    return {
        "cause_loss": (entropy.view(members, count) * seen).sum() / seen.sum().clamp(min=1),
        "measure_loss": (error * weight).sum() / weight.sum().clamp(min=1),
    }


@torch.no_grad()
def expect_all(network: OutcomeNetwork, data: GraspDataset) -> Expectation:
    """What the network expects of all grasps of the data."""
    parts = []
    for rows in torch.split(torch.arange(len(data.grasps), device=data.grasps.device), 1024):
        features = featurise(data.scenes, data.scene[rows], data.grasps[rows], data.gripper)
        parts.append(network.expect(features))
    return Expectation(*(np.concatenate(part) for part in zip(*(tuple(vars(p).values()) for p in parts), strict=True)))


def measure(expected: Expectation, ends: GraspEnds) -> dict[str, Any]:
    """How expectations agree with what happened: success, causes, and errors of force and way with rank correlations.

    ``error_of_median`` is the mean error that always saying the median would make.
    """
    cause = _CAUSE_OF[ends.outcome.cpu()].numpy()
    usable = cause >= 0
    result: dict[str, Any] = {
        "success": agreement(expected.success[usable], (cause[usable] == 0).astype(float)),
        "cause_accuracy": float((expected.causes[usable].argmax(axis=1) == cause[usable]).mean()),
        "most_frequent_cause": float(np.bincount(cause[usable]).max() / usable.sum()),
    }
    for name, unit in (("force", "N"), ("moved", "m")):
        true, said = getattr(ends, name).cpu().double().numpy(), getattr(expected, name)
        known = np.isfinite(true)
        if known.sum() > 1:
            result[name] = {"unit": unit, "measured": int(known.sum()), **_errors(said[known], true[known])}
    return result


def _errors(said: Array, true: Array) -> dict[str, float]:
    ranks = np.stack([rankdata(values) for values in (said, true)])
    spread = np.std(ranks, axis=1).prod()
    shared = float(np.mean((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())))
    return {
        "mean_absolute_error": float(np.abs(said - true).mean()),
        "error_of_median": float(np.abs(np.median(true) - true).mean()),
        "rank_correlation": shared / float(spread) if spread > 0 else 0.0,
    }


def _logarithms(ends: GraspEnds) -> Tensor:
    """(N, 2) targets of force and way; NaN where not measured."""
    values = torch.stack([ends.force, ends.moved], dim=1)
    return torch.log1p(values / values.new_tensor(UNITS))


def _ends(data: GraspDataset) -> GraspEnds:
    if data.ends is None:
        raise InputError("these labels say nothing about how executions ended", "Read them with load_dataset")
    return data.ends


def _start(config: OutcomeFitConfig) -> OutcomeNetwork:
    """The network before the first step."""
    if config.start is None:
        return OutcomeNetwork(config.model, dropout=config.dropout)
    weights, _ = load_network(config.start, "Check 'start'; it names weights that 'keygrasp train' wrote")
    sizes = OutcomeConfig(config.model.members, config.model.head, weights.config)
    network = OutcomeNetwork(sizes, dropout=config.dropout)
    take_trunk(network, weights)
    network.base.requires_grad_(False)
    return network


def _same_file(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()
