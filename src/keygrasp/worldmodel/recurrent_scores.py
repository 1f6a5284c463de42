"""What the recurrent image model sees and imagines, held against what was there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.worldmodel.episodes import Episode
from keygrasp.worldmodel.evaluation import SymbolScores, score_rows
from keygrasp.worldmodel.model import Belief
from keygrasp.worldmodel.recurrent import RecurrentModel


@torch.no_grad()
def image_scores(
    model: RecurrentModel,
    episodes: Sequence[Episode],
    steps: Sequence[int] = (0, 1, 5, 15),
    context: int = 5,
    stride: int = 10,
) -> list[SymbolScores]:
    """Score symbols after ``context`` actions that were followed by eye, and some steps further without looking.

    Args:
        model: Reads symbols off images (``symbols_from="images"``): it is told none.
        episodes: With images; those that are too short are left out.
        steps: Steps without looking; 0 scores what was read off the last image.
        context: Actions that are followed before.
        stride: Rows between the beginnings of the pieces of an episode that are scored: at its first rows nothing is
            touched yet.

    Raises:
        InputError: If no episode is long enough.
    """
    longest = context + max(steps)
    whole = [
        _piece(episode, first, longest)
        for episode in episodes
        for first in range(0, len(episode) - longest + 1, stride)
    ]
    if not whole:
        raise InputError(f"no episode has {longest} actions", "Give longer ones")
    rows = torch.stack([episode.symbols for episode in whole]).to(model.device)
    actions = torch.stack([episode.actions for episode in whole]).to(model.device)
    belief = follow(model, whole, context)
    start, found = belief.symbols, []
    for step in range(max(steps) + 1):
        if step:
            belief = model.step(belief, actions[:, context + step - 1])
        if step in steps:
            found.append(score_rows(model.layout, step, start, rows[:, context + step], belief.symbols))
    return found


@torch.no_grad()
def follow(model: RecurrentModel, episodes: Sequence[Episode], steps: int) -> Belief:
    """The belief after the first ``steps`` actions of each episode, all of which were seen.

    Raises:
        InputError: If an episode has no images.
    """
    images = [_images(episode, steps) for episode in episodes]
    rows = torch.stack([episode.symbols[: steps + 1] for episode in episodes]).to(model.device)
    seen = torch.stack(images).to(model.device)
    belief = model.start(rows[:, 0], seen[:, 0])
    for t in range(steps):
        actions = torch.stack([episode.actions[t] for episode in episodes]).to(model.device)
        belief = model.observe(belief, actions, rows[:, t + 1], seen[:, t + 1])
    return belief


@torch.no_grad()
def imagined_pictures(model: RecurrentModel, episode: Episode, context: int, steps: int) -> tuple[Tensor, Tensor]:
    """What the camera saw over ``steps`` steps after ``context`` actions, and what the model imagined, unseeing.

    Returns:
        Two (steps + 1, 4, 64, 64): colours in [0, 1] and depth in metres. The first imagined one is of the last step
        that was seen.
    """
    real = _images(episode, context + steps)[context:]
    belief = follow(model, [episode], context)
    pictures = [model.picture(belief)[0]]
    for action in episode.actions[context : context + steps].to(model.device):
        belief = model.step(belief, action[None])
        pictures.append(model.picture(belief)[0])
    return real, torch.stack(pictures).cpu()


def _piece(episode: Episode, first: int, steps: int) -> Episode:
    """``steps`` actions of an episode, with the rows around them."""
    rows = slice(first, first + steps + 1)
    rgb, depth = (None if value is None else value[rows] for value in (episode.rgb, episode.depth))
    actions = episode.actions[first : first + steps]
    return replace(episode, symbols=episode.symbols[rows], actions=actions, rgb=rgb, depth=depth)


def _images(episode: Episode, steps: int) -> Tensor:
    """(steps + 1, 4, 64, 64) of an episode's first steps."""
    images = episode.images()
    if images is None or len(episode) < steps:
        raise InputError(f"an episode has no {steps} steps with images", "Collect them: --images")
    return images[: steps + 1]
