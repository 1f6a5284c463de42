"""What one might push: the parts of what stands on a table, each with the rectangle around it.

Perception joins objects that almost touch. They are cut apart here at the two notches where their outlines meet, if the
pieces fill their rectangles better than the whole fills its own: things that stand side by side mostly do.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.geometry.poses import Array, wrap_half_turn
from keygrasp.perception import Perceived
from keygrasp.perception.config import cv2
from keygrasp.scene import HeightMap

Mask = NDArray[np.bool_]
#: Farthest that a part is looked for from where it is expected, in metres.
_MATCH = 0.06
#: Metres by which an outline must be notched to be cut there.
_NOTCH = 0.004
#: Most notches of one outline that are tried.
_NOTCHES = 6
#: How much better the pieces must fill their rectangles, as a share of their area; and the least area of a piece.
_GAIN, _LEAST_AREA = 0.03, 4e-4


@dataclass(frozen=True, eq=False)
class Part:
    """One thing on the table, as a rectangle seen from above.

    Attributes:
        x: Metres, centre in the workspace.
        y: Metres, centre in the workspace.
        yaw: Radians from the x axis to the long side; a half turn is the same.
        length: Metres of the long side.
        width: Metres of the short side.
        height: Metres of its top above the table.
        mask: (H, W) cells of the height map that belong to it.
    """

    x: float
    y: float
    yaw: float
    length: float
    width: float
    height: float
    mask: Mask

    def corners(self, margin: float = 0.0) -> Array:
        """(4, 2) metres, corners of the rectangle with a margin around it."""
        half = np.array([self.length, self.width]) / 2 + margin
        along, aside = self.axes
        return np.array(
            [
                [self.x, self.y] + i * half[0] * along + j * half[1] * aside
                for i, j in ((1, 1), (-1, 1), (-1, -1), (1, -1))
            ]
        )

    @property
    def axes(self) -> tuple[Array, Array]:
        """Unit vectors along the long and along the short side."""
        cosine, sine = math.cos(self.yaw), math.sin(self.yaw)
        return np.array([cosine, sine]), np.array([-sine, cosine])

    def turn_from(self, before: Part) -> float:
        """Radians by which it has turned since, within a quarter turn."""
        return wrap_half_turn(self.yaw - before.yaw)


def parts_of(perceived: Perceived) -> tuple[Part, ...]:
    """All parts of what a view shows, largest first."""
    found = [
        part_of(mask, perceived.height_map)
        for segment in perceived.segments
        for mask in _pieces(segment.mask, perceived.height_map.cell)
    ]
    return tuple(sorted(found, key=lambda part: -part.length * part.width))


def part_of(mask: Mask, height_map: HeightMap) -> Part:
    """The part that cells make up."""
    (column, row), (first, second), degrees = cv2.minAreaRect(_points(mask))
    cell = height_map.cell
    x, y = height_map.xy_of(np.array([row, column]))
    yaw = math.radians(degrees) + (0.0 if first >= second else math.pi / 2)
    long, short = (max(first, second) + 1) * cell, (min(first, second) + 1) * cell
    top = float(np.quantile(height_map.heights[mask], 0.9))
    return Part(float(x), float(y), wrap_half_turn(yaw), long, short, top, mask)


def found_again(before: Part, expected: Part, seen: Perceived) -> Part | None:
    """The part of a view that is a part from before: of a like size, nearest to where it is expected."""

    def away(part: Part) -> float:
        return math.hypot(part.x - expected.x, part.y - expected.y)

    def alike(part: Part) -> bool:
        longer, wider = part.length - before.length, part.width - before.width
        return abs(longer) < 0.3 * before.length and abs(wider) < 0.4 * before.width

    best = min(filter(alike, parts_of(seen)), key=away, default=None)
    return best if best is not None and away(best) < _MATCH else None


def drawn(part: Part, height_map: HeightMap, margin: float = 0.0) -> Mask:
    """(H, W) cells that a part's rectangle covers, which may have been moved away from its mask."""
    canvas = np.zeros(height_map.heights.shape, np.uint8)
    cells = height_map.cells_of(part.corners(margin))[:, ::-1]
    cv2.fillConvexPoly(canvas, np.rint(cells).astype(np.int32), 1)
    return canvas.astype(bool)


def _pieces(mask: Mask, cell: float) -> list[Mask]:
    """A mask, or the two pieces of it that two notches in its outline suggest."""
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline = max(contours, key=cv2.contourArea)
    best, pieces = _filled(mask) + _GAIN, [mask]
    if len(outline) < 8:
        return pieces
    hull = cv2.convexHull(outline, returnPoints=False)
    defects = cv2.convexityDefects(outline, np.sort(hull, axis=0)[::-1])
    if defects is None:
        return pieces
    deep = sorted((d for d in defects.reshape(-1, 4) if d[3] / 256 * cell > _NOTCH), key=lambda d: -d[3])[:_NOTCHES]
    for one, other in itertools.combinations([tuple(map(int, outline[d[2], 0])) for d in deep], 2):
        cut = mask.astype(np.uint8)
        cv2.line(cut, one, other, 0, 1, cv2.LINE_4)
        count, labels = cv2.connectedComponents(cut, connectivity=4)
        made = [labels == label for label in range(1, count)]
        made = [piece for piece in made if piece.sum() * cell**2 >= _LEAST_AREA]
        if len(made) == 2:
            area = sum(float(piece.sum()) for piece in made)
            fill = sum(_filled(piece) * float(piece.sum()) for piece in made) / area
            if fill > best:
                best, pieces = fill, made
    return pieces


def _filled(mask: Mask) -> float:
    """Share of its rectangle that a mask fills."""
    _, (first, second), _ = cv2.minAreaRect(_points(mask))
    return float(mask.sum()) / float((first + 1) * (second + 1))


def _points(mask: Mask) -> NDArray[np.int32]:
    """(N, 1, 2) column and row of a mask's cells."""
    return np.argwhere(mask)[:, ::-1].astype(np.int32)[:, None]
