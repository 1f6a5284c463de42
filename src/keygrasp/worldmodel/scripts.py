"""The scripted expert of each task that comes with the library, by the task's name."""

from __future__ import annotations

from collections.abc import Callable

from keygrasp.geometry.poses import Array
from keygrasp.worldmodel.experts import Pick, Place, Reach, Sort, States

Script = Callable[[States], Array]


def _sort() -> Script:
    return Sort(
        tuple(Place(Pick(Reach(name)), x, None, release=True) for name, x in (("red", -0.085), ("blue", 0.085)))
    )


#: Makes an expert for an episode.
EXPERTS: dict[str, Callable[[], Script]] = {
    "reach_red": lambda: Reach("red"),
    "reach_blue": lambda: Reach("blue"),
    "lift_blue": lambda: Pick(Reach("blue")),
    "place_blue": lambda: Place(Pick(Reach("blue")), 0.12, 0.12),
    "avoid_zone": lambda: Reach("blue", avoid=(0.0, 0.0, 0.06)),
    "least_force": lambda: Pick(Reach("blue"), force=0.12),
    "grasp_end": lambda: Pick(Reach("blue", end=0.72), height=0.055),
    "sort_colours": _sort,
}
