"""A recurrent model over overhead images whose latent has a symbolic part, which rewards read, and a residual one.

The latent of a step is (h, u, v): a deterministic memory h, symbols u as features of the layout, and a residual
Gaussian v for what has no symbol. ``h' = GRU(h; u, v, action)``, prior p(u, v | h), posterior q(u, v | h, image),
decoder p(image | h, u, v). The split, and that rewards are functions of u alone, follow Tamassia, De Smet and Marra,
arXiv 2608.17959 (its abstract; the details are ours); the recurrent core is the RSSM of Hafner et al., ICML 2019.
Symbols change little in a step, so that the prior's means of lengths and angles are counted from the symbols before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.scene.tabletop import ACTIONS, CAMERA_HEIGHT
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.model import IMAGE_SIZE, Belief, check_actions
from keygrasp.worldmodel.recurrent_symbols import SymbolDistribution, SymbolKinds, gaussian_divergence
from keygrasp.worldmodel.task_files import RewardTask

#: Colours and depth.
CHANNELS = 4
#: Metres of height over the table that are 1 in an image as the network sees it.
_HEIGHT = 0.1
_LEAST_SPREAD = 0.1


@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes of the network.

    Attributes:
        memory: Numbers of h.
        residual: Numbers of v.
        hidden: Width of the hidden layers.
        channels: Channels of the first convolution; the next two have twice and four times as many.
        heads: Heads of the prior over symbols, whose disagreement says what isn't known.
        camera_height: Metres from the overhead camera to the table.
    """

    memory: int = 256
    residual: int = 32
    hidden: int = 256
    channels: int = 24
    heads: int = 3
    camera_height: float = CAMERA_HEIGHT

    def __post_init__(self) -> None:
        if min(self.memory, self.residual, self.hidden, self.channels, self.heads) < 1 or not self.camera_height > 0:
            raise ConfigurationError("image model: every size must be at least 1, and camera_height positive")


@dataclass(frozen=True, eq=False)
class Latent:
    """(h, u, v) of B situations: memory (B, M), symbols' features (B, F), residual (B, R)."""

    memory: Tensor
    symbols: Tensor
    residual: Tensor


@dataclass(frozen=True, eq=False)
class Guess:
    """A distribution of (u, v): the symbols', and mean and standard deviation (B, R) of the residual part.

    A prior's symbols have the heads before all else, (H, B, …).
    """

    symbols: SymbolDistribution
    mean: Tensor
    spread: Tensor

    def detach(self) -> Guess:
        """The same numbers, through which no gradient flows."""
        return Guess(self.symbols.detach(), self.mean.detach(), self.spread.detach())

    def divergence(self, other: Guess) -> Tensor:
        """(...,) KL divergence of this guess from another, in nats; one a head where either has heads."""
        residual = gaussian_divergence(self.mean, self.spread, other.mean, other.spread)
        return self.symbols.divergence(other.symbols) + residual


class RecurrentNetwork(nn.Module):
    """The network; shapes in its methods are batch first."""

    def __init__(self, config: RecurrentConfig, layout: Layout) -> None:
        super().__init__()
        self.config, self.layout = config, layout
        self.kinds = SymbolKinds(layout)
        first, wide, features = config.channels, config.hidden, layout.feature_size
        self.encoder = nn.Sequential(
            *_convolution(CHANNELS, first), *_convolution(first, 2 * first),
            *_convolution(2 * first, 4 * first), *_convolution(4 * first, 4 * first),
            nn.Flatten(), nn.Linear(4 * first * 16, wide), nn.SiLU(),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(config.memory + features + config.residual, 4 * first * 16), nn.SiLU(),
            nn.Unflatten(1, (4 * first, 4, 4)),
            nn.ConvTranspose2d(4 * first, 4 * first, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(4 * first, 2 * first, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(2 * first, first, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(first, CHANNELS, 4, 2, 1),
        )  # fmt: skip
        inputs = features + config.residual + len(ACTIONS)
        self.input = nn.Sequential(nn.Linear(inputs, wide), nn.LayerNorm(wide), nn.SiLU())
        self.cell = nn.GRUCell(wide, config.memory)
        self.prior_symbols = nn.ModuleList(
            _perceptron(config.memory, wide, self.kinds.outputs, still=True) for _ in range(config.heads)
        )
        self.prior_residual = _perceptron(config.memory, wide, 2 * config.residual)
        self.posterior = _perceptron(config.memory + wide, wide, self.kinds.outputs + 2 * config.residual)

    def blank(self, batch: int) -> Latent:
        """The latent before the first step."""
        config, like = self.config, next(self.parameters())
        return Latent(*(like.new_zeros(batch, n) for n in (config.memory, self.kinds.size, config.residual)))

    def advance(self, latent: Latent, actions: Tensor) -> Tensor:
        """Memory (B, M) after actions (B, 5)."""
        inputs = torch.cat([latent.symbols, latent.residual, actions], dim=-1)
        memory: Tensor = self.cell(self.input(inputs), latent.memory)
        return memory

    def prior(self, memory: Tensor, before: Tensor) -> Guess:
        """What is expected before an image is seen: symbols (H, B, …) by each head, and the residual part (B, R).

        Args:
            memory: (B, M) of this step.
            before: (B, F) symbols of the step before.
        """
        mean, spread = self.prior_residual(memory).chunk(2, dim=-1)
        outputs = torch.stack([head(memory) for head in self.prior_symbols])
        return Guess(SymbolDistribution.of(self.kinds, outputs, before), mean, _positive(spread))

    def encode(self, images: Tensor) -> Tensor:
        """What images (B, 4, 64, 64) in the network's own scale show, (B, hidden)."""
        codes: Tensor = self.encoder(images)
        return codes

    def see(self, memory: Tensor, codes: Tensor) -> Guess:
        """What images, encoded (B, hidden), say: the posterior."""
        outputs = self.posterior(torch.cat([memory, codes], dim=-1))
        first = self.kinds.outputs
        symbols, mean, spread = outputs.tensor_split([first, first + self.config.residual], dim=-1)
        return Guess(SymbolDistribution.of(self.kinds, symbols), mean, _positive(spread))

    def draw(self, latent: Latent) -> Tensor:
        """The decoder's images (B, 4, 64, 64), in the network's own scale."""
        images: Tensor = self.decoder(torch.cat([latent.memory, latent.symbols, latent.residual], dim=-1))
        return images

    def scaled(self, images: Tensor) -> Tensor:
        """Images (..., 4, 64, 64) of colours in [0, 1] and depth in metres, as the network sees them: around 0."""
        return torch.cat([images[..., :3, :, :] - 0.5, self.heights(images[..., 3:, :, :])], dim=-3)

    def heights(self, depth: Tensor) -> Tensor:
        """Depths in metres, 0 where nothing is seen, as the network sees them: 1 is ten centimetres above the table."""
        return torch.where(depth > 0, (self.config.camera_height - depth) / _HEIGHT, 0.0).clamp(-1.0, 3.0)

    def unscaled(self, images: Tensor) -> Tensor:
        """The inverse of :meth:`scaled`."""
        colours, height = images[..., :3, :, :], images[..., 3:, :, :]
        return torch.cat([(colours + 0.5).clamp(0, 1), self.config.camera_height - height * _HEIGHT], dim=-3)


class RecurrentModel:
    """A trained network as a :class:`keygrasp.worldmodel.model.WorldModel`.

    Args:
        network: The network; it is put into evaluation mode.
        symbols_from: Whether the symbols after an observation are those ``given``, or what the posterior reads off
            the ``images``, which must then be there.
    """

    def __init__(self, network: RecurrentNetwork, symbols_from: Literal["given", "images"] = "given") -> None:
        self.network = network.eval()
        self._from_images = symbols_from == "images"

    @property
    def layout(self) -> Layout:
        """Which symbols it knows."""
        return self.network.layout

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.network.parameters()).device

    @torch.no_grad()
    def start(self, symbols: Tensor, images: Tensor | None = None) -> Belief:
        """See :class:`keygrasp.worldmodel.model.WorldModel`."""
        blank = self.network.blank(len(symbols))
        return self._seen(blank.memory, blank.symbols, symbols, images)

    @torch.no_grad()
    def observe(self, belief: Belief, actions: Tensor, symbols: Tensor, images: Tensor | None = None) -> Belief:
        """See :class:`keygrasp.worldmodel.model.WorldModel`."""
        latent = self.latent(belief)
        memory = self.network.advance(latent, check_actions(actions, len(belief.symbols)))
        return self._seen(memory, latent.symbols, symbols, images)

    @torch.no_grad()
    def step(self, belief: Belief, actions: Tensor) -> Belief:
        """See :class:`keygrasp.worldmodel.model.WorldModel`."""
        latent = self.latent(belief)
        memory = self.network.advance(latent, check_actions(actions, len(belief.symbols)))
        prior = self.network.prior(memory, latent.symbols)
        features = prior.symbols.features()
        rows = self.layout.from_features(features.mean(dim=0))
        each = self.layout.from_features(features)
        return Belief(rows, _spread(self.layout, each, rows), torch.cat([memory, prior.mean], dim=-1))

    def latent(self, belief: Belief) -> Latent:
        """The latent that a belief of this model stands for."""
        memory, residual = belief.state.tensor_split([self.network.config.memory], dim=-1)
        return Latent(memory, self.layout.features(belief.symbols), residual)

    @torch.no_grad()
    def picture(self, belief: Belief) -> Tensor:
        """What the camera should see, (B, 4, 64, 64): colours in [0, 1] and depth in metres."""
        return self.network.unscaled(self.network.draw(self.latent(belief)))

    def _seen(self, memory: Tensor, before: Tensor, symbols: Tensor, images: Tensor | None) -> Belief:
        rows = symbols.to(memory)
        if images is None:
            if self._from_images:
                raise InputError("this model reads symbols off images, and there is none", "Give images")
            residual = self.network.prior(memory, before).mean
        else:
            shape = (len(rows), CHANNELS, IMAGE_SIZE, IMAGE_SIZE)
            if tuple(images.shape) != shape:
                raise InputError(
                    f"images have shape {tuple(images.shape)}, expected {shape}", "Take them from overhead"
                )
            seen = self.network.see(memory, self.network.encode(self.network.scaled(images.to(memory))))
            residual = seen.mean
            if self._from_images:
                rows = self.layout.from_features(seen.symbols.features())
        return Belief(rows, torch.zeros_like(rows), torch.cat([memory, residual], dim=-1))


@torch.no_grad()
def reward_leak(
    model: RecurrentModel, task: RewardTask, belief: Belief, actions: Tensor, generator: torch.Generator
) -> float:
    """Largest change of predicted rewards where residual parts are permuted among situations; 0 for this model.

    Args:
        model: Imagines one step.
        task: Gives the reward of that step.
        belief: B ≥ 2 situations.
        actions: (B, 5).
        generator: Source of the permutation.
    """
    after = model.step(belief, actions)
    memory = model.network.config.memory

    def permuted(original: Belief) -> Belief:
        order = torch.randperm(len(actions), generator=generator).to(actions.device)
        state = torch.cat([original.state[:, :memory], original.state[order, memory:]], dim=-1)
        return replace(original, state=state)

    def reward(first: Belief, second: Belief) -> Tensor:
        u, v = (model.layout.from_features(model.latent(b).symbols) for b in (first, second))
        return task.reward(u, actions, v)

    return float((reward(permuted(belief), permuted(after)) - reward(belief, after)).abs().max())


def _convolution(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """Halves height and width. Most pixels are table: without the normalisation yaws are learned far later."""
    return nn.Conv2d(inputs, outputs, 4, 2, 1), nn.GroupNorm(1, outputs), nn.SiLU()


def _perceptron(inputs: int, hidden: int, outputs: int, *, still: bool = False) -> nn.Sequential:
    """One hidden layer; with ``still`` it begins by saying 0: of symbols' changes that is right for most."""
    last = nn.Linear(hidden, outputs)
    if still:
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.SiLU(), last)


def _positive(spread: Tensor) -> Tensor:
    return nn.functional.softplus(spread) + _LEAST_SPREAD


def _spread(layout: Layout, each: Tensor, rows: Tensor) -> Tensor:
    """Standard deviation (B, D) of the heads' rows (H, B, D) around ``rows``; yaws differ at most by half a period."""
    off = each - rows
    period = off.new_tensor([s.high - s.low if s.kind.value == "angle" else 0.0 for s in layout.symbols])
    wrapped = torch.where(period > 0, off - period * torch.round(off / period.clamp(min=1e-9)), off)
    return wrapped.square().mean(dim=0).sqrt()
