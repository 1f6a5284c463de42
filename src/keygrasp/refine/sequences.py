"""Sequences of moves inside images, made by a policy that explores, and a bounded memory of them.

A move needs no physics, so sequences are cheap; what they cost are evaluations of the network. They are kept with the
probabilities of their actions, so that they can be learned from when the network has become another
(:func:`keygrasp.refine.targets.retrace_targets`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.refine.actions import ACTIONS, EXECUTE, ActionSet
from keygrasp.refine.network import QNetwork
from keygrasp.refine.state import SceneTensors, featurise
from keygrasp.scene import GripperSpec


@dataclass(frozen=True, eq=False)
class Sequences:
    """B sequences of T actions, batch first.

    Attributes:
        index: (B,) scene of each.
        grasps: (B, T + 1, 5) grasps before each action, and after the last.
        actions: (B, T).
        log_probs: (B, T) logarithm of the probability with which each action was taken.
    """

    index: Tensor
    grasps: Tensor
    actions: Tensor
    log_probs: Tensor

    @property
    def counts(self) -> Tensor:
        """(B, T) bool: whether an action belongs to the episode, which *execute* ends."""
        executed = (self.actions == EXECUTE).long().cumsum(dim=1)
        return (executed == 0) | ((executed == 1) & (self.actions == EXECUTE))


@torch.no_grad()
def explore(
    online: QNetwork,
    scenes: SceneTensors,
    index: Tensor,
    grasps: Tensor,
    first: Tensor,
    gripper: GripperSpec,
    *,
    actions: ActionSet,
    length: int,
    share: float,
    generator: torch.Generator,
) -> Sequences:
    """Sequences that begin with moves ``first`` (B,) from ``grasps`` (B, 5) in scenes ``index`` (B,).

    After the first move, which is taken for drawn evenly from all moves, actions are those of the online network, or
    with probability ``share`` any. What follows *execute* doesn't count.
    """
    count = len(grasps)
    path, taken = [grasps], [first]
    log_probs = [torch.full((count,), -math.log(EXECUTE), device=grasps.device)]
    for _ in range(length - 1):
        path.append(actions.apply(path[-1], taken[-1], gripper))
        best = online(featurise(scenes, index, path[-1], gripper)).argmax(dim=1)
        drawn = torch.randint(0, ACTIONS, (count,), generator=generator).to(grasps.device)
        any_action = torch.rand(count, generator=generator).to(grasps.device) < share
        chosen = torch.where(any_action, drawn, best)
        probability = share / ACTIONS + (1 - share) * (chosen == best)
        taken.append(chosen)
        log_probs.append(torch.log(probability))
    path.append(actions.apply(path[-1], taken[-1], gripper))
    return Sequences(index, torch.stack(path, dim=1), torch.stack(taken, dim=1), torch.stack(log_probs, dim=1))


class SequenceReplay:
    """Keeps the newest sequences.

    Args:
        capacity: Most sequences.
        length: Actions of each.
        device: Where they are kept.
    """

    def __init__(self, capacity: int, length: int, device: torch.device) -> None:
        self._kept = Sequences(
            index=torch.zeros(capacity, dtype=torch.long, device=device),
            grasps=torch.zeros(capacity, length + 1, 5, device=device),
            actions=torch.zeros(capacity, length, dtype=torch.long, device=device),
            log_probs=torch.zeros(capacity, length, device=device),
        )
        self._capacity, self._added = capacity, 0

    def __len__(self) -> int:
        return min(self._added, self._capacity)

    def add(self, sequences: Sequences) -> None:
        """Remember sequences; the oldest go."""
        count = len(sequences.index)
        slots = (self._added + torch.arange(count, device=sequences.index.device)) % self._capacity
        for each in fields(Sequences):
            getattr(self._kept, each.name)[slots] = getattr(sequences, each.name)
        self._added += count

    def draw(self, count: int, generator: torch.Generator) -> Sequences:
        """Sequences drawn with replacement."""
        if len(self) == 0:
            raise InputError("no sequence has been added", "Add some first")
        rows = torch.randint(len(self), (count,), generator=generator).to(self._kept.index.device)
        return Sequences(**{each.name: getattr(self._kept, each.name)[rows] for each in fields(Sequences)})

    def state(self) -> dict[str, Tensor]:
        """All that it holds, by name, for a checkpoint."""
        kept = {each.name: getattr(self._kept, each.name)[: len(self)] for each in fields(Sequences)}
        return {**kept, "added": torch.tensor(self._added)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Inverse of :meth:`state`.

        Raises:
            KeyError: If something is missing.
            RuntimeError: If it was kept with other sizes.
        """
        added = int(state["added"])
        for each in fields(Sequences):
            getattr(self._kept, each.name)[: min(added, self._capacity)] = state[each.name].to(self._kept.index.device)
        self._added = added
