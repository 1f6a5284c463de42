"""Gives proposals a height, a middle and a width that the gripper can execute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, X, Y, Z
from keygrasp.grasps.collision import FootprintModel
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.grasps.contact import Contacts, predict_contacts, recentred
from keygrasp.grasps.proposals import TOO_WIDE
from keygrasp.scene import GripperSpec, HeightMap

TOO_FLAT = "too flat"
FINGERS_COLLIDE = "fingers collide"
PALM_COLLIDES = "palm collides"
OUTSIDE = "outside the workspace"
NO_CONTACT = "nothing between the pads"
SLIPPERY = "contacts too sloped"

#: What is to blame where the fingertips can't go deep enough, in the order of FootprintModel.limits.
_LIMITS = np.array([TOO_FLAT, FINGERS_COLLIDE, PALM_COLLIDES], dtype=object)
#: Slopes (run over rise) beyond this many times μ can't hold, even if they were misread by a cell.
_SLOPE_LIMIT = 3.0
#: Metres by which a narrower opening must reach deeper to be preferred.
_WORTHWHILE = 0.001


@dataclass(frozen=True, eq=False)
class Fitted:
    """Proposals after fitting.

    Attributes:
        grasps: (n, 5) grasps.
        contacts: What the pads would touch.
        reasons: (n,) strings: why a grasp isn't possible, empty where it is.
    """

    grasps: Array
    contacts: Contacts
    reasons: NDArray[np.object_]


class Fitter:
    """Fits proposals on one height map to one gripper."""

    def __init__(
        self, height_map: HeightMap, model: FootprintModel, gripper: GripperSpec, config: GeneratorConfig
    ) -> None:
        self._map = height_map
        self._model = model
        self._gripper = gripper
        self._config = config

    def fit(self, proposals: Array, lifts: Array) -> Fitted:
        """Fit proposals (n, 5): as deep as table, fingers and palm allow, then ``lifts`` (n,) metres higher."""
        grasps = self._opened(proposals, proposals[:, WIDTH])
        grasps[:, Z] = self._limits(grasps).max(axis=1) + lifts
        first = predict_contacts(self._model.heights, self._map, grasps, self._gripper)
        grasps = self._opened(recentred(grasps, first), first.span)
        # The new width may stand on other ground; a finger that was clear must stay so.
        limits = self._limits(grasps)
        grasps[:, Z] = np.maximum(grasps[:, Z], limits.max(axis=1))
        contacts = predict_contacts(self._model.heights, self._map, grasps, self._gripper)
        return Fitted(grasps, contacts, self._reasons(grasps, limits, first, contacts))

    def _limits(self, grasps: Array) -> Array:
        return self._model.limits(self._model.below(grasps), self._config.table_clearance)

    def _opened(self, grasps: Array, span: Array) -> Array:
        """Grasps opened beyond the contacts: by the full margin, or by half where that leaves deeper room."""
        options = []
        for margin in (self._config.opening_margin, self._config.opening_margin / 2):
            option = grasps.copy()
            option[:, WIDTH] = np.clip(span + 2 * margin, self._gripper.min_opening, self._gripper.max_opening)
            options.append(option)
        wide, narrow = options
        deeper = self._model.finger_heights(narrow) < self._model.finger_heights(wide) - _WORTHWHILE
        return np.where(deeper[:, None], narrow, wide)

    def _reasons(self, grasps: Array, limits: Array, first: Contacts, contacts: Contacts) -> NDArray[np.object_]:
        """Why each fitted grasp isn't possible; a later check overrules an earlier one."""
        config = self._config
        (x_low, x_high), (y_low, y_high) = config.workspace_x, config.workspace_y
        x, y = grasps[:, X], grasps[:, Y]
        found = first.found & contacts.found
        binding = limits.argmax(axis=1)
        # Fingertips that can't go below the surface find nothing between the pads: then what stops them is to blame.
        shallow = ~found | (contacts.grip.min(axis=1) < config.min_grip)
        reasons = np.full(len(grasps), "", dtype=object)
        reasons[contacts.slope.max(axis=1) > _SLOPE_LIMIT * config.friction] = SLIPPERY
        reasons[shallow] = _LIMITS[binding[shallow]]
        reasons[found & (first.span + 2 * config.clearance > self._gripper.max_opening)] = TOO_WIDE
        reasons[~found & (binding == 0)] = NO_CONTACT
        reasons[(x < x_low) | (x > x_high) | (y < y_low) | (y > y_high)] = OUTSIDE
        return reasons
