"""Training the ensemble: the likelihood of changes over open-loop predictions of several steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.worldmodel import dynamics
from keygrasp.worldmodel.dynamics import Changes, frame_of
from keygrasp.worldmodel.ensemble import Ensemble, EnsembleConfig, Prediction
from keygrasp.worldmodel.episodes import Episode, windows
from keygrasp.worldmodel.layout import OBJECT_SYMBOLS, Layout

#: Metres by which an object must move in a decision to count as moving, and its columns of contacts.
_MOVED = 0.001
_TOUCH = [s.name in ("contact_left", "contact_right") for s in OBJECT_SYMBOLS]
Progress = Callable[[int, int, Mapping[str, float]], None]


@dataclass(frozen=True)
class TrainConfig:
    """How the ensemble is trained.

    Attributes:
        updates: Gradient steps over pieces of ``horizon`` actions.
        first_updates: Gradient steps over single actions before, which are cheap and teach what a contact is.
        batch: Pieces of episodes a member and step; twice as many single actions.
        horizon: Steps of open-loop prediction whose likelihood is the loss (K).
        learning_rate: Largest; it falls to nothing along a cosine.
        weight_decay: Of AdamW.
        beta: Exponent by which the predicted variance weighs the likelihood (β-NLL, Seitzer et al., ICLR 2022).
        contact_weight: Weight of the contacts' cross-entropy.
        emphasis: How much more often a piece is drawn in which something is touched or moves: most of the time nothing
            does, and what an action does to what it doesn't touch is soon learned.
        seed: Seed of weights and batches.
    """

    updates: int = 1000
    first_updates: int = 6000
    batch: int = 128
    horizon: int = 5
    learning_rate: float = 2e-3
    weight_decay: float = 1e-5
    beta: float = 0.5
    contact_weight: float = 1.0
    emphasis: float = 8.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.updates < 1 or self.batch < 1 or not 1 <= self.horizon <= 50 or self.learning_rate <= 0:
            raise ConfigurationError("training needs at least 1 update and batch, 1 to 50 steps, and a positive rate")


def train(
    episodes: Sequence[Episode],
    config: TrainConfig | None = None,
    sizes: EnsembleConfig | None = None,
    *,
    layout: Layout | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    model: Ensemble | None = None,
) -> Ensemble:
    """Train an ensemble on episodes.

    Args:
        episodes: Of any lengths.
        config: How.
        sizes: Sizes of a new model.
        layout: Symbols of the episodes.
        device: Where to compute.
        progress: Called with updates done, updates in all, and newest figures.
        model: A model to go on with.

    Raises:
        InputError: If there is nothing to learn from, or the loss is no longer finite.
    """
    config = config or TrainConfig()
    layout = layout or Layout()
    model = (model or Ensemble(sizes, layout, seed=config.seed)).to(device).train()
    draw = torch.Generator().manual_seed(config.seed)
    total, begun = config.first_updates + config.updates, time.monotonic()
    done = 0
    for horizon, updates, batch in (
        (1, config.first_updates, 2 * config.batch),
        (config.horizon, config.updates, config.batch),
    ):
        if not updates:
            continue
        pieces = _Pieces(episodes, horizon, layout, config, device)
        optimiser = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, config.learning_rate, total_steps=updates + 1, pct_start=0.1, div_factor=10
        )
        for _ in range(updates):
            loss = open_loop_loss(model, *pieces.draw(model.config.members, batch, draw), config)
            if not bool(torch.isfinite(loss)):
                raise InputError("the training loss is not finite", "Check the episodes, or lower the learning rate")
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimiser.step()
            schedule.step()
            done += 1
            if progress is not None and (done % 20 == 0 or done == total):
                progress(done, total, {"loss": float(loss.detach()), "s": time.monotonic() - begun})
    return model.eval()


class _Pieces:
    """Pieces of episodes on a device, drawn with emphasis on those in which something happens."""

    def __init__(
        self,
        episodes: Sequence[Episode],
        horizon: int,
        layout: Layout,
        config: TrainConfig,
        device: torch.device | str,
    ) -> None:
        data = windows(episodes, horizon)
        self._rows, self._actions, self._valid = (x.to(device) for x in (data.symbols, data.actions, data.valid))
        self._device = device
        objects = data.symbols[..., dynamics.GRIPPER :].reshape(*data.symbols.shape[:2], -1, dynamics.OBJECT)
        moved = (objects[:, 1:, :, :3] - objects[:, :-1, :, :3]).abs().amax(dim=(1, 2, 3)) > _MOVED
        touched = (objects[..., _TOUCH] > 0).any(dim=-1).any(dim=-1).any(dim=-1)
        self._weights = torch.where(moved | touched, config.emphasis, 1.0)

    def draw(self, members: int, batch: int, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (M, B, K+1, D), actions (M, B, K, 5) and whether they are valid (M, B, K), each mirrored at random."""
        shape = (members, batch)
        picked = torch.multinomial(self._weights, members * batch, replacement=True, generator=draw)
        picked = picked.reshape(shape).to(self._device)
        signs = (torch.randint(0, 2, (2, *shape), generator=draw) * 2 - 1).to(self._device)
        rows, actions = mirrored(self._rows[picked], signs), mirrored_actions(self._actions[picked], signs)
        return rows, actions, self._valid[picked]


def open_loop_loss(model: Ensemble, rows: Tensor, actions: Tensor, valid: Tensor, config: TrainConfig) -> Tensor:
    """Mean loss of K steps, in which each member goes on from its own predictions.

    Args:
        model: The ensemble.
        rows: (M, B, K+1, D) what was observed.
        actions: (M, B, K, 5).
        valid: (M, B, K) whether a step belongs to the episode.
        config: Weights.
    """
    state = rows[:, :, 0]
    total, weight = rows.new_zeros(()), rows.new_zeros(())
    for k in range(actions.shape[2]):
        frame = frame_of(state, actions[:, :, k])
        found = model.predict(frame.motion, frame.offset, frame.fall, dynamics.inputs_of(frame, actions[:, :, k]))
        true = dynamics.changes_between(frame, rows[:, :, k + 1])
        each = _likelihood_loss(found, true, config)
        total = total + (each * valid[:, :, k]).sum()
        weight = weight + valid[:, :, k].sum()
        state = dynamics.apply(frame, found.mean._replace(contacts=torch.sigmoid(found.mean.contacts)))
    return total / weight.clamp(min=1)


def _likelihood_loss(found: Prediction, true: Changes, config: TrainConfig) -> Tensor:
    """(M, B)."""
    gripper = _gaussian(found.mean.gripper, found.gripper_variance, true.gripper, config.beta).sum(dim=-1)
    objects = _gaussian(found.mean.objects, found.object_variance, true.objects, config.beta).sum(dim=(-1, -2))
    contacts = functional.binary_cross_entropy_with_logits(found.mean.contacts, true.contacts, reduction="none")
    return gripper + objects + config.contact_weight * contacts.sum(dim=(-1, -2))


def _gaussian(mean: Tensor, log_variance: Tensor, true: Tensor, beta: float) -> Tensor:
    # Far outliers (an object that was flung away) count linearly: one such step must not rule a batch.
    error = functional.smooth_l1_loss(mean, true, reduction="none", beta=1.0) * 2.0
    weight = (beta * log_variance).detach().exp()
    return 0.5 * weight * (log_variance + error * (-log_variance).exp())


def mirrored(rows: Tensor, signs: Tensor) -> Tensor:
    """Rows (M, B, K+1, D) of a world that is mirrored at x = 0 and y = 0 where signs (2, M, B) are −1.

    Physics knows no left and right: each episode teaches what three others would. A mirror at x = 0 alone, or at
    y = 0, turns yaws round; the pad on the closing axis' positive side then changes.
    """
    sx, sy = (s[..., None].to(rows.dtype) for s in signs)
    out = rows.clone()
    turn = sx * sy
    out[..., 0], out[..., 1], out[..., 3] = rows[..., 0] * sx, rows[..., 1] * sy, rows[..., 3] * turn
    # The closing axis is (cos yaw, sin yaw), cos ≥ 0; mirrored at x = 0 it becomes (−cos, sin): its opposite is named.
    swap = sx < 0
    for first in range(dynamics.GRIPPER, rows.shape[-1], dynamics.OBJECT):
        out[..., first], out[..., first + 1] = rows[..., first] * sx, rows[..., first + 1] * sy
        out[..., first + 3] = rows[..., first + 3] * turn
        left, right = rows[..., first + 9], rows[..., first + 10]
        out[..., first + 9], out[..., first + 10] = torch.where(swap, right, left), torch.where(swap, left, right)
    return out


def mirrored_actions(actions: Tensor, signs: Tensor) -> Tensor:
    """Actions (M, B, K, 5) of the mirrored world."""
    sx, sy = (s[..., None].to(actions.dtype) for s in signs)
    out = actions.clone()
    out[..., 0], out[..., 1], out[..., 3] = actions[..., 0] * sx, actions[..., 1] * sy, actions[..., 3] * sx * sy
    return out
