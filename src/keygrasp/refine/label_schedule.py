"""Which labels a gradient step of the refiner's training takes, where a scheduler decides.

Samples are the labelled scenes: an object in a pose, in one image. A trial is one of its labels in a batch, and
succeeds where the network tells the outcome right. Scenes that it always gets right, and scenes that it always gets
wrong, teach less than those in between. Within a scene labels are drawn evenly, so only how often a scene is seen
changes, not how often its grasps succeed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keygrasp.curriculum import make_scheduler
from keygrasp.curriculum.grasp_features import pose_features_of_rows, standardise
from keygrasp.refine.dataset import GraspDataset

#: Gradient steps between two decisions.
_ROUND = 20
#: Trials a scene, on average, that are given out; a scene's share of them is its share of the next batches.
_TRIALS = 4
#: Objects that the report names.
_SHOWN = 10
#: Edges of the report's histogram: share of a scene's labels that the network told right.
_BINS = np.linspace(0, 1, 11)


class LabelSchedule:
    """Draws the labels of batches by what the network has learned of their scenes.

    Args:
        name: Name of a scheduler, see :func:`keygrasp.curriculum.make_scheduler`.
        data: The labels.
        seed: Seed of the scheduler's draws.
    """

    def __init__(self, name: str, data: GraspDataset, seed: int) -> None:
        self._scene = data.scene.cpu().numpy()
        scenes = len(data.objects)
        keypoints, mask = data.scenes.keypoints.cpu().numpy(), data.scenes.mask.cpu().numpy()
        features = [pose_features_of_rows(k, m) for k, m in zip(keypoints, mask, strict=True)]
        self.scheduler = make_scheduler(name, standardise(features), seed=seed)
        self.scheduler.allocation = dataclasses.replace(self.scheduler.allocation, least=1)
        self._objects = data.objects
        self._labels_of = np.bincount(self._scene, minlength=scenes)
        self._tried, self._right = np.zeros(scenes, np.int64), np.zeros(scenes, np.int64)
        self._weights = torch.ones(len(self._scene), dtype=torch.float64)
        self._batches = 0

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Numbers of the labels (count,) of the next batch; they may repeat."""
        return torch.multinomial(self._weights, count, replacement=True, generator=generator)

    def note(self, rows: Tensor, right: Tensor) -> None:
        """Take a batch: its labels (B,) and whether the network told each outcome right (B,)."""
        scenes = self._scene[rows.cpu().numpy()]
        self._tried += np.bincount(scenes, minlength=len(self._tried))
        self._right += np.bincount(scenes[right.cpu().numpy()], minlength=len(self._tried))
        self._batches += 1
        if self._batches % _ROUND == 0:
            self._decide()

    def _decide(self) -> None:
        """Let the scheduler learn from the round that ends, and weigh labels for the next one."""
        seen = np.flatnonzero(self._tried)
        self.scheduler.update(seen, self._right[seen], self._tried[seen])
        self._tried[:] = self._right[:] = 0
        given = self.scheduler.allocate(_TRIALS * len(self._labels_of))
        share = np.zeros(len(self._labels_of))
        share[given.ids] = given.trials
        self._weights = torch.from_numpy((share / np.maximum(self._labels_of, 1))[self._scene])

    def report(self) -> dict[str, Any]:
        """Where batches went, for the training's report.

        ``share_right`` are the edges of the histogram; ``scenes`` and ``labels`` count the scenes whose labels the
        network told right that often, and the labels that were drawn of them. ``always_alike`` scenes were tried more
        than once and always ended alike.
        """
        visits = self.scheduler.visits
        tried = visits.trials > 0
        share = visits.successes[tried] / visits.trials[tried]
        scenes, _ = np.histogram(share, _BINS)
        labels, _ = np.histogram(share, _BINS, weights=visits.trials[tried])
        spread = self.scheduler.estimate().learnability
        telling = dict.fromkeys(self._objects[i] for i in np.argsort(-spread, kind="stable"))
        return {
            "share_right": [round(float(edge), 2) for edge in _BINS],
            "scenes": scenes.tolist(),
            "labels": labels.astype(int).tolist(),
            "never_drawn": int((~tried).sum()),
            "always_alike": int(visits.wasted.sum()),
            "most_telling": list(telling)[:_SHOWN],
        }

    def state(self) -> dict[str, Tensor]:
        """Everything that the next batches depend on."""
        arrays: dict[str, NDArray[Any]] = {f"scheduler.{k}": v for k, v in self.scheduler.state_dict().items()}
        arrays |= {"tried": self._tried, "right": self._right, "batches": np.array([self._batches], np.int64)}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in arrays.items()}
        return tensors | {"weights": self._weights}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on where :meth:`state` was taken.

        Raises:
            InputError: If the state is of another scheduler.
            KeyError: If a part of it is missing.
        """
        own = {name.removeprefix("scheduler."): v.numpy() for name, v in state.items() if name.startswith("scheduler.")}
        self.scheduler.load_state_dict(own)
        self._tried, self._right = state["tried"].numpy().copy(), state["right"].numpy().copy()
        self._batches, self._weights = int(state["batches"][0]), state["weights"].clone()
