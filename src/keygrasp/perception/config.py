"""Settings of perception, and the one gate through which it reaches OpenCV."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keygrasp.errors import ConfigurationError
from keygrasp.extras import require

#: OpenCV; importing perception without the extra ``grasp`` names the command that installs it.
cv2 = require("cv2", "grasp")

_MAX_CELLS = 1024


@dataclass(frozen=True)
class PerceptionConfig:
    """How an overhead view is read; the defaults fit KG-1's camera and noise.

    Attributes:
        cell: Edge of a height map's cell in metres.
        cells: Cells along each edge of the height map, which is centred on the workspace's origin.
        hypotheses: Planes that the search for the table tries.
        plane_tolerance: Metres from a plane within which a point supports it.
        min_support: Least share of the valid pixels that must lie on the table.
        max_below: Largest share of the valid pixels that may lie well below the table.
        max_tilt: Largest angle in radians between the table and the workspace's z = 0 plane.
        max_offset: Largest distance in metres between the table and the workspace's z = 0 plane at its origin.
        min_height: Least height in metres above the table that counts as an object.
        noise_factor: An object must also rise above the table by this many standard deviations of the table's noise,
            and its top by one third more.
        min_area: Least area in square metres of an object seen from above.
        workspace_x: Range of x in metres in which an object's centroid must lie.
        workspace_y: Range of y in metres in which an object's centroid must lie.
    """

    cell: float = 0.0025
    cells: int = 144
    hypotheses: int = 192
    plane_tolerance: float = 0.006
    min_support: float = 0.15
    max_below: float = 0.05
    max_tilt: float = 0.35
    max_offset: float = 0.10
    min_height: float = 0.005
    noise_factor: float = 3.0
    min_area: float = 1e-4
    workspace_x: tuple[float, float] = (-0.18, 0.18)
    workspace_y: tuple[float, float] = (-0.18, 0.18)

    def __post_init__(self) -> None:
        positive = ("cell", "plane_tolerance", "min_support", "max_tilt", "max_offset", "min_height", "min_area")
        for name in positive:
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ConfigurationError(f"perception: {name} must be positive, not {value}")
        if not 8 <= self.cells <= _MAX_CELLS:
            raise ConfigurationError(f"perception: cells must lie in 8–{_MAX_CELLS}, not {self.cells}")
        if not 1 <= self.hypotheses <= 10_000:
            raise ConfigurationError(f"perception: hypotheses must lie in 1–10000, not {self.hypotheses}")
        for name in ("workspace_x", "workspace_y"):
            low, high = getattr(self, name)
            if not low < high:
                raise ConfigurationError(f"perception: {name} is ({low}, {high}), the first must be the smaller")
