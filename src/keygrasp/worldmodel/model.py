"""What a world model is to planners, learners and the robot: it believes, observes and imagines, in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.scene.tabletop import ACTIONS
from keygrasp.worldmodel.layout import Layout

#: Height and width of overhead images.
IMAGE_SIZE = 64


@dataclass(frozen=True, eq=False)
class Belief:
    """What a model holds for B situations.

    Attributes:
        symbols: (B, D) rows of the layout: the most likely symbols.
        deviation: (B, D) how uncertain each is: one standard deviation between what the model thinks possible for
            lack of data (an ensemble's disagreement), in the symbol's unit; zeros right after an observation.
        state: (B, S) what else the model remembers; S is 0 where it remembers nothing. Rewards never see it.
    """

    symbols: Tensor
    deviation: Tensor
    state: Tensor

    @classmethod
    def certain(cls, symbols: Tensor) -> Belief:
        """The belief of a model without memory that has just seen ``symbols`` (B, D)."""
        return cls(symbols, torch.zeros_like(symbols), symbols.new_zeros((len(symbols), 0)))

    def repeat(self, times: int) -> Belief:
        """(B · times) situations, each repeated ``times`` times in a row."""
        return Belief(*(x.repeat_interleave(times, dim=0) for x in (self.symbols, self.deviation, self.state)))

    def select(self, index: Tensor) -> Belief:
        """The situations at whole numbers (N,), or where booleans (B,) are true."""
        return Belief(self.symbols[index], self.deviation[index], self.state[index])


class WorldModel(Protocol):
    """A model of what an action does to the symbols; every call takes a batch, on the model's device."""

    @property
    def layout(self) -> Layout:
        """Which symbols it knows."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    def start(self, symbols: Tensor, images: Tensor | None = None) -> Belief:
        """Belief at the beginning of episodes.

        Args:
            symbols: (B, D) rows that were observed.
            images: (B, 4, 64, 64) red, green and blue in [0, 1] and depth in metres from overhead, where there are
                any; a model without an eye takes no notice.
        """
        ...

    def observe(self, belief: Belief, actions: Tensor, symbols: Tensor, images: Tensor | None = None) -> Belief:
        """Belief after ``actions`` (B, 5) were taken and ``symbols`` (B, D), perhaps ``images``, were seen."""
        ...

    def step(self, belief: Belief, actions: Tensor) -> Belief:
        """Belief after ``actions`` (B, 5) of which nothing was seen: one step of imagination.

        Raises:
            InputError: If shapes don't fit or an action is not finite.
        """
        ...


def check_actions(actions: Tensor, batch: int) -> Tensor:
    """Actions (B, 5) clipped to [-1, 1].

    Raises:
        InputError: If the shape is another or a value is not finite.
    """
    if actions.shape != (batch, len(ACTIONS)):
        raise InputError(
            f"actions have shape {tuple(actions.shape)}, expected ({batch}, {len(ACTIONS)})",
            f"Give {', '.join(ACTIONS)} for each situation",
        )
    if not bool(torch.isfinite(actions).all()):
        raise InputError("an action is not finite", "Check the policy or planner that it comes from")
    return actions.clamp(-1, 1)
