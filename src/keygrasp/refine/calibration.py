"""Fits the two numbers that turn a chosen grasp's logit into an honest probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from keygrasp.errors import InputError
from keygrasp.refine.network import Calibration, load_network, save_network
from keygrasp.trials import TrialsConfig, planner_spec, run_trials
from keygrasp.trials.running import Progress

#: Pulls the slope towards 1 and the offset towards 0, as much as this many trials would: few failures can't run away.
_PRIOR_TRIALS = 5.0
_MOST_CERTAIN = 1e-6


@dataclass(frozen=True)
class CalibrationConfig:
    """On what to calibrate.

    Attributes:
        weights: Weights; rewritten with the new calibration.
        objects: Validation objects.
        poses: Scenes with each object.
        seed: Seed of the scenes.
        workers: Processes; 0 means one a core.
    """

    weights: Path = Path("runs/refiner/weights.safetensors")
    objects: int = 100
    poses: int = 3
    seed: int = 100
    workers: int = 0


def fit_calibration(logits: ArrayLike, success: ArrayLike) -> Calibration:
    """Platt scaling: slope and offset that maximise the likelihood of the outcomes, with a weak prior at (1, 0).

    Args:
        logits: (n,) logits that the network gave to the grasps it chose.
        success: (n,) whether their execution succeeded.

    Raises:
        InputError: If the lengths differ or nothing is given.
    """
    x, y = np.asarray(logits, dtype=float), np.asarray(success, dtype=float)
    if x.shape != y.shape or x.size == 0:
        raise InputError(f"calibration needs as many outcomes as logits, not {y.size} and {x.size}")

    def cost(parameters: np.ndarray) -> float:
        slope, offset = parameters
        z = slope * x + offset
        likelihood = np.logaddexp(0.0, z) - y * z
        return float(likelihood.sum() + _PRIOR_TRIALS * ((slope - 1) ** 2 + offset**2) / 2)

    slope, offset = minimize(cost, np.array([1.0, 0.0]), method="L-BFGS-B").x
    return Calibration(float(slope), float(offset))


def calibrate(config: CalibrationConfig, on_progress: Callable[[Progress], None] | None = None) -> Calibration:
    """Let ``refined`` pick grasps on validation objects, execute them, fit, and rewrite the weights' metadata."""
    network, old = load_network(config.weights)
    trials = TrialsConfig(
        planners=(planner_spec("refined", weights=str(config.weights)),),
        objects=config.objects,
        poses=config.poses,
        split="validation",
        seed=config.seed,
        up_to=1,
        robust=False,
        workers=config.workers,
    )
    results = run_trials(trials, on_progress)
    first = [r.attempts[0] for r in results.records if r.planner == "refined" and r.attempts]
    stated = [(a.probability, a.success) for a in first if a.probability is not None and a.grasp is not None]
    if not stated:
        raise InputError("no trial stated a probability", "Check the weights")
    probability = np.clip([p for p, _ in stated], _MOST_CERTAIN, 1 - _MOST_CERTAIN)
    logits = (np.log(probability / (1 - probability)) - old.offset) / old.slope
    fitted = fit_calibration(logits, [s for _, s in stated])
    save_network(config.weights, network, fitted)
    return fitted
