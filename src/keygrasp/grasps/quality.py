"""Analytic quality of planar grasps, from what two flat pads would touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, YAW, X, Y, Z, check_grasps
from keygrasp.grasps.contact import Contacts, centre_of_mass, predict_contacts
from keygrasp.perception import Perceived, smooth_heights
from keygrasp.scene import GripperSpec


@dataclass(frozen=True)
class QualityWeights:
    """Weights of the terms of :func:`quality_terms`; the quality is the logistic function of their weighted sum.

    Attributes:
        bias: Constant term.
        steepness: Of the less steep contact.
        mean_steepness: Of both contacts' mean.
        grip: Of the height of object between the pads.
        patch: Of the touched width that both pads share.
        skew: Of the lateral offset of one contact against the other.
        across: Of the centre of mass's distance from the closing axis.
        along: Of the centre of mass's distance from the middle between the pads.
        span: Of the distance between the contacts.
        height: Of the fingertips' height above the table.
    """

    bias: float = 0.0
    steepness: float = 1.5
    mean_steepness: float = 0.5
    grip: float = 1.5
    patch: float = 1.0
    skew: float = -1.0
    across: float = -1.5
    along: float = -0.5
    span: float = 0.0
    height: float = -0.5


def quality_terms(
    contacts: Contacts, grasps: Array, mass_centre: Array, gripper: GripperSpec, friction: float
) -> dict[str, Array]:
    """Terms of the quality, each (n,) and about 0 to 1, by the names of :class:`QualityWeights`.

    A contact on a slope slips when run over rise exceeds μ (Coulomb), so steepness is 1 - slope / μ, at least -1.
    """
    steep = np.clip(1.0 - contacts.slope / friction, -1.0, 1.0)
    offset = mass_centre[None, :2] - grasps[:, [X, Y]]
    cos, sin = np.cos(grasps[:, YAW]), np.sin(grasps[:, YAW])
    across = np.abs(-sin * offset[:, 0] + cos * offset[:, 1])
    along = np.abs(cos * offset[:, 0] + sin * offset[:, 1])
    skew = np.abs(contacts.lateral[:, 0] - contacts.lateral[:, 1]) / np.maximum(contacts.span, 0.004)
    return {
        "steepness": steep.min(axis=1),
        "mean_steepness": steep.mean(axis=1),
        "grip": np.minimum(contacts.grip.min(axis=1) / 0.02, 1.0),
        "patch": contacts.shared,
        "skew": np.minimum(skew / friction, 2.0),
        "across": np.minimum(across / 0.03, 2.0),
        "along": np.minimum(along / 0.03, 2.0),
        "span": contacts.span / gripper.max_opening,
        "height": np.minimum(grasps[:, Z] / 0.04, 2.0),
    }


def weigh(terms: dict[str, Array], weights: QualityWeights) -> Array:
    """Quality (n,) in (0, 1) of terms as :func:`quality_terms` gives them."""
    total = weights.bias + sum(getattr(weights, name) * value for name, value in terms.items())
    return np.asarray(1.0 / (1.0 + np.exp(-total)), dtype=float)


def analytic_quality(
    perceived: Perceived,
    segment_index: int,
    grasps: Array,
    gripper: GripperSpec,
    *,
    friction: float = 0.5,
    weights: QualityWeights | None = None,
) -> Array:
    """Analytic quality of many grasps on one segment.

    Args:
        perceived: What the view shows.
        segment_index: The object to grasp.
        grasps: (n, 5) x, y, z, yaw, width in metres and radians, workspace frame.
        gripper: The gripper.
        friction: Coefficient of friction of the contacts.
        weights: Weights of the terms.

    Returns:
        (n,) in [0, 1]; 0 where nothing lies between the pads or the width exceeds the gripper's opening.
        Collisions aren't looked at: see :func:`keygrasp.grasps.footprint_clear`.

    Raises:
        InputError: If the segment doesn't exist or ``grasps`` has another shape.
    """
    rows = check_grasps(grasps)
    segment = perceived.segments[check_segment(perceived, segment_index)]
    heights = smooth_heights(perceived.height_map)
    contacts = predict_contacts(heights, perceived.height_map, rows, gripper)
    mass_centre = centre_of_mass(heights, perceived.height_map, segment)
    terms = quality_terms(contacts, rows, mass_centre, gripper, friction)
    possible = contacts.found & (rows[:, WIDTH] <= gripper.max_opening + 1e-9)
    return np.where(possible, weigh(terms, weights or QualityWeights()), 0.0)


def check_segment(perceived: Perceived, segment_index: int) -> int:
    """The index, if there is such a segment.

    Raises:
        InputError: If there is none.
    """
    if not 0 <= segment_index < len(perceived.segments):
        raise InputError(
            f"there is no segment {segment_index}: the view shows {len(perceived.segments)} object(s)",
            "Ask for one of perceived.segments",
        )
    return segment_index


def rank(scores: Array) -> NDArray[np.intp]:
    """Indices of scores (n,), best first; equal scores keep their order."""
    return np.argsort(-scores, kind="stable")
