"""Training of the Q-network on physics outcomes, read from top to bottom.

One gradient step takes two batches. *Execute* labels from physics: the target is the outcome. *Moves* from poses near
the labels: the target is a double-Q return inside the image, by n steps or by Retrace (see
:mod:`keygrasp.refine.targets`). Both are fitted by cross-entropy, which is a proper loss for targets in [0, 1].
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from keygrasp.errors import ConfigurationError
from keygrasp.experience.contact_model import check_converges, scheduled_rate
from keygrasp.files import sole_writer, write_json
from keygrasp.protocol.statistics import auroc
from keygrasp.provenance import provenance
from keygrasp.refine.actions import EXECUTE
from keygrasp.refine.checkpoint import load_checkpoint, save_checkpoint
from keygrasp.refine.dataset import GraspDataset, load_dataset
from keygrasp.refine.label_schedule import LabelSchedule
from keygrasp.refine.label_shaping import LabelShaping
from keygrasp.refine.network import QNetwork, load_network, save_network
from keygrasp.refine.sequences import SequenceReplay, explore
from keygrasp.refine.state import featurise, noisy_heights
from keygrasp.refine.targets import n_step_targets, retrace_targets
from keygrasp.refine.teachers import ContactTeacher, OutcomeTeacher, Teacher
from keygrasp.refine.train_config import TrainConfig

#: Told the step and the newest figures.
OnStep = Callable[[int, dict[str, float]], None]


class Trainer:
    """Owns the networks, the optimiser and the clock of one run."""

    def __init__(self, config: TrainConfig, data: GraspDataset, validation: GraspDataset | None) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.device = _device(config.device)
        self.data = data.to(self.device)
        self.validation = validation.to(self.device) if validation is not None else None
        self.online = _start(config).to(self.device)
        self.teacher = _teacher(config, self.device)
        self.target = copy.deepcopy(self.online).requires_grad_(False).eval()
        self.optimiser = torch.optim.AdamW(
            self.online.parameters(), config.learning_rate, weight_decay=config.weight_decay
        )
        self.shaping: LabelShaping | None = None
        if config.shaping != "none":
            self.shaping = LabelShaping(
                config.shaping, data.symbols, config.gamma, scale=config.shaping_scale, seed=config.seed
            )
        self.schedule: LabelSchedule | None = None
        if config.scheduler != "even":
            self.schedule = LabelSchedule(config.scheduler, data, config.seed)
        self.sequences: SequenceReplay | None = None
        if config.targets == "retrace":
            self.sequences = SequenceReplay(config.replay, config.n_step, self.device)
        self.step = 0
        self.seconds = {"rollouts": 0.0, "credit": 0.0, "reward": 0.0, "update": 0.0}

    def train_step(self) -> dict[str, float]:
        """One gradient step; returns its losses. Each step draws from its own seed, so that resuming draws the same."""
        generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + self.step)
        for group in self.optimiser.param_groups:
            group["lr"] = scheduled_rate(self.config.learning_rate, self.step, self.config.steps)
        begin = self._clock()
        execute_loss = self._execute_loss(generator)
        losses = {"execute_loss": execute_loss}
        if self.teacher is not None:
            begin = self._charge("update", begin)
            index, grasps = self._draw_poses(self.config.virtual_batch, generator)
            success = self.teacher.success(self.data, index, grasps, generator)
            begin = self._charge("rollouts", begin)
            logits = self._logits(index, grasps, generator)
            losses["virtual_loss"] = functional.binary_cross_entropy_with_logits(logits, success)
        if self.step >= self.config.warm_up:
            self._charge("update", begin)
            losses["move_loss"], begin = self._move_loss(generator)
        loss = torch.stack(list(losses.values())).sum()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self.online.parameters(), 5.0)
        check_converges("train", self.step, self.config.learning_rate, loss, norm)
        self.optimiser.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
                slow.lerp_(fast, self.config.target_rate)
        self.step += 1
        self._charge("update", begin)
        terms = self.shaping.terms if self.shaping is not None else {}
        return {name: float(value.detach()) for name, value in losses.items()} | terms

    def evaluate(self) -> dict[str, float]:
        """Loss and AUROC of success on the validation labels (empty without any)."""
        if self.validation is None:
            return {}
        return {f"validation_{name}": value for name, value in label_scores(self.target, self.validation).items()}

    def _move_loss(self, generator: torch.Generator) -> tuple[Tensor, float]:
        """Cross-entropy of moves against their targets, and when its own work began."""
        begin, config, data = self._clock(), self.config, self.data
        if self.sequences is None:
            index, grasps, first = self._draw_moves(config.move_batch, generator)
            begin = self._charge("update", begin)
            targets = n_step_targets(
                self.online, self.target, data.scenes, index, grasps, first, data.gripper,
                actions=config.actions, gamma=config.gamma, n_step=config.n_step, shaping=self.shaping,
            )  # fmt: skip
        else:
            self.sequences.add(
                explore(
                    self.online, data.scenes, *self._draw_moves(config.fresh, generator), data.gripper,
                    actions=config.actions, length=config.n_step, share=config.explore, generator=generator,
                )
            )  # fmt: skip
            begin = self._charge("rollouts", begin)
            drawn = self.sequences.draw(max(1, config.move_batch // config.n_step), generator)
            begin = self._charge("update", begin)
            every = retrace_targets(
                self.online, self.target, data.scenes, drawn, data.gripper, gamma=config.gamma, trace=config.trace
            )
            moves = drawn.counts & (drawn.actions != EXECUTE)  # what execute is worth is physics' to say
            index = drawn.index[:, None].expand_as(moves)[moves]
            grasps, first, targets = drawn.grasps[:, :-1][moves], drawn.actions[moves], every[moves]
        begin = self._charge("credit", begin)
        logits = self.online(featurise(data.scenes, index, grasps, data.gripper))
        chosen = logits.gather(1, first[:, None])[:, 0]
        return functional.binary_cross_entropy_with_logits(chosen, targets), begin

    def _execute_loss(self, generator: torch.Generator) -> Tensor:
        count = self.config.execute_batch
        if self.schedule is None:
            rows = torch.randint(len(self.data.grasps), (count,), generator=generator)
        else:
            rows = self.schedule.draw(count, generator)
        noise = torch.randn(len(rows), 5, generator=generator) * torch.tensor(self.config.label_noise)
        rows, noise, data = rows.to(self.device), noise.to(self.device), self.data
        success = data.success[rows]
        logits = self._logits(data.scene[rows], data.grasps[rows] + noise, generator)
        if self.schedule is not None:
            self.schedule.note(rows, (logits.detach() > 0) == (success > 0.5))
        return functional.binary_cross_entropy_with_logits(logits, success)

    def _logits(self, index: Tensor, grasps: Tensor, generator: torch.Generator) -> Tensor:
        """Logits (B,) of *execute*, mirrored and with noise on the heights at random."""
        flip = (torch.randint(0, 2, (len(index), 2), generator=generator).float() * 2 - 1).to(self.device)
        features = featurise(self.data.scenes, index, grasps, self.data.gripper, flip)
        if self.config.height_noise > 0:
            features = noisy_heights(features, self.config.height_noise, self.step)
        logits: Tensor = self.online(features)[:, EXECUTE]
        return logits

    def _draw_poses(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Scenes (count,) and poses (count, 5) around labels, near and far."""
        rows = torch.randint(len(self.data.grasps), (count,), generator=generator)
        noise = torch.randn(count, 5, generator=generator) * torch.tensor(self.config.noise)
        noise = noise * torch.rand(count, 1, generator=generator)
        rows, noise = rows.to(self.device), noise.to(self.device)
        grasps, gripper, bounds = self.data.grasps[rows] + noise, self.data.gripper, self.config.actions.bounds
        grasps[:, 2].clamp_(bounds.lowest, bounds.highest)
        grasps[:, 4].clamp_(gripper.min_opening, gripper.max_opening)
        return self.data.scene[rows], grasps

    def _draw_moves(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Scenes (count,), start poses (count, 5) around labels, and random first moves (count,)."""
        index, grasps = self._draw_poses(count, generator)
        first = torch.randint(0, EXECUTE, (len(index),), generator=generator)
        return index, grasps, first.to(self.device)

    def _clock(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _charge(self, part: str, begin: float) -> float:
        """Book the time since ``begin`` under ``part``; returns now."""
        now = self._clock()
        self.seconds[part] += now - begin
        return now


@torch.inference_mode()
def label_scores(network: QNetwork, data: GraspDataset) -> dict[str, float]:
    """``loss`` and, where both outcomes occur, ``auroc`` of the value of *execute* on labels, not calibrated."""
    parts = []
    for rows in torch.split(torch.arange(len(data.grasps), device=data.grasps.device), 2048):
        features = featurise(data.scenes, data.scene[rows], data.grasps[rows], data.gripper)
        parts.append(network.execute_logit(features))
    logits = torch.cat(parts)
    loss = functional.binary_cross_entropy_with_logits(logits, data.success)
    area = auroc(logits.cpu().numpy(), data.success.cpu().numpy())
    return {"loss": float(loss), **({} if area is None else {"auroc": area})}


def train(config: TrainConfig, on_step: OnStep | None = None, *, resume: bool = True) -> dict[str, Any]:
    """Train, or go on where a checkpoint in ``config.out`` stopped.

    Ctrl-C and kills lose at most ``evaluate_every`` steps. The target network, a running mean of the online one, is
    what is saved as weights.

    Returns:
        The report that is also written to ``report.json``: figures, seconds by cost, labels, provenance.

    Raises:
        InputError: If labels or weights can't be read, another run writes into ``config.out``, or training diverges.
        StorageError: If ``config.out`` can't be written; that is found out first.
    """
    with sole_writer(config.out):
        return _train(config, on_step, resume=resume)


def _train(config: TrainConfig, on_step: OnStep | None, *, resume: bool) -> dict[str, Any]:
    """See :func:`train`; the folder is this run's alone."""
    data = load_dataset(config.labels, solids=config.contact_model is not None, symbols=config.shaping != "none")
    validation = load_dataset(config.validation) if config.validation else None
    trainer = Trainer(config, data, validation)
    checkpoint = config.out / "checkpoint.safetensors"
    history: list[dict[str, float]] = []
    if resume and checkpoint.is_file():
        history = load_checkpoint(checkpoint, trainer, _fingerprint(config))
    running: dict[str, float] = {}
    while trainer.step < config.steps:
        for name, value in trainer.train_step().items():
            running[name] = 0.98 * running.get(name, value) + 0.02 * value
        if trainer.step % config.evaluate_every == 0 or trainer.step == config.steps:
            running.update(trainer.evaluate())
            history.append({"step": trainer.step, **running})
            save_checkpoint(checkpoint, trainer, history, _fingerprint(config))
        if on_step is not None:
            on_step(trainer.step, running)
    save_network(config.out / "weights.safetensors", trainer.target)
    report = {
        "config": _fingerprint(config),
        "labels": len(data.grasps),
        "scenes": len(data.objects),
        "base_rate": float(data.success.mean()),
        "seconds": trainer.seconds,
        "shares": _shares(trainer.seconds),
        **({} if trainer.schedule is None else {"schedule": trainer.schedule.report()}),
        "final": running,
        "history": history,
        "provenance": provenance(config.seed),
    }
    write_json(config.out / "report.json", report)
    return report


def _shares(seconds: dict[str, float]) -> dict[str, float]:
    """Shares of the time by its three costs: rollouts, credit assignment, and the rest."""
    whole = max(sum(seconds.values()), 1e-9)
    rest = sum(value for name, value in seconds.items() if name not in ("rollouts", "credit"))
    return {"rollouts": seconds["rollouts"] / whole, "credit": seconds["credit"] / whole, "rest": rest / whole}


def _fingerprint(config: TrainConfig) -> dict[str, Any]:
    """The configuration as JSON: a checkpoint of another one is refused."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        return str(value) if isinstance(value, Path) else value

    result: dict[str, Any] = plain(dataclasses.asdict(config))
    if config.scheduler == "even":  # as checkpoints from before there were schedulers say
        del result["scheduler"]
    return result


def _start(config: TrainConfig) -> QNetwork:
    """The network before the first step."""
    network = QNetwork(config.network, dropout=config.dropout)
    if config.start is not None:
        weights, _ = load_network(config.start, "Check 'start'; it names weights that 'keygrasp train' wrote")
        if weights.config != config.network:
            raise ConfigurationError(f"train: {config.start} has layers of other sizes", f"Give {weights.config}")
        network.load_state_dict(weights.state_dict())
    return network


def _teacher(config: TrainConfig, device: torch.device) -> Teacher | None:
    """Who labels further grasps; ``None`` for nobody."""
    if config.contact_model is not None:
        return ContactTeacher(config.contact_model, config.virtual_executions, device)
    return OutcomeTeacher(config.outcome_model, device) if config.outcome_model is not None else None


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigurationError("train: device is cuda, but torch finds no GPU", "Use device auto or cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
