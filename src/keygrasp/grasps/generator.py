"""The geometric generator: proposals, fitted to the gripper, judged and thinned."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import YAW, grasps_from_array
from keygrasp.grasps.collision import footprint_model
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.grasps.contact import centre_of_mass
from keygrasp.grasps.fitting import (
    FINGERS_COLLIDE,
    NO_CONTACT,
    OUT_OF_REACH,
    OUTSIDE,
    PALM_COLLIDES,
    SLIPPERY,
    TOO_FLAT,
    Fitted,
    Fitter,
)
from keygrasp.grasps.proposals import NOT_ANTIPODAL, TOO_WIDE, different, propose
from keygrasp.grasps.quality import QualityWeights, check_segment, quality_terms, rank, weigh
from keygrasp.perception import Perceived
from keygrasp.scene import GraspPlan, GripperSpec, ReachFilter

_REASONS = {
    TOO_WIDE: "the object is wider than the gripper opens, wherever its sides are opposite to each other",
    NOT_ANTIPODAL: "no two sides of the object face away from each other within the friction cone",
    TOO_FLAT: "the object is too flat for the fingers to hold above the table",
    FINGERS_COLLIDE: "there is no room for the fingers beside the object",
    PALM_COLLIDES: "the palm would touch the object before the fingers reach deep enough",
    OUT_OF_REACH: "the robot can't reach or turn to any grasp on the object",
    OUTSIDE: "every grasp lies outside the workspace",
    NO_CONTACT: "the pads would close on nothing",
    SLIPPERY: "the object's sides are so sloped that the pads would slip off",
}
#: Proposals that are also tried at other heights.
_LIFTED = 24


class GraspGenerator:
    """Generates antipodal grasps on one object of a perceived view, best first.

    Args:
        config: Settings.
        weights: Weights of the analytic quality that ranks the grasps.
    """

    def __init__(self, config: GeneratorConfig | None = None, weights: QualityWeights | None = None) -> None:
        self.config = config or GeneratorConfig()
        self.weights = weights or QualityWeights()

    def generate(
        self, perceived: Perceived, segment_index: int, gripper: GripperSpec, reach: ReachFilter | None = None
    ) -> GraspPlan:
        """Generate grasps.

        Args:
            perceived: What the view shows.
            segment_index: The object to grasp.
            gripper: The gripper that will execute.
            reach: Which grasps the robot can make.

        Returns:
            Candidates, best first, each free of collision by :func:`keygrasp.grasps.footprint_clear` and no wider
            than the gripper opens; their score is the analytic quality. Without any, ``reason`` says why.

        Raises:
            InputError: If there is no such segment.
        """
        start = time.perf_counter()
        segment = perceived.segments[check_segment(perceived, segment_index)]
        height_map = perceived.height_map
        model = footprint_model(height_map, gripper, self.config.clearance)
        mass_centre = centre_of_mass(model.heights, height_map, segment)
        max_span = gripper.max_opening - 2 * self.config.clearance
        raw, rejections = propose(
            model.heights, height_map, segment, perceived.keypoints[segment_index], mass_centre, max_span, self.config
        )
        fitter = Fitter(height_map, model, gripper, self.config, reach)
        deep = fitter.fit(different(raw))
        if len(deep.grasps) == 0:
            # In a tight place one proposal can fit where its neighbour doesn't.
            deep = fitter.fit(raw)
        rejections.update(deep.rejections)
        scores = self._judge(deep, mass_centre, gripper)
        lifted = fitter.fit(deep.grasps[rank(scores)[:_LIFTED]], self.config.lifts)
        grasps = np.concatenate([deep.grasps, lifted.grasps])
        scores = np.concatenate([scores, self._judge(lifted, mass_centre, gripper)])
        picks = self._thin(grasps, scores)
        candidates = grasps_from_array(grasps[picks], scores[picks])
        return GraspPlan(
            grasp=candidates[0] if candidates else None,
            candidates=candidates,
            rejections={reason: count for reason, count in sorted(rejections.items()) if count},
            reason="" if candidates else _dominating(rejections),
            timings_ms={"generate": (time.perf_counter() - start) * 1000},
        )

    def _judge(self, fitted: Fitted, mass_centre: Array, gripper: GripperSpec) -> Array:
        """Quality (n,) of the fitted grasps."""
        return weigh(
            quality_terms(fitted.contacts, fitted.grasps, mass_centre, gripper, self.config.friction), self.weights
        )

    def _thin(self, grasps: Array, scores: Array) -> list[int]:
        """Indices of the best grasps, no two of them alternatives of one."""
        kept: list[int] = []
        left = rank(scores)
        while len(left) and len(kept) < self.config.max_candidates:
            kept.append(int(left[0]))
            left = left[~near(grasps[left], grasps[left[0]], self.config.apart, self.config.turned)]
        return kept


def near(grasps: Array, other: Array, apart: float, turned: float) -> NDArray[np.bool_]:
    """Which grasps (n, 5) are within ``apart`` metres and ``turned`` radians of another grasp (5,)."""
    away = grasps - other
    square = np.einsum("nk,nk->n", away[:, :YAW], away[:, :YAW])
    turn = np.abs((away[:, YAW] + np.pi / 2) % np.pi - np.pi / 2)
    return np.asarray((square < apart**2) & (turn < turned))


def _dominating(rejections: Counter[str]) -> str:
    """The most frequent reason in words.

    Most pairs of any outline aren't opposite to each other, so that count only speaks where no other reason does.
    """
    counts = {reason: count for reason, count in rejections.items() if count and reason != NOT_ANTIPODAL}
    reason = max(counts, key=lambda r: counts[r]) if counts else NOT_ANTIPODAL
    return _REASONS[reason]
