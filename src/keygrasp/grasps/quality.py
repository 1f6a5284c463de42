"""Analytic quality of planar grasps, from what two flat pads would touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.errors import InputError
from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, YAW, X, Y, check_grasps
from keygrasp.grasps.contact import Contacts, centre_of_mass, predict_contacts
from keygrasp.perception import Perceived, smooth_heights
from keygrasp.scene import GripperSpec

#: Distance in metres of the centre of mass, and height in metres between the pads, at which a term is 1.
_LEVER = 0.03
_GRIP = 0.02


@dataclass(frozen=True)
class QualityWeights:
    """Weights of the terms of :func:`quality_terms`; the quality is the logistic function of their weighted sum.

    The defaults start from a logistic regression on 408 simulated executions under KG-1 (rule E) of collision-free
    grasps on 40 training objects. Ranking picks out extremes, where what the regression saw least counts most, so grip,
    patch and eccentricity were then raised by hand after a look at failures on validation objects. The quality
    orders grasps; it isn't calibrated as a probability.

    Attributes:
        bias: Constant term.
        steepness: Of the less steep contact.
        grip: Of the height of object between the pads.
        patch: Of the pad's width that the narrower contact touches.
        across: Of the centre of mass's distance from the closing axis.
        along: Of the centre of mass's distance from the middle between the pads.
        offset: Of its distance from the middle between the pads in any direction.
        eccentricity: Of the distance of the touched patches from the pads' middle.
    """

    bias: float = 0.50
    steepness: float = 1.10
    grip: float = 1.30
    patch: float = 1.50
    across: float = -0.46
    along: float = -1.17
    offset: float = -1.28
    eccentricity: float = -1.30


def quality_terms(
    contacts: Contacts, grasps: Array, mass_centre: Array, gripper: GripperSpec, friction: float
) -> dict[str, Array]:
    """Terms of the quality, each (n,) and about 0 to 1, by the names of :class:`QualityWeights`.

    A contact on a slope slips when run over rise exceeds μ (Coulomb), so steepness is 1 - slope / μ, at least -1.
    The object's weight turns it about the pads with the distance of its centre of mass as lever, and a patch at the
    pad's edge turns it while the pads close.
    """
    towards = mass_centre[None, :2] - grasps[:, [X, Y]]
    cos, sin = np.cos(grasps[:, YAW]), np.sin(grasps[:, YAW])
    across = np.abs(cos * towards[:, 1] - sin * towards[:, 0]) / _LEVER
    along = np.abs(cos * towards[:, 0] + sin * towards[:, 1]) / _LEVER
    return {
        "steepness": np.clip(1.0 - contacts.slope / friction, -1.0, 1.0).min(axis=1),
        "grip": np.minimum(contacts.grip.min(axis=1) / _GRIP, 1.0),
        "patch": contacts.patch.min(axis=1),
        "across": np.minimum(across, 2.0),
        "along": np.minimum(along, 2.0),
        "offset": np.minimum(np.hypot(across, along), 2.0),
        "eccentricity": np.abs(contacts.lateral).max(axis=1) / (gripper.pad_width / 2),
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
