"""The geometric generator: proposals, fitted to the gripper, judged and thinned."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, YAW, X, Y, Z, grasps_from_array
from keygrasp.grasps.collision import FootprintModel
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.grasps.contact import Contacts, centre_of_mass, predict_contacts, recentred
from keygrasp.grasps.proposals import NOT_ANTIPODAL, TOO_WIDE, propose
from keygrasp.grasps.quality import QualityWeights, check_segment, quality_terms, rank, weigh
from keygrasp.perception import Perceived
from keygrasp.scene import GraspPlan, GripperSpec

TOO_FLAT = "too flat"
FINGERS_COLLIDE = "fingers collide"
PALM_COLLIDES = "palm collides"
OUTSIDE = "outside the workspace"
NO_CONTACT = "nothing between the pads"
SLIPPERY = "contacts too sloped"

_REASONS = {
    TOO_WIDE: "the object is wider than the gripper opens, wherever its sides are opposite to each other",
    NOT_ANTIPODAL: "no two sides of the object face away from each other within the friction cone",
    TOO_FLAT: "the object is too flat for the fingers to hold above the table",
    FINGERS_COLLIDE: "there is no room for the fingers beside the object",
    PALM_COLLIDES: "the palm would touch the object before the fingers reach deep enough",
    OUTSIDE: "every grasp lies outside the workspace",
    NO_CONTACT: "the pads would close on nothing",
    SLIPPERY: "the object's sides are so sloped that the pads would slip off",
}
#: Slopes (run over rise) beyond this many times μ can't hold, even if they were misread by a cell.
_SLOPE_LIMIT = 3.0
#: Proposals that are also tried at other heights.
_LIFTED = 48


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Grasps after fitting to the gripper, with what the pads would touch and why a grasp isn't possible."""

    grasps: Array
    contacts: Contacts
    reasons: NDArray[np.object_]


class GraspGenerator:
    """Generates antipodal grasps on one object of a perceived view, best first.

    Args:
        config: Settings.
        weights: Weights of the analytic quality that ranks the grasps.
    """

    def __init__(self, config: GeneratorConfig | None = None, weights: QualityWeights | None = None) -> None:
        self.config = config or GeneratorConfig()
        self.weights = weights or QualityWeights()

    def generate(self, perceived: Perceived, segment_index: int, gripper: GripperSpec) -> GraspPlan:
        """Generate grasps.

        Args:
            perceived: What the view shows.
            segment_index: The object to grasp.
            gripper: The gripper that will execute.

        Returns:
            Candidates, best first, each free of collision by :func:`keygrasp.grasps.footprint_clear` and no wider
            than the gripper opens; their score is the analytic quality. Without any, ``reason`` says why.

        Raises:
            InputError: If there is no such segment.
        """
        start = time.perf_counter()
        segment = perceived.segments[check_segment(perceived, segment_index)]
        height_map = perceived.height_map
        model = FootprintModel(height_map, gripper, self.config.clearance)
        mass_centre = centre_of_mass(model.heights, height_map, segment)
        max_span = gripper.max_opening - 2 * self.config.clearance
        raw, rejections = propose(
            model.heights, height_map, segment, perceived.keypoints[segment_index], mass_centre, max_span, self.config
        )
        fitter = _Fitter(perceived, segment.top, model, gripper, self.config)
        fitted = fitter.fit(raw)
        rejections.update(r for r in fitted.reasons if r)
        grasps, scores = self._judge(fitted, mass_centre, gripper)
        best = rank(scores)[:_LIFTED]
        parts = [(grasps, scores)]
        for lift in self.config.lifts:
            lifted = fitter.fit(grasps[best], lift)
            parts.append(self._judge(lifted, mass_centre, gripper))
        grasps = np.concatenate([p[0] for p in parts])
        scores = np.concatenate([p[1] for p in parts])
        picks = self._thin(grasps, scores)
        candidates = grasps_from_array(grasps[picks], scores[picks])
        return GraspPlan(
            grasp=candidates[0] if candidates else None,
            candidates=candidates,
            rejections={reason: count for reason, count in sorted(rejections.items()) if count},
            reason="" if candidates else _dominating(rejections),
            timings_ms={"generate": (time.perf_counter() - start) * 1000},
        )

    def _judge(self, fitted: _Fitted, mass_centre: Array, gripper: GripperSpec) -> tuple[Array, Array]:
        """Possible grasps (m, 5) and their quality (m,)."""
        terms = quality_terms(fitted.contacts, fitted.grasps, mass_centre, gripper, self.config.friction)
        possible = fitted.reasons == ""
        return fitted.grasps[possible], weigh(terms, self.weights)[possible]

    def _thin(self, grasps: Array, scores: Array) -> list[int]:
        """Indices of the best grasps, no two of them alternatives of one."""
        kept: list[int] = []
        order = rank(scores)
        free = np.ones(len(grasps), np.bool_)
        for index in order:
            if not free[index]:
                continue
            kept.append(int(index))
            if len(kept) == self.config.max_candidates:
                break
            free &= ~near(grasps, grasps[index], self.config.apart, self.config.turned)
        return kept


def near(grasps: Array, other: Array, apart: float, turned: float) -> NDArray[np.bool_]:
    """Which grasps (n, 5) are within ``apart`` metres and ``turned`` radians of another grasp (5,)."""
    distance = np.linalg.norm(grasps[:, [X, Y, Z]] - other[[X, Y, Z]], axis=1)
    turn = np.abs((grasps[:, YAW] - other[YAW] + np.pi / 2) % np.pi - np.pi / 2)
    return np.asarray((distance < apart) & (turn < turned))


class _Fitter:
    """Gives proposals a height, a middle and a width that the gripper can execute."""

    def __init__(
        self, perceived: Perceived, top: float, model: FootprintModel, gripper: GripperSpec, config: GeneratorConfig
    ) -> None:
        self._map = perceived.height_map
        self._top = top
        self._model = model
        self._gripper = gripper
        self._config = config

    def fit(self, proposals: Array, lift: float = 0.0) -> _Fitted:
        """Fit proposals (n, 5): as deep as the table, fingers and palm allow, then ``lift`` metres higher."""
        grasps = self._opened(proposals, proposals[:, WIDTH])
        grasps[:, Z] = self._lowest(grasps) + lift
        first = predict_contacts(self._model.heights, self._map, grasps, self._gripper)
        grasps = self._opened(recentred(grasps, first), first.span)
        # The new width may stand on other ground; a finger that was clear must stay so.
        footprint = self._model.below(grasps)
        lowest = self._model.lowest_z(footprint, self._config.table_clearance)
        grasps[:, Z] = np.maximum(grasps[:, Z], lowest)
        contacts = predict_contacts(self._model.heights, self._map, grasps, self._gripper)
        reasons = self._reasons(grasps, first, contacts)
        fingers = footprint.fingers + self._config.clearance > grasps[:, Z] - lift - 1e-6
        raised = reasons == TOO_FLAT
        flat = self._top - self._config.table_clearance < self._config.min_grip
        if not flat:
            reasons[raised & fingers & (footprint.fingers > self._config.table_clearance)] = FINGERS_COLLIDE
            reasons[reasons == TOO_FLAT] = PALM_COLLIDES
        reasons[(reasons == "") & ~self._model.clear(grasps, footprint)] = FINGERS_COLLIDE
        return _Fitted(grasps, contacts, reasons)

    def _lowest(self, grasps: Array) -> Array:
        return self._model.lowest_z(self._model.below(grasps), self._config.table_clearance)

    def _opened(self, grasps: Array, span: Array) -> Array:
        """Grasps opened beyond the contacts: by the full margin, or by half where that leaves deeper room."""
        wide, narrow = grasps.copy(), grasps.copy()
        for option, margin in ((wide, self._config.opening_margin), (narrow, self._config.opening_margin / 2)):
            low = self._gripper.min_opening
            option[:, WIDTH] = np.clip(span + 2 * margin, low, self._gripper.max_opening)
        deeper = self._model.finger_heights(narrow) < self._model.finger_heights(wide) - 0.001
        return np.where(deeper[:, None], narrow, wide)

    def _reasons(self, grasps: Array, first: Contacts, contacts: Contacts) -> NDArray[np.object_]:
        """First reason, if any, why each fitted grasp isn't possible ("" where it is)."""
        config = self._config
        (x_low, x_high), (y_low, y_high) = config.workspace_x, config.workspace_y
        x, y = grasps[:, X], grasps[:, Y]
        outside = (x < x_low) | (x > x_high) | (y < y_low) | (y > y_high)
        reasons = np.full(len(grasps), "", dtype=object)
        checks = (
            (SLIPPERY, contacts.slope.max(axis=1) > _SLOPE_LIMIT * config.friction),
            (TOO_FLAT, contacts.grip.min(axis=1) < config.min_grip),
            (TOO_WIDE, first.span + 2 * config.clearance > self._gripper.max_opening),
            (NO_CONTACT, ~(first.found & contacts.found)),
            (OUTSIDE, outside),
        )
        for reason, failed in checks:
            reasons[failed] = reason
        return reasons


def _dominating(rejections: Counter[str]) -> str:
    """The most frequent reason in words.

    Most pairs of any outline aren't opposite to each other, so that count only speaks where no other reason does.
    """
    counts = {reason: count for reason, count in rejections.items() if count and reason != NOT_ANTIPODAL}
    reason = max(counts, key=lambda r: counts[r]) if counts else NOT_ANTIPODAL
    return _REASONS[reason]
