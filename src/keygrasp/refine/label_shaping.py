"""The shaping term where the refiner is trained from labels: it cancels there, and is logged.

Targets of moves lie inside one image and bootstrap from the network's own values Q. A learner of Q′ = Q − Φ would fit
R′ = Σ γᵏFₖ + γⁿ(Qₙ − Φₙ) after n moves; the terms telescope, so that R′ + Φ₀ = γⁿQₙ, which is what is fitted without
shaping. So training goes the same way with each potential; what the terms are worth is seen in the log.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.refine.symbols import rows_with_grasps
from keygrasp.scene import Task
from keygrasp.shaping.learned import LearnedPotential
from keygrasp.shaping.options import make_potential


class LabelShaping:
    """Shapes the returns of moves inside images.

    Attributes:
        terms: Means of the last batch by name: ``reward_task`` and ``reward_shaping``, already times its scale.

    Args:
        name: Option of the potential (see :func:`keygrasp.shaping.options.make_potential`).
        objects: (S, D) symbols of each scene's object.
        gamma: The learner's discount a move.
        scale: Factor of the term.
        seed: Seed of a learned potential.
    """

    def __init__(self, name: str, objects: Array | None, gamma: float, *, scale: float = 1.0, seed: int = 0) -> None:
        if objects is None:
            raise InputError("shaping needs the scenes' symbols", "Load the labels with symbols=True")
        self.potential = make_potential(name, seed)
        self.terms: dict[str, float] = {}
        self._objects, self._gamma, self._scale = objects, gamma, scale

    def targets(self, index: Tensor, path: Tensor, length: Tensor, value: Tensor) -> Tensor:
        """Targets (B,) of Q from the shaped returns of Q′.

        Args:
            index: (B,) scenes.
            path: (K + 1, B, 5) grasps; what comes after a return's end is not looked at.
            length: (B,) moves of each return, from 1 to K.
            value: (B,) its value without shaping, discounted: γⁿQₙ.
        """
        steps, count = len(path) - 1, len(index)
        objects = np.tile(self._objects[index.cpu().numpy()], (steps + 1, 1))
        rows = rows_with_grasps(objects, path.reshape(-1, 5).double().cpu().numpy())
        phi = torch.from_numpy(self._scale * self.potential.values(rows, Task())).reshape(steps + 1, count)
        phi = phi.to(value)
        age = torch.arange(steps, device=value.device)[:, None]
        terms = self._gamma**age * (self._gamma * phi[1:] - phi[:-1])
        shaping = torch.where(age < length, terms, torch.zeros_like(terms)).sum(dim=0)
        end = phi.gather(0, length[None])[0]
        shaped = value + shaping - self._gamma**length * end
        self.terms = {"reward_task": float(value.mean()), "reward_shaping": float(shaping.mean())}
        if isinstance(self.potential, LearnedPotential):  # it changes for the next batch; this one's values are used
            self.potential.learn(rows[:count], value.double().cpu().numpy())
        return shaped + phi[0]
