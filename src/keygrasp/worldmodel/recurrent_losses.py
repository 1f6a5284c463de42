"""Losses of the recurrent image model: one pass over sequences, and an open-loop prediction of symbols.

The four terms: squared error of the decoder's images; negative log-likelihood of the true symbols under the posterior;
KL between posterior and prior of (u, v), balanced as in Hafner et al. (DreamerV2, ICLR 2021; weights as in DreamerV3,
2023); and the negative log-likelihood of the symbols under the prior when K actions are followed without looking. Both
likelihoods are weighted by variances, see :meth:`keygrasp.worldmodel.recurrent_symbols.SymbolDistribution.nll`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.recurrent import Guess, Latent, RecurrentNetwork

#: Weights of the two sides of the KL: what moves the prior, and what moves the posterior; nats that cost nothing.
PRIOR_SIDE, POSTERIOR_SIDE, FREE_NATS = 1.0, 0.1, 1.0


@dataclass(frozen=True, eq=False)
class Sequences:
    """N pieces of L actions, batch first; rows after an episode's end are not ``valid``.

    Attributes:
        features: (N, L+1, F) true symbols as features.
        images: (N, L+1, 4, 64, 64) in the network's scale.
        actions: (N, L, 5).
        valid: (N, L+1) whether a row belongs to its episode.
    """

    features: Tensor
    images: Tensor
    actions: Tensor
    valid: Tensor


def draw_sequences(
    network: RecurrentNetwork, episodes: Sequence[Episode], batch: int, length: int, generator: torch.Generator
) -> Sequences:
    """Pieces of ``length`` actions from episodes drawn at random; shorter episodes are filled with their last row.

    Raises:
        InputError: If an episode has no images.
    """
    device = next(network.parameters()).device
    rows, colours, depths, actions, valid = [], [], [], [], []
    for _ in range(batch):
        episode = episodes[int(torch.randint(len(episodes), (1,), generator=generator))]
        if episode.rgb is None or episode.depth is None:
            raise InputError("an episode has no images", "Collect them: keygrasp worldmodel collect --images")
        steps = len(episode)
        start = int(torch.randint(max(steps - length, 0) + 1, (1,), generator=generator))
        at = start + torch.arange(length + 1)
        inside, kept = at <= steps, at.clamp(max=steps)
        rows.append(episode.symbols[kept])
        colours.append(episode.rgb[kept])
        depths.append(episode.depth[kept])
        actions.append(episode.actions[at[:-1].clamp(max=steps - 1)] * inside[1:, None])
        valid.append(inside)
    # Colours travel to the device as bytes, a quarter of what they are as numbers.
    rgb = torch.stack(colours).to(device).permute(0, 1, 4, 2, 3).float() / 255
    depth = torch.stack(depths).to(device)[:, :, None]
    return Sequences(
        network.layout.features(torch.stack(rows)).to(device),
        network.scaled(torch.cat([rgb, depth], dim=2)),
        torch.stack(actions).to(device),
        torch.stack(valid).to(device),
    )


def sequence_losses(
    network: RecurrentNetwork, sequences: Sequences, horizon: int, generator: torch.Generator, image_scale: float
) -> dict[str, Tensor]:
    """Means over valid rows of ``image``, ``symbols``, ``divergence`` and ``open_loop``.

    Args:
        network: The network.
        sequences: Pieces of L actions.
        horizon: K, steps of the open-loop prediction; at most L.
        generator: Source of samples, on the network's device.
        image_scale: Weight of the images' squared error, which is summed over the pixels.
    """
    latents, posterior, priors = _posterior_pass(network, sequences, generator)
    weight = sequences.valid.float()
    flat = Latent(*(torch.stack(part, dim=1).flatten(0, 1) for part in zip(*map(_parts, latents), strict=True)))
    error = (network.draw(flat) - sequences.images.flatten(0, 1)).square().sum(dim=(1, 2, 3)) / 2
    divergences = torch.stack([balanced_divergence(posterior, prior) for prior in priors]).mean(dim=0)
    return {
        "image": image_scale * _mean(error.view_as(weight), weight),
        "symbols": _mean(posterior.symbols.nll(sequences.features, weighted=True), weight),
        "divergence": _mean(divergences, weight),
        "open_loop": _open_loop(network, sequences, latents, horizon, generator),
    }


def _posterior_pass(
    network: RecurrentNetwork, sequences: Sequences, generator: torch.Generator
) -> tuple[list[Latent], Guess, list[Guess]]:
    """Latents of each row (L+1 of them), the posterior of all rows (N, L+1, …), and each head's prior of them."""
    count, rows = sequences.valid.shape
    codes = network.encode(sequences.images.flatten(0, 1)).view(count, rows, -1)
    latent = network.blank(count)
    memory = latent.memory
    latents, posteriors, priors = [], [], []
    for t in range(rows):
        if t:
            memory = network.advance(latent, sequences.actions[:, t - 1])
        priors.append(network.prior(memory, latent.symbols))
        posteriors.append(network.see(memory, codes[:, t]))
        features, residual = posteriors[-1].sample(generator)
        # At run time the symbols may be given or read off the image: the network learns to go on from both.
        given = torch.rand(count, 1, generator=generator, device=memory.device) < 0.5
        latent = Latent(memory, torch.where(given, sequences.features[:, t], features), residual)
        latents.append(latent)
    return latents, Guess.stack(posteriors), [Guess.stack(head) for head in zip(*priors, strict=True)]


def balanced_divergence(posterior: Guess, prior: Guess) -> Tensor:
    """(...,) 1.0 · max(1, KL(sg(q) ‖ p)) + 0.1 · max(1, KL(q ‖ sg(p))) nats, where sg stops gradients."""
    to_prior = posterior.detach().divergence(prior).clamp(min=FREE_NATS)
    to_posterior = posterior.divergence(prior.detach()).clamp(min=FREE_NATS)
    return PRIOR_SIDE * to_prior + POSTERIOR_SIDE * to_posterior


def _open_loop(
    network: RecurrentNetwork,
    sequences: Sequences,
    latents: Sequence[Latent],
    horizon: int,
    generator: torch.Generator,
) -> Tensor:
    """NLL of symbols over K actions from one row of each piece, all heads' mean, nothing seen on the way."""
    steps = sequences.actions.shape[1]
    start = int(torch.randint(steps - horizon + 1, (1,), generator=generator, device=generator.device))
    latent, total, weight = latents[start], sequences.features.new_zeros(()), sequences.valid.float()
    for k in range(start + 1, start + horizon + 1):
        memory = network.advance(latent, sequences.actions[:, k - 1])
        heads = network.prior(memory, latent.symbols)
        nll = torch.stack([head.symbols.nll(sequences.features[:, k], weighted=True) for head in heads]).mean(dim=0)
        total = total + _mean(nll, weight[:, k]) / horizon
        features = torch.stack([head.symbols.features() for head in heads]).mean(dim=0)
        latent = Latent(memory, features, heads[0].sample(generator)[1])
    return total


def _parts(latent: Latent) -> tuple[Tensor, Tensor, Tensor]:
    return latent.memory, latent.symbols, latent.residual


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp(min=1)
