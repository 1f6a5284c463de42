"""Gives proposals a height, a middle and a width that the gripper can execute."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array
from keygrasp.grasps.arrays import WIDTH, X, Y, Z
from keygrasp.grasps.collision import Footprint, FootprintModel
from keygrasp.grasps.config import GeneratorConfig
from keygrasp.grasps.contact import Contacts, Reach, predict_contacts, predict_reach, recentred
from keygrasp.grasps.proposals import TOO_WIDE
from keygrasp.scene import GripperSpec, HeightMap, ReachFilter

TOO_FLAT = "too flat"
FINGERS_COLLIDE = "fingers collide"
PALM_COLLIDES = "palm collides"
OUTSIDE = "outside the workspace"
OUT_OF_REACH = "out of the robot's reach"
NO_CONTACT = "nothing between the pads"
SLIPPERY = "contacts too sloped"

#: What is to blame where the fingertips can't go deep enough, in the order of FootprintModel.limits.
_LIMITS = np.array([TOO_FLAT, FINGERS_COLLIDE, PALM_COLLIDES], dtype=object)
#: The same where there is nothing at all between the pads.
_NOTHING_BETWEEN = np.array([NO_CONTACT, FINGERS_COLLIDE, PALM_COLLIDES], dtype=object)
#: Slopes (run over rise) beyond this many times μ can't hold, even if they were misread by a cell.
_SLOPE_LIMIT = 3.0
#: Metres by which a narrower opening must reach deeper to be preferred.
_WORTHWHILE = 0.001


@dataclass(frozen=True, eq=False)
class Fitted:
    """The proposals that the gripper can execute.

    Attributes:
        grasps: (n, 5) grasps.
        contacts: What the pads would touch.
        rejections: How many proposals were dropped for which reason.
    """

    grasps: Array
    contacts: Contacts
    rejections: Counter[str]


class Fitter:
    """Fits proposals on one height map to one gripper."""

    def __init__(
        self,
        height_map: HeightMap,
        model: FootprintModel,
        gripper: GripperSpec,
        config: GeneratorConfig,
        reach: ReachFilter | None = None,
    ) -> None:
        self._map = height_map
        self._model = model
        self._gripper = gripper
        self._config = config
        self._reach = reach

    def fit(self, proposals: Array, lifts: tuple[float, ...] = (0.0,)) -> Fitted:
        """Fit proposals (n, 5): as deep as table, fingers and palm allow, then higher by each of ``lifts`` metres."""
        deepest, limits = self._opened(proposals, proposals[:, WIDTH])
        deepest[:, Z] = limits.max(axis=1)
        grasps = np.tile(deepest, (len(lifts), 1))
        grasps[:, Z] += np.repeat(lifts, len(deepest))
        first = predict_reach(self._model.heights, self._map, grasps, self._gripper)
        grasps, limits = self._opened(recentred(grasps, first), first.span)
        # The new width may stand on other ground; a finger that was clear must stay so.
        grasps[:, Z] = np.maximum(grasps[:, Z], limits.max(axis=1))
        binding = limits.argmax(axis=1)
        reasons = self._reasons_before_contact(grasps, binding, first)
        # Only what is left is worth a closer look at its contacts.
        left = np.flatnonzero(reasons == "")
        contacts = predict_contacts(self._model.heights, self._map, grasps[left], self._gripper)
        reasons[left] = self._reasons_of_contact(binding[left], contacts)
        possible = reasons[left] == ""
        counts = Counter(reason for reason in reasons.tolist() if reason)
        return Fitted(grasps[left[possible]], contacts.take(possible), counts)

    def _opened(self, grasps: Array, span: Array) -> tuple[Array, Array]:
        """Grasps opened beyond the contacts: by the full margin, or by half where that leaves deeper room.

        Returns:
            The grasps, and their limits as :meth:`FootprintModel.limits` gives them.
        """
        count, margin = len(grasps), self._config.opening_margin
        options = np.tile(grasps, (2, 1))
        widths = np.concatenate([span + 2 * margin, span + margin])
        options[:, WIDTH] = np.clip(widths, self._gripper.min_opening, self._gripper.max_opening)
        fingers = self._model.finger_heights(options)
        deeper = fingers[count:] < fingers[:count] - _WORTHWHILE
        picks = np.arange(count) + count * deeper
        footprint = Footprint(fingers[picks], self._model.palm_heights(grasps))
        return options[picks], self._model.limits(footprint, self._config.table_clearance)

    def _reasons_before_contact(self, grasps: Array, binding: NDArray[np.intp], first: Reach) -> NDArray[np.object_]:
        """Why each grasp isn't possible, as far as can be said without its contacts; a later check overrules."""
        config = self._config
        (x_low, x_high), (y_low, y_high) = config.workspace_x, config.workspace_y
        x, y = grasps[:, X], grasps[:, Y]
        reasons = np.full(len(grasps), "", dtype=object)
        reasons[first.span + 2 * config.clearance > self._gripper.max_opening] = TOO_WIDE
        reasons[~first.found] = _NOTHING_BETWEEN[binding[~first.found]]
        reasons[(x < x_low) | (x > x_high) | (y < y_low) | (y > y_high)] = OUTSIDE
        if self._reach is not None:
            reasons[~self._reach(grasps)] = OUT_OF_REACH
        return reasons

    def _reasons_of_contact(self, binding: NDArray[np.intp], contacts: Contacts) -> NDArray[np.object_]:
        """Why grasps with these contacts aren't possible; a later check overrules."""
        # Fingertips that can't go below the surface find little between the pads: then what stops them is to blame.
        shallow = contacts.grip.min(axis=1) < self._config.min_grip
        reasons = np.full(len(binding), "", dtype=object)
        reasons[contacts.slope.max(axis=1) > _SLOPE_LIMIT * self._config.friction] = SLIPPERY
        reasons[shallow] = _LIMITS[binding[shallow]]
        reasons[~contacts.found] = _NOTHING_BETWEEN[binding[~contacts.found]]
        return reasons
