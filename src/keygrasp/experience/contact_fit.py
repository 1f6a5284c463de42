"""Fits a contact model to label folders, and counts how often it says what physics said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.contact_model import (
    ContactConfig,
    ContactData,
    predict,
    save_contact_model,
    train_contact_model,
)
from keygrasp.experience.labels import LabelFolder
from keygrasp.experience.solids import SolidScenes
from keygrasp.files import write_json
from keygrasp.objects import Catalog
from keygrasp.protocol.statistics import auroc
from keygrasp.provenance import provenance

#: Told how many scenes are built, of how many.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ContactFitConfig:
    """What to fit to.

    Attributes:
        labels: Folders of labels (see :mod:`keygrasp.experience.labels`).
        out: Folder for ``contact.safetensors`` and ``report.json``.
        held_out: Share of the objects on which the model is checked before it is fitted to all.
        device: ``cpu``, ``cuda`` or ``auto``.
        model: Sizes and training of the model.
    """

    labels: tuple[Path, ...] = (Path("runs/labels/train"),)
    out: Path = Path("runs/contact")
    held_out: float = 0.1
    device: str = "auto"
    model: ContactConfig = field(default_factory=ContactConfig)

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ConfigurationError(f"contact model: held_out is {self.held_out}", "Give a share between 0 and 1")
        if self.device not in ("auto", "cpu", "cuda"):
            raise ConfigurationError(f"contact model: device is {self.device!r}", "Known: auto, cpu, cuda")


def fit_contact_model(config: ContactFitConfig, on_progress: Progress | None = None) -> dict[str, Any]:
    """Fit to a part of the objects, check on the others, fit to all and write the model.

    Returns:
        The report that is also written: agreement with physics on objects that the checked model never saw.

    Raises:
        InputError: If the labels can't be read or hold fewer than two objects.
    """
    chosen = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(chosen if config.device == "auto" else config.device)
    data, objects = load_contact_data(config.labels, on_progress)
    names = sorted(set(objects))
    if len(names) < 2:
        raise InputError("a contact model is checked on objects that it wasn't fitted to, and there is only one")
    count = max(1, round(config.held_out * len(names)))
    held = set(np.random.default_rng(config.model.seed).permutation(names)[:count])
    apart = torch.tensor([name in held for name in objects])[data.scene]
    data, apart = data.to(device), apart.to(device)
    checked = train_contact_model(config.model, data.take(~apart))
    report = {
        "config": {**asdict(config.model), "held_out": config.held_out},
        "labels": len(data.grasps),
        "scenes": len(data.scenes),
        "objects": len(names),
        "held_out_objects": count,
        "agreement": agreement(
            predict(checked, data.take(apart)).cpu().numpy(), data.take(apart).success.cpu().numpy()
        ),
        "provenance": provenance(config.model.seed),
    }
    save_contact_model(config.out / "contact.safetensors", train_contact_model(config.model, data))
    write_json(config.out / "report.json", report)
    return report


def load_contact_data(folders: tuple[Path, ...], on_progress: Progress | None = None) -> tuple[ContactData, list[str]]:
    """Executed grasps with the true geometry they met, and the name of each scene's object.

    Raises:
        InputError: If a folder can't be read, the grippers differ, or there are no labels.
    """
    opened = [LabelFolder.open(folder) for folder in folders]
    if len({folder.gripper for folder in opened}) > 1:
        raise InputError("the label folders were executed with different grippers", "Fit to one gripper's labels")
    every = [(folder, labels) for folder in opened for labels in folder.scenes()]
    if not every:
        raise InputError(f"no labels in {', '.join(str(f) for f in folders)}", "Run 'keygrasp collect' first")
    catalog, solids = Catalog(), []
    for done, (folder, labels) in enumerate(every):
        if on_progress is not None:
            on_progress(done, len(every))
        solids.append(SolidScenes.build([catalog.prepare(labels.object_name, folder.rule)], [labels.pose]))
    counts = [len(labels.grasps) for _, labels in every]
    data = ContactData(
        scenes=SolidScenes.join(solids),
        scene=torch.repeat_interleave(torch.arange(len(every)), torch.tensor(counts)),
        grasps=torch.from_numpy(np.concatenate([labels.grasps for _, labels in every])),
        success=torch.from_numpy(np.concatenate([labels.success for _, labels in every]).astype(np.float32)),
        gripper=opened[0].gripper,
    )
    return data, [labels.object_name for _, labels in every]


def agreement(probability: np.ndarray, success: np.ndarray) -> dict[str, Any]:
    """How probabilities (n,) agree with outcomes (n,): confusion at one half, balanced accuracy, AUROC, Brier score."""
    said, true = probability > 0.5, success > 0.5
    confusion = {
        "held, as said": int((said & true).sum()),
        "failed, said to hold": int((said & ~true).sum()),
        "held, said to fail": int((~said & true).sum()),
        "failed, as said": int((~said & ~true).sum()),
    }
    rates = [float((said == true)[part].mean()) for part in (true, ~true) if part.any()]
    return {
        "confusion": confusion,
        "balanced_accuracy": float(np.mean(rates)),
        "auroc": auroc(probability, true),
        "brier": float(np.mean((probability - success) ** 2)),
    }
