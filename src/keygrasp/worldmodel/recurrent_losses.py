"""Losses of the recurrent image model: one pass over sequences, and an open-loop prediction of symbols.

The four terms: squared error of the decoder's images; negative log-likelihood of the true symbols under the posterior;
KL between posterior and prior of (u, v), balanced as in Hafner et al. (DreamerV2, ICLR 2021; weights as in DreamerV3,
2023); and the negative log-likelihood of the symbols under the prior when K actions are followed without looking. Both
likelihoods are weighted by variances, see :meth:`keygrasp.worldmodel.recurrent_symbols.SymbolDistribution.nll`.

A GPU is kept waiting by many small operations, not by large ones. Only what a step needs of the step before is
computed step by step: images are encoded and drawn, priors and likelihoods computed, for all steps at once. Nothing
here waits for a value to come back from the device, and all randomness is drawn before, so that all of it can be
recorded once and played back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from keygrasp.worldmodel.recurrent import Guess, Latent, RecurrentNetwork
from keygrasp.worldmodel.recurrent_data import Sequences
from keygrasp.worldmodel.recurrent_symbols import SymbolDistribution

#: Weights of the two sides of the KL: what moves the prior, and what moves the posterior; nats that cost nothing.
PRIOR_SIDE, POSTERIOR_SIDE, FREE_NATS = 1.0, 0.1, 1.0
#: Share of pieces whose symbols are told; it is easier to go on from those than to read them off images.
GIVEN = 0.3
#: What the losses are, in order.
LOSSES = ("image", "symbols", "divergence", "open_loop")


@dataclass(frozen=True, eq=False)
class Noise:
    """All that is random in the losses of N pieces of L actions, K of which are followed without looking.

    Attributes:
        symbols: (N, L+1, G), normal, of the posterior's Gaussian features.
        residual: (N, L+1, R), normal, of the posterior's residual part.
        imagined: (N, K, R), normal, of the prior's residual part.
        given: (N, 1) whether the symbols of a piece are told to the memory; or it goes on from those it saw. It is the
            whole piece that is, as at run time: where each row was told half of the time, the posterior could take
            symbols from the memory, which had just been told them, instead of reading them off the image.
        start: (N, 1, 1) row from which is imagined.
    """

    symbols: Tensor
    residual: Tensor
    imagined: Tensor
    given: Tensor
    start: Tensor

    @classmethod
    def draw(cls, network: RecurrentNetwork, shape: tuple[int, int], horizon: int, generator: torch.Generator) -> Noise:
        """Draw it for (N, L) = ``shape``, on the generator's device, which is the network's."""
        (count, length), device = shape, generator.device

        def normal(rows: int, size: int) -> Tensor:
            return torch.randn(count, rows, size, generator=generator, device=device)

        residual = network.config.residual
        return cls(
            normal(length + 1, len(network.kinds.gaussian)),
            normal(length + 1, residual),
            normal(horizon, residual),
            torch.rand(count, 1, generator=generator, device=device) < GIVEN,
            torch.randint(length - horizon + 1, (count, 1, 1), generator=generator, device=device),
        )


def sequence_losses(network: RecurrentNetwork, sequences: Sequences, noise: Noise, image_scale: float) -> Tensor:
    """(4,) means over valid rows of what :data:`LOSSES` names.

    Args:
        network: The network.
        sequences: Pieces of L actions.
        noise: See :class:`Noise`; says K.
        image_scale: Weight of the images' squared error, which is summed over the pixels.
    """
    weight = sequences.valid.float()
    latents, posterior = _posterior_pass(network, sequences, noise)
    blank = network.blank(len(weight)).symbols[:, None]
    prior = network.prior(latents.memory, torch.cat([blank, latents.symbols[:, :-1]], dim=1))
    flat = Latent(*(part.flatten(0, 1) for part in (latents.memory, latents.symbols, latents.residual)))
    error = (network.draw(flat) - sequences.images.flatten(0, 1)).square().sum(dim=(1, 2, 3)) / 2
    return torch.stack(
        [
            image_scale * _mean(error.view_as(weight), weight),
            _mean(posterior.symbols.nll(sequences.features, weighted=True), weight),
            _mean(balanced_divergence(posterior, prior).mean(dim=0), weight),
            _open_loop(network, sequences, latents, noise),
        ]
    )


def _posterior_pass(network: RecurrentNetwork, sequences: Sequences, noise: Noise) -> tuple[Latent, Guess]:
    """Latents of all rows (N, L+1, …), and the posterior of them."""
    count, rows = sequences.valid.shape
    codes = network.encode(sequences.images.flatten(0, 1)).view(count, rows, -1)
    latent, latents, seen = network.blank(count), [], []
    for t in range(rows):
        memory = network.advance(latent, sequences.actions[:, t - 1]) if t else latent.memory
        guess = network.see(memory, codes[:, t])
        symbols = torch.where(noise.given, sequences.features[:, t], guess.symbols.sample(noise.symbols[:, t]))
        latent = Latent(memory, symbols, torch.addcmul(guess.mean, noise.residual[:, t], guess.spread))
        latents.append(latent)
        seen.append(guess)
    return _latents(latents), Guess(
        SymbolDistribution(
            network.kinds, _stacked([g.symbols.location for g in seen]), _stacked([g.symbols.spread for g in seen])
        ),
        _stacked([g.mean for g in seen]),
        _stacked([g.spread for g in seen]),
    )


def balanced_divergence(posterior: Guess, prior: Guess) -> Tensor:
    """(...,) 1.0 · max(1, KL(sg(q) ‖ p)) + 0.1 · max(1, KL(q ‖ sg(p))) nats, where sg stops gradients."""
    to_prior = posterior.detach().divergence(prior).clamp(min=FREE_NATS)
    to_posterior = posterior.divergence(prior.detach()).clamp(min=FREE_NATS)
    return PRIOR_SIDE * to_prior + POSTERIOR_SIDE * to_posterior


def _open_loop(network: RecurrentNetwork, sequences: Sequences, latents: Latent, noise: Noise) -> Tensor:
    """NLL of symbols over K actions from one row of each piece, all heads' mean, nothing seen on the way."""
    horizon = noise.imagined.shape[1]
    at = noise.start + torch.arange(horizon + 1, device=noise.start.device)[:, None]

    def rows(values: Tensor, first: int, count: int) -> Tensor:
        """(N, count, …) of values (N, L+1 or L, …), counted from where each piece's imagination begins."""
        index = at[:, first : first + count].expand(-1, -1, values.shape[-1])
        return values.gather(1, index)

    memory, symbols, residual = (rows(part, 0, 1)[:, 0] for part in (latents.memory, latents.symbols, latents.residual))
    latent, actions, found = Latent(memory, symbols, residual), rows(sequences.actions, 0, horizon), []
    for k in range(horizon):
        memory = network.advance(latent, actions[:, k])
        prior = network.prior(memory, latent.symbols)
        found.append(prior.symbols)
        residual = torch.addcmul(prior.mean, noise.imagined[:, k], prior.spread)
        latent = Latent(memory, prior.symbols.features().mean(dim=0), residual)
    imagined = SymbolDistribution(
        network.kinds,
        torch.stack([step.location for step in found], dim=2),
        torch.stack([step.spread for step in found], dim=2),
    )
    nll = imagined.nll(rows(sequences.features, 1, horizon), weighted=True).mean(dim=0)
    return _mean(nll, rows(sequences.valid.float()[..., None], 1, horizon)[..., 0])


def _latents(steps: Sequence[Latent]) -> Latent:
    """Latents (N, …) of T steps as one (N, T, …)."""
    return Latent(*(_stacked([getattr(step, name) for step in steps]) for name in ("memory", "symbols", "residual")))


def _stacked(steps: Sequence[Tensor]) -> Tensor:
    """Values (N, …) of T steps as one (N, T, …)."""
    return torch.stack(list(steps), dim=1)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp(min=1)
