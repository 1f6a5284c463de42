"""Distributions over the symbolic part of a latent: Gaussians of lengths and angles, booleans, categories.

All work on the features of :class:`keygrasp.worldmodel.layout.Layout`, so that one vector holds every symbol.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from keygrasp.scene.symbols import SymbolKind
from keygrasp.worldmodel.layout import Layout

#: Least and largest standard deviation of a Gaussian feature: 0.01 is a millimetre, or half a degree of yaw.
_LEAST, _LARGEST = 0.01, 1.0
#: Standard deviation at which the weighted likelihood is the plain one.
_USUAL = 0.1


class SymbolKinds(nn.Module):
    """Which features of a layout are Gaussian, boolean or a category.

    Attributes:
        gaussian: (G,) features of reals and angles.
        boolean: (N,) features of booleans.
        categories: Features (n, k) of the n categories that have k values, for each k.
    """

    gaussian: Tensor
    boolean: Tensor

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        gaussian, boolean = [], []
        categories: dict[int, list[list[int]]] = {}
        at = 0
        for symbol in layout.symbols:
            if symbol.kind is SymbolKind.CATEGORY:
                categories.setdefault(len(symbol.names), []).append(list(range(at, at + len(symbol.names))))
            elif symbol.kind is SymbolKind.BOOLEAN:
                boolean.append(at)
            else:
                gaussian += [at, at + 1] if symbol.kind is SymbolKind.ANGLE else [at]
            at += {SymbolKind.CATEGORY: len(symbol.names), SymbolKind.ANGLE: 2}.get(symbol.kind, 1)
        self.size = at
        self.register_buffer("gaussian", torch.tensor(gaussian), persistent=False)
        self.register_buffer("boolean", torch.tensor(boolean), persistent=False)
        self._counts = tuple(categories)
        for count, rows in categories.items():
            self.register_buffer(f"category_{count}", torch.tensor(rows), persistent=False)

    @property
    def categories(self) -> tuple[Tensor, ...]:
        """See the class."""
        return tuple(self.get_buffer(f"category_{count}") for count in self._counts)

    @property
    def outputs(self) -> int:
        """Numbers that describe a distribution: one a feature, and a spread for each Gaussian one."""
        return self.size + len(self.gaussian)


@dataclass(frozen=True, eq=False)
class SymbolDistribution:
    """Independent distributions of all features.

    Attributes:
        kinds: What each feature is.
        location: (..., F) means of Gaussian features, logits of the others.
        spread: (..., G) standard deviations of the Gaussian ones.
    """

    kinds: SymbolKinds
    location: Tensor
    spread: Tensor

    @classmethod
    def of(cls, kinds: SymbolKinds, outputs: Tensor, base: Tensor) -> SymbolDistribution:
        """The distribution that a network's outputs (..., F + G) describe.

        Args:
            kinds: What each feature is.
            outputs: The network's.
            base: (..., F) features from which those of Gaussian ones are counted.
        """
        location, spread = outputs.tensor_split([kinds.size], dim=-1)
        offset = torch.zeros_like(location).index_copy(-1, kinds.gaussian, base[..., kinds.gaussian])
        spread = _LEAST + (_LARGEST - _LEAST) * torch.sigmoid(spread - 2.0)
        return cls(kinds, location + offset, spread)

    def features(self) -> Tensor:
        """(..., F) most likely features: means, probabilities of booleans and categories."""
        parts = self.location.clone()
        parts[..., self.kinds.boolean] = torch.sigmoid(self.location[..., self.kinds.boolean])
        for rows in self.kinds.categories:
            parts[..., rows] = torch.softmax(self.location[..., rows], dim=-1)
        return parts

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """(..., F) features with the Gaussian ones drawn; the others are probabilities, so that gradients flow."""
        features = self.features()
        noise = torch.randn(self.spread.shape, generator=generator, device=features.device) * self.spread
        return features.index_add(-1, self.kinds.gaussian, noise)

    def nll(self, features: Tensor, *, weighted: bool = False) -> Tensor:
        """(...,) negative log-likelihood of features (..., F), constants left out; sums over the symbols.

        Args:
            features: What was true.
            weighted: Whether each Gaussian term is multiplied by its variance over :data:`_USUAL` squared, through
                which no gradient flows. The plain likelihood's gradient is the smaller the less is known of a symbol;
                so weighted the means are fitted as by squared errors, and what moves is learned as soon as what stays
                (β-NLL with β = 1: Seitzer et al., ICLR 2022).
        """
        kinds = self.kinds
        off = (features[..., kinds.gaussian] - self.location[..., kinds.gaussian]) / self.spread
        terms = off.square() / 2 + self.spread.log()
        total = (terms * (self.spread.detach() / _USUAL).square() if weighted else terms).sum(dim=-1)
        total = total + functional.binary_cross_entropy_with_logits(
            self.location[..., kinds.boolean], features[..., kinds.boolean], reduction="none"
        ).sum(dim=-1)
        for rows in kinds.categories:
            logs = torch.log_softmax(self.location[..., rows], dim=-1)
            total = total - (features[..., rows] * logs).sum(dim=(-2, -1))
        return total

    def divergence(self, other: SymbolDistribution) -> Tensor:
        """(...,) KL divergence of this distribution from another, in nats."""
        kinds = self.kinds
        total = gaussian_divergence(
            self.location[..., kinds.gaussian], self.spread, other.location[..., kinds.gaussian], other.spread
        )
        mine, its = self.location[..., kinds.boolean], other.location[..., kinds.boolean]
        p = torch.sigmoid(mine)
        logs = functional.logsigmoid
        total = total + (p * (logs(mine) - logs(its)) + (1 - p) * (logs(-mine) - logs(-its))).sum(dim=-1)
        for rows in kinds.categories:
            log_p, log_q = (torch.log_softmax(d.location[..., rows], dim=-1) for d in (self, other))
            total = total + (log_p.exp() * (log_p - log_q)).sum(dim=(-2, -1))
        return total

    def detach(self) -> SymbolDistribution:
        """The same numbers, through which no gradient flows."""
        return SymbolDistribution(self.kinds, self.location.detach(), self.spread.detach())


def gaussian_divergence(mean: Tensor, spread: Tensor, other_mean: Tensor, other_spread: Tensor) -> Tensor:
    """(...,) KL divergence of diagonal Gaussians (..., n), in nats."""
    ratio = (spread / other_spread).square()
    off = ((mean - other_mean) / other_spread).square()
    return (ratio + off - 1 - ratio.log()).sum(dim=-1) / 2
