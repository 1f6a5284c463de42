"""A picture with workspace coordinates: anti-aliased lines, dots, shapes and text on an RGB array.

Workspace x runs to the right and y upwards, as the overhead camera sees the table. Colours are (red, green, blue),
0–255.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keygrasp.errors import InputError
from keygrasp.extras import require
from keygrasp.geometry.poses import Array

Rgb = tuple[int, int, int]
Image = NDArray[np.uint8]

#: Fractional bits of the pixel coordinates that OpenCV's drawing functions take.
_SHIFT = 4
#: Largest picture that is drawn, in pixels along an edge.
_MAX_EDGE = 4096


@dataclass(frozen=True)
class Window:
    """The part of the table that a picture shows: a rectangle in the workspace frame, metres.

    Attributes:
        left: Smallest x.
        bottom: Smallest y.
        width: Size along x.
        height: Size along y.
    """

    left: float
    bottom: float
    width: float
    height: float

    @property
    def top(self) -> float:
        """Largest y."""
        return self.bottom + self.height

    @classmethod
    def around(cls, points: Array, *, margin: float, least: float) -> Window:
        """The square that holds ``points`` (n, 2) with ``margin`` on each side, ``least`` metres wide at least."""
        low, high = points.min(axis=0), points.max(axis=0)
        centre = (low + high) / 2
        edge = max(float((high - low).max()) + 2 * margin, least)
        return cls(float(centre[0] - edge / 2), float(centre[1] - edge / 2), edge, edge)


def picture_size(window: Window, pixels_per_metre: float) -> tuple[int, int]:
    """Columns and rows of a picture of ``window``.

    Raises:
        InputError: If it would be empty or too large.
    """
    columns, rows = window.width * pixels_per_metre, window.height * pixels_per_metre
    if not (1 <= columns <= _MAX_EDGE and 1 <= rows <= _MAX_EDGE):
        raise InputError(
            f"a picture of {columns:.0f}×{rows:.0f} pixels can't be drawn",
            f"Choose a scale for 1 to {_MAX_EDGE} pixels",
        )
    return round(columns), round(rows)


class Canvas:
    """An RGB picture of a :class:`Window` with primitives in workspace coordinates.

    Args:
        image: (H, W, 3) picture to draw on; it is changed in place.
        window: What part of the table it shows.
    """

    def __init__(self, image: Image, window: Window) -> None:
        self.image = image
        self.window = window
        self.pixels_per_metre = image.shape[1] / window.width
        self._cv2 = require("cv2", "grasp")

    def to_pixels(self, xy: ArrayLike) -> Array:
        """Fractional pixels (..., 2) as (column, row) of workspace points (..., 2); pixel centres are integers."""
        points = np.asarray(xy, dtype=float)
        column = (points[..., 0] - self.window.left) * self.pixels_per_metre - 0.5
        row = (self.window.top - points[..., 1]) * self.pixels_per_metre - 0.5
        return np.stack([column, row], axis=-1)

    def lines(
        self,
        polylines: list[Array],
        colour: Rgb,
        *,
        thickness: int = 1,
        closed: bool = False,
        opacity: float = 1.0,
        halo: Rgb | None = None,
    ) -> None:
        """Draw polylines (n, 2) in workspace metres; ``halo`` puts a wider line of that colour underneath."""
        pixels = [self._fixed(self.to_pixels(line)) for line in polylines if len(line) > 1]
        if not pixels:
            return
        if halo is not None:
            self._paint(pixels, halo, 0.55 * opacity, lambda mask, at: self._stroke(mask, at, thickness + 2, closed))
        self._paint(pixels, colour, opacity, lambda mask, at: self._stroke(mask, at, thickness, closed))

    def fill(self, polygons: list[Array], colour: Rgb, *, opacity: float = 1.0) -> None:
        """Fill polygons (n, 2) in workspace metres."""
        pixels = [self._fixed(self.to_pixels(polygon)) for polygon in polygons]
        cv2 = self._cv2

        def fill(mask: Image, at: list[NDArray[np.int32]]) -> None:
            for polygon in at:  # one by one: together, overlapping ones would cut holes into each other
                cv2.fillPoly(mask, [polygon], 255, cv2.LINE_AA, _SHIFT)

        self._paint(pixels, colour, opacity, fill)

    def dots(self, xy: Array, colour: Rgb, *, radius: float, rim: Rgb | None = None, opacity: float = 1.0) -> None:
        """Draw discs of ``radius`` pixels at points (n, 2), with a dark or light rim one pixel wide."""
        turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        circle = np.stack([np.cos(turn), np.sin(turn)], axis=-1) / self.pixels_per_metre
        if rim is not None:
            self.fill([point + circle * (radius + 1.0) for point in xy], rim, opacity=opacity)
        self.fill([point + circle * radius for point in xy], colour, opacity=opacity)

    def _stroke(self, mask: Image, at: list[NDArray[np.int32]], thickness: int, closed: bool) -> None:
        self._cv2.polylines(mask, at, closed, 255, thickness, self._cv2.LINE_AA, _SHIFT)

    @staticmethod
    def _fixed(pixels: Array) -> NDArray[np.int32]:
        """Pixels in OpenCV's fixed-point coordinates, bounded so that far-away points can't overflow."""
        return np.rint(np.clip(pixels, -_MAX_EDGE, 2 * _MAX_EDGE) * (1 << _SHIFT)).astype(np.int32)

    def _paint(
        self,
        shapes: list[NDArray[np.int32]],
        colour: Rgb,
        opacity: float,
        draw: Callable[[Image, list[NDArray[np.int32]]], object],
    ) -> None:
        """Blend ``colour`` through the coverage that ``draw`` puts on a mask the size of the shapes' bounding box."""
        if not shapes:
            return
        stacked = np.concatenate(shapes) >> _SHIFT
        margin = 6
        size = np.array(self.image.shape[1::-1])
        low = np.clip(stacked.min(axis=0) - margin, 0, size)
        high = np.clip(stacked.max(axis=0) + margin, 0, size)
        if np.any(high <= low):
            return
        mask = np.zeros((high[1] - low[1], high[0] - low[0]), np.uint8)
        shift = (low << _SHIFT).astype(np.int32)
        draw(mask, [np.ascontiguousarray(shape - shift) for shape in shapes])
        region = self.image[low[1] : high[1], low[0] : high[0]]
        weight = (mask.astype(np.float32) * (opacity / 255))[..., None]
        region[:] = np.rint(region + (np.asarray(colour, np.float32) - region) * weight).astype(np.uint8)

    def text(self, text: str, at: tuple[float, float], colour: Rgb, *, size: int = 14, anchor: str = "ls") -> None:
        """Write ``text`` at pixel (column, row); ``anchor`` as in Pillow (``ls`` = left end of the baseline)."""
        write_text(self.image, text, at, colour, size=size, anchor=anchor, halo=(10, 14, 20))


def write_text(
    image: Image,
    text: str,
    at: tuple[float, float],
    colour: Rgb,
    *,
    size: int = 14,
    anchor: str = "ls",
    halo: Rgb | None = None,
) -> None:
    """Write one line of text into an RGB picture, in place; see :meth:`Canvas.text`."""
    pillow = require("PIL.Image", "grasp")
    draw = require("PIL.ImageDraw", "grasp")
    font = require("PIL.ImageFont", "grasp").load_default(size=size)
    picture = pillow.fromarray(image)
    stroke = {} if halo is None else {"stroke_width": 2, "stroke_fill": halo}
    draw.Draw(picture).text(at, text, fill=colour, font=font, anchor=anchor, **stroke)
    image[:] = np.asarray(picture)


def text_width(text: str, size: int) -> float:
    """Pixels that ``text`` takes at a font size."""
    return float(require("PIL.ImageFont", "grasp").load_default(size=size).getlength(text))


def ramp(values: ArrayLike, anchors: tuple[Rgb, ...]) -> Image:
    """Colours (..., 3) of values in [0, 1] on a ramp through evenly spaced anchor colours."""
    x = np.clip(np.nan_to_num(np.asarray(values, dtype=float)), 0.0, 1.0) * (len(anchors) - 1)
    table = np.asarray(anchors, dtype=float)
    channels = [np.interp(x, np.arange(len(anchors)), table[:, c]) for c in range(3)]
    return np.asarray(np.rint(np.stack(channels, axis=-1)), dtype=np.uint8)


def encode_png(image: Image, *, colours: int | None = None) -> bytes:
    """The picture as a PNG file's bytes; with ``colours`` (≤ 256) as a palette, about a third of the size."""
    picture = require("PIL.Image", "grasp").fromarray(image)
    if colours is not None:
        picture = picture.quantize(colors=colours, method=require("PIL.Image", "grasp").Quantize.FASTOCTREE, dither=0)
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def decode_png(png: bytes) -> Image:
    """The picture (H, W, 3) uint8 RGB of what :func:`encode_png` gave."""
    return np.asarray(require("PIL.Image", "grasp").open(io.BytesIO(png)).convert("RGB"), dtype=np.uint8)
