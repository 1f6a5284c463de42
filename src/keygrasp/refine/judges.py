"""Who says whether a grasp holds that is executed in training: physics, or a model of physics that is almost free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.poses import Array
from keygrasp.grasps import grasps_from_array
from keygrasp.perception import Perceived
from keygrasp.protocol import Scene
from keygrasp.refine.values import Evaluator, Weights
from keygrasp.scene import GripperSpec


class Judge(Protocol):
    """Decides about executions."""

    def __call__(self, scene: int, grasps: Array) -> NDArray[np.bool_]:
        """Whether grasps (n, 5) in the scene of that number succeed, (n,)."""
        ...


class PhysicsJudge:
    """Executes each grasp in its simulated scene; who makes the scenes closes them."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        self._scenes = tuple(scenes)

    def __call__(self, scene: int, grasps: Array) -> NDArray[np.bool_]:
        """See :class:`Judge`."""
        outcomes = [self._scenes[scene].execute(grasp) for grasp in grasps_from_array(grasps, np.zeros(len(grasps)))]
        return np.array([outcome.success for outcome in outcomes], dtype=bool)


class ModelJudge:
    """A trained network's opinion: a grasp succeeds if its calibrated probability of success is high enough.

    It is a model of physics, not physics: policies that learned from it are to be checked by a :class:`PhysicsJudge`.

    Args:
        weights: The network with its calibration.
        perceived: What each scene's image shows; the first segment is the object.
        gripper: Who would execute.
        sure: Least probability that counts as success.
    """

    def __init__(
        self, weights: Weights, perceived: Sequence[Perceived], gripper: GripperSpec, sure: float = 0.6
    ) -> None:
        if not 0 < sure < 1:
            raise ConfigurationError(f"a judge that is sure at probability {sure}", "Give a number between 0 and 1")
        self._evaluators = tuple(Evaluator(weights, image, 0, gripper) for image in perceived)
        calibration = weights.calibration
        self._least_logit = (np.log(sure / (1 - sure)) - calibration.offset) / calibration.slope

    def __call__(self, scene: int, grasps: Array) -> NDArray[np.bool_]:
        """See :class:`Judge`."""
        return np.asarray(self._evaluators[scene].execute_logits(grasps) >= self._least_logit)
