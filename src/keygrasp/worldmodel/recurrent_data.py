"""What the image model learns from: all episodes on one device, and pieces of them, drawn there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.scene.tabletop import ACTIONS
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.model import IMAGE_SIZE
from keygrasp.worldmodel.recurrent import RecurrentNetwork
from keygrasp.worldmodel.training import mirrored, mirrored_actions

#: Signs of x and y in the world as it is, and in its mirror images at x = 0, at y = 0, and at both.
_MIRRORS = ((1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0))


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


class Frames:
    """All rows of episodes on a device, in the network's scale: colours as bytes, heights as half floats.

    20 kB a row: nothing but random numbers has to travel while a model learns.

    Args:
        network: Says scale, symbols and device.
        episodes: With images.
        mirror: Whether pieces are mirrored at x = 0 and y = 0 at random: the camera looks straight down on the
            workspace's middle, its columns run along x and its rows along −y.

    Raises:
        InputError: If an episode has no images.
    """

    def __init__(self, network: RecurrentNetwork, episodes: Sequence[Episode], *, mirror: bool = False) -> None:
        device = next(network.parameters()).device
        self._steps = torch.tensor([len(episode) for episode in episodes])
        self._first = torch.cat([torch.zeros(1, dtype=torch.long), (self._steps + 1).cumsum(0)[:-1]])
        total = int((self._steps + 1).sum())
        self._colours = torch.empty(total, 3, IMAGE_SIZE, IMAGE_SIZE, dtype=torch.uint8, device=device)
        self._heights = torch.empty(total, 1, IMAGE_SIZE, IMAGE_SIZE, dtype=torch.float16, device=device)
        for first, episode in zip(self._first.tolist(), episodes, strict=True):
            if episode.rgb is None or episode.depth is None:
                raise InputError("an episode has no images", "Collect them: keygrasp worldmodel collect --images")
            rows = slice(first, first + len(episode) + 1)
            self._colours[rows] = episode.rgb.to(device).permute(0, 3, 1, 2)
            self._heights[rows] = network.heights(episode.depth.to(device)[:, None])
        symbols = torch.cat([episode.symbols for episode in episodes])
        still = torch.zeros(1, len(ACTIONS))
        actions = torch.cat([part for episode in episodes for part in (episode.actions, still)])
        copies = [_mirrored(symbols, actions, *signs) for signs in (_MIRRORS if mirror else _MIRRORS[:1])]
        self._features = torch.stack([network.layout.features(rows) for rows, _ in copies]).to(device)
        self._actions = torch.stack([moves for _, moves in copies]).to(device)
        self._steps, self._first = self._steps.to(device), self._first.to(device)

    def draw(self, batch: int, length: int, generator: torch.Generator) -> Sequences:
        """Pieces of ``length`` actions from episodes drawn at random; shorter episodes are filled with their last row.

        Args:
            batch: How many.
            length: Actions of each.
            generator: On the frames' device.
        """
        device = self._steps.device
        which = torch.randint(len(self._steps), (batch,), generator=generator, device=device)
        steps = self._steps[which][:, None]
        starts = (steps - length).clamp(min=0) + 1
        drawn = torch.rand(batch, 1, generator=generator, device=device) * starts
        at = torch.minimum(drawn.long(), starts - 1) + torch.arange(length + 1, device=device)
        rows = self._first[which][:, None] + torch.minimum(at, steps)
        copy = torch.randint(len(self._features), (batch, 1), generator=generator, device=device)
        images = torch.cat([self._colours[rows].float() / 255 - 0.5, self._heights[rows].float()], dim=2)
        if len(self._features) > 1:
            left, over = (((copy & bit) > 0)[..., None, None, None] for bit in (1, 2))
            images = torch.where(left, images.flip(-1), images)
            images = torch.where(over, images.flip(-2), images)
        # An episode's last row holds no action but zeros, and so has what is filled in after it.
        return Sequences(self._features[copy, rows], images, self._actions[copy, rows[:, :-1]], at <= steps)


def _mirrored(rows: Tensor, actions: Tensor, x: float, y: float) -> tuple[Tensor, Tensor]:
    """Rows (R, D) and actions (R, 5) of a mirrored world."""
    signs = torch.tensor([x, y])[:, None, None].expand(2, 1, len(rows))
    return mirrored(rows[None, :, None], signs)[0, :, 0], mirrored_actions(actions[None, :, None], signs)[0, :, 0]
