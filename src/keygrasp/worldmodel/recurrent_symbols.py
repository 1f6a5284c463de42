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
        is_gaussian: (F,) 1 for those of reals and angles, 0 for others.
    """

    gaussian: Tensor
    boolean: Tensor
    is_gaussian: Tensor
    _sorted: Tensor
    _unsorted: Tensor

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
        order = torch.tensor([*gaussian, *boolean, *(at for rows in categories.values() for row in rows for at in row)])
        mask = torch.zeros(self.size).index_fill(0, self.gaussian, 1.0)
        for name, value in (("is_gaussian", mask), ("_sorted", order), ("_unsorted", order.argsort())):
            self.register_buffer(name, value, persistent=False)
        # One piece a kind of symbol, in the order of _sorted.
        self._shapes = [(len(rows), count) for count, rows in categories.items()]
        self._sizes = [len(gaussian), len(boolean), *(n * k for n, k in self._shapes)]

    @property
    def categories(self) -> tuple[Tensor, ...]:
        """See the class."""
        return tuple(self.get_buffer(f"category_{count}") for count in self._counts)

    @property
    def outputs(self) -> int:
        """Numbers that describe a distribution: one a feature, and a spread for each Gaussian one."""
        return self.size + len(self.gaussian)

    def parts(self, values: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Values (..., F) as those of Gaussian (..., G) and boolean (..., N) features and of categories (..., n, k)."""
        gaussian, boolean, *rest = values.index_select(-1, self._sorted).split_with_sizes(self._sizes, dim=-1)
        return (
            gaussian,
            boolean,
            [part.view(*part.shape[:-1], *shape) for part, shape in zip(rest, self._shapes, strict=True)],
        )

    def joined(self, gaussian: Tensor, boolean: Tensor, categories: list[Tensor]) -> Tensor:
        """The inverse of :meth:`parts`."""
        parts = [gaussian, boolean, *(part.flatten(-2) for part in categories)]
        return torch.cat(parts, dim=-1).index_select(-1, self._unsorted)


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
    def of(cls, kinds: SymbolKinds, outputs: Tensor, base: Tensor | None = None) -> SymbolDistribution:
        """The distribution that a network's outputs (..., F + G) describe.

        Args:
            kinds: What each feature is.
            outputs: The network's.
            base: (..., F) features from which those of Gaussian ones are counted; from 0 without.
        """
        location, spread = outputs.tensor_split([kinds.size], dim=-1)
        if base is not None:
            location = torch.addcmul(location, base, kinds.is_gaussian)
        return cls(kinds, location, _LEAST + (_LARGEST - _LEAST) * torch.sigmoid(spread - 2.0))

    def features(self) -> Tensor:
        """(..., F) most likely features: means, probabilities of booleans and categories."""
        return self.sample(None)

    def sample(self, noise: Tensor | None) -> Tensor:
        """(..., F) features with the Gaussian ones drawn; the others are probabilities, so that gradients flow.

        Args:
            noise: (..., G) from a standard normal distribution; ``None`` gives the means.
        """
        means, booleans, categories = self.kinds.parts(self.location)
        gaussian = means if noise is None else torch.addcmul(means, noise, self.spread)
        return self.kinds.joined(
            gaussian, torch.sigmoid(booleans), [torch.softmax(logits, dim=-1) for logits in categories]
        )

    def nll(self, features: Tensor, *, weighted: bool = False) -> Tensor:
        """(...,) negative log-likelihood of features (..., F), constants left out; sums over the symbols.

        Args:
            features: What was true.
            weighted: Whether each Gaussian term is multiplied by its variance over :data:`_USUAL` squared, through
                which no gradient flows. The plain likelihood's gradient is the smaller the less is known of a symbol;
                so weighted the means are fitted as by squared errors, and what moves is learned as soon as what stays
                (β-NLL with β = 1: Seitzer et al., ICLR 2022).
        """
        means, booleans, categories = self.kinds.parts(self.location)
        true, flags, chosen = self.kinds.parts(features)
        terms = ((true - means) / self.spread).square() / 2 + self.spread.log()
        total = (terms * (self.spread.detach() / _USUAL).square() if weighted else terms).sum(dim=-1)
        total = total + (functional.softplus(booleans) - flags * booleans).sum(dim=-1)
        for logits, one in zip(categories, chosen, strict=True):
            total = total - (one * torch.log_softmax(logits, dim=-1)).sum(dim=(-2, -1))
        return total

    def divergence(self, other: SymbolDistribution) -> Tensor:
        """(...,) KL divergence of this distribution from another, in nats; shapes are broadcast."""
        means, booleans, categories = self.kinds.parts(self.location)
        its_means, its_booleans, its_categories = other.kinds.parts(other.location)
        total = gaussian_divergence(means, self.spread, its_means, other.spread)
        # log σ(−x) = log σ(x) − x, and so the terms of a boolean's two values differ by the difference of the logits.
        off = booleans - its_booleans
        share = functional.logsigmoid(-booleans) - functional.logsigmoid(-its_booleans)
        total = total + (torch.sigmoid(booleans) * off + share).sum(dim=-1)
        for mine, its in zip(categories, its_categories, strict=True):
            log_p, log_q = torch.log_softmax(mine, dim=-1), torch.log_softmax(its, dim=-1)
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
