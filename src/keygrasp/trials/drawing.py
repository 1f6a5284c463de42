"""Pictures of a scene for people: heights, keypoints, candidate grasps, the refinement path and the executed grasp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keygrasp.extras import require
from keygrasp.geometry.poses import Array
from keygrasp.scene import (
    GripperSpec,
    HeightMap,
    KeypointKind,
    Keypoints,
    Outcome,
    OverheadView,
    PlanarGrasp,
    Segment,
)
from keygrasp.trials.drawing_canvas import Canvas, Image, Rgb, Window, picture_size, ramp, text_width, write_text

#: Heights from the table upwards; lightness rises evenly, so that the ramp also reads in grey.
HEIGHT_RAMP: tuple[Rgb, ...] = (
    (25, 33, 44), (31, 56, 82), (35, 84, 115), (43, 115, 140),
    (70, 148, 158), (116, 181, 172), (172, 211, 190), (229, 240, 215),
)  # fmt: skip
#: Scores of candidate grasps, lowest to highest.
SCORE_RAMP: tuple[Rgb, ...] = ((140, 96, 176), (196, 96, 142), (232, 120, 92), (248, 168, 72), (255, 224, 104))
PATH_COLOUR: Rgb = (255, 104, 214)
OUTLINE_COLOUR: Rgb = (236, 242, 248)
KEYPOINT_COLOURS: dict[KeypointKind, Rgb] = {
    KeypointKind.CONTOUR: (255, 255, 255),
    KeypointKind.SKELETON: (255, 186, 73),
    KeypointKind.SURFACE: (128, 216, 255),
}
SUCCESS_COLOUR: Rgb = (84, 226, 132)
FAILURE_COLOUR: Rgb = (255, 96, 88)
OPEN_COLOUR: Rgb = (255, 238, 130)
RIVAL_COLOUR: Rgb = (255, 208, 92)
_DARK: Rgb = (10, 14, 20)
#: Heights in metres at which the height ramp ends, at least; taller objects stretch it.
_LEAST_TOP = 0.06
_CANDIDATES_SHOWN = 40
_DASHES = 7
_GRIPPER = GripperSpec()


@dataclass(frozen=True, eq=False)
class SceneDrawing:
    """What is drawn over a height map; everything but the map may be missing.

    Attributes:
        height_map: Background.
        segment: Object whose outline is drawn and on which the picture is centred.
        keypoints: Drawn by kind: contour white, skeleton orange, surface blue.
        candidates: Thin gripper glyphs, coloured by score; best first, the best forty are shown.
        path: Refinement steps, oldest first; older ones fade.
        rival: Another planner's grasp to compare with, dashed and to scale.
        grasp: Drawn bold and to scale.
        gripper: Whose sizes the bold grasp has.
        outcome: Gives the bold grasp its colour and the picture its label; ``None`` while nothing was executed.
        label: Replaces the outcome's own name in the label.
    """

    height_map: HeightMap
    segment: Segment | None = None
    keypoints: Keypoints | None = None
    candidates: tuple[PlanarGrasp, ...] = ()
    path: tuple[PlanarGrasp, ...] = ()
    rival: PlanarGrasp | None = None
    grasp: PlanarGrasp | None = None
    gripper: GripperSpec = _GRIPPER
    outcome: Outcome | None = None
    label: str = ""


def draw_scene(drawing: SceneDrawing, *, scale: float = 5.0, whole: bool = False) -> Image:
    """Draw a scene from above, x to the right and y upwards.

    Args:
        drawing: What to draw.
        scale: Pixels a cell of the height map; 4–6 is legible.
        whole: Show the whole height map instead of a square around the object.

    Returns:
        (H, W, 3) uint8 RGB.

    Raises:
        InputError: If the scale makes it empty or too large.
    """
    height_map = drawing.height_map
    window = _map_window(height_map) if whole else _focus(drawing)
    canvas = Canvas(_height_picture(height_map, window, scale / height_map.cell), window)
    _draw_grid(canvas)
    if drawing.segment is not None:
        _draw_outline(canvas, height_map, drawing.segment)
    if drawing.candidates:
        _draw_candidates(canvas, drawing.candidates[:_CANDIDATES_SHOWN], drawing.gripper)
    if drawing.keypoints is not None:
        _draw_keypoints(canvas, drawing.keypoints)
    if len(drawing.path) > 1:
        _draw_path(canvas, drawing.path, drawing.gripper)
    if drawing.rival is not None:
        _draw_rival(canvas, drawing.rival, drawing.gripper)
    if drawing.grasp is not None:
        _draw_grasp(canvas, drawing.grasp, drawing.gripper, outcome_colour(drawing.outcome))
    _draw_scale_bar(canvas)
    _draw_label(canvas, drawing)
    return canvas.image


def depth_picture(view: OverheadView, *, scale: int = 4) -> Image:
    """The depth image as the camera gave it: nearer is lighter, invalid pixels are dark red; (H, W, 3) uint8 RGB."""
    cv2 = require("cv2", "grasp")
    depth = view.depth.astype(float)
    valid = np.isfinite(depth)
    near, far = np.percentile(depth[valid], [0.5, 97.0])
    nearness = (far - depth) / max(far - near, 0.02)
    picture = ramp(nearness, HEIGHT_RAMP)
    picture[~valid] = (118, 40, 52)
    return np.asarray(cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_NEAREST), np.uint8)


def outcome_colour(outcome: Outcome | None) -> Rgb:
    """Green for success, red for a failure, yellow while a grasp was not executed."""
    if outcome is None:
        return OPEN_COLOUR
    return SUCCESS_COLOUR if outcome is Outcome.SUCCESS else FAILURE_COLOUR


def _map_window(height_map: HeightMap) -> Window:
    rows, columns = height_map.heights.shape
    left, bottom = (height_map.origin - height_map.cell / 2).tolist()
    return Window(left, bottom, columns * height_map.cell, rows * height_map.cell)


def _focus(drawing: SceneDrawing) -> Window:
    """A square around the object and the grasp; the whole map where neither is known."""
    points = []
    if drawing.segment is not None and drawing.segment.mask.any():
        cells = np.argwhere(drawing.segment.mask).astype(float)
        points.append(drawing.height_map.xy_of(np.stack([cells.min(axis=0), cells.max(axis=0)])))
    for grasp in (drawing.grasp, drawing.rival):
        if grasp is not None:
            half = (grasp.width / 2 + drawing.gripper.pad_thickness) * grasp.closing_axis
            middle = np.array([grasp.x, grasp.y])
            points.append(np.stack([middle - half, middle + half]))
    if not points:
        return _map_window(drawing.height_map)
    return Window.around(np.concatenate(points), margin=0.02, least=0.19)


def _height_picture(height_map: HeightMap, window: Window, pixels_per_metre: float) -> Image:
    """Coloured, hillshaded heights over the window; the table continues where the map ends."""
    cv2 = require("cv2", "grasp")
    columns, rows = picture_size(window, pixels_per_metre)
    x = window.left + (np.arange(columns) + 0.5) / pixels_per_metre
    y = window.top - (np.arange(rows) + 0.5) / pixels_per_metre
    map_x = np.broadcast_to(((x - height_map.origin[0]) / height_map.cell).astype(np.float32), (rows, columns))
    map_y = np.broadcast_to(((y - height_map.origin[1]) / height_map.cell).astype(np.float32)[:, None], (rows, columns))
    heights = np.nan_to_num(np.asarray(height_map.heights, np.float32))
    sampled = cv2.remap(heights, map_x.copy(), map_y.copy(), cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
    smooth = cv2.GaussianBlur(sampled, (0, 0), pixels_per_metre * height_map.cell * 0.7)
    top = max(_LEAST_TOP, float(np.percentile(heights, 99.8)))
    shade = _hillshade(smooth, pixels_per_metre)
    coloured = ramp(np.maximum(sampled, 0) / top, HEIGHT_RAMP).astype(np.float32) * shade[..., None]
    return np.asarray(np.clip(coloured, 0, 255), np.uint8)


def _hillshade(heights: NDArray[np.float32], pixels_per_metre: float) -> NDArray[np.float32]:
    """Brightness factors around 1 of a surface lit from the upper left; cliffs are softened."""
    down, right = np.gradient(heights)
    slope = np.stack([right, down]) * (0.5 * pixels_per_metre)
    slope /= np.sqrt(1.0 + (slope**2).sum(axis=0) / 0.6)
    light = (slope[0] + slope[1]) / np.sqrt(2.0)
    return np.asarray(np.clip(1.0 + 0.55 * light, 0.5, 1.5), np.float32)


def _draw_grid(canvas: Canvas) -> None:
    """Fine lines every 5 cm through the workspace's origin."""
    window, step = canvas.window, 0.05
    right = window.left + window.width
    vertical = np.arange(np.ceil(window.left / step), np.floor(right / step) + 1) * step
    horizontal = np.arange(np.ceil(window.bottom / step), np.floor(window.top / step) + 1) * step
    lines = [np.array([[x, window.bottom], [x, window.top]]) for x in vertical]
    lines += [np.array([[window.left, y], [right, y]]) for y in horizontal]
    canvas.lines(lines, (255, 255, 255), opacity=0.07)


def _draw_outline(canvas: Canvas, height_map: HeightMap, segment: Segment) -> None:
    cv2 = require("cv2", "grasp")
    found, _ = cv2.findContours(segment.mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    outlines = [height_map.xy_of(contour.reshape(-1, 2)[:, ::-1].astype(float)) for contour in found]
    canvas.lines(outlines, OUTLINE_COLOUR, closed=True, opacity=0.75, halo=_DARK)


def _glyph(grasp: PlanarGrasp, gripper: GripperSpec) -> list[Array]:
    """A thin gripper: a bar along the closing axis and one pad line at each end."""
    along = grasp.closing_axis
    across = np.array([-along[1], along[0]]) * gripper.pad_width / 2
    middle = np.array([grasp.x, grasp.y])
    ends = [middle - along * grasp.width / 2, middle + along * grasp.width / 2]
    return [np.stack(ends), *(np.stack([end - across, end + across]) for end in ends)]


def _draw_candidates(canvas: Canvas, candidates: Sequence[PlanarGrasp], gripper: GripperSpec) -> None:
    """Worst first, so that the best lie on top; colours are spread over the scores shown."""
    scores = np.nan_to_num(np.array([candidate.score for candidate in candidates]))
    spread = float(np.ptp(scores))
    level = (scores - scores.min()) / spread if spread > 1e-9 else np.ones(len(scores))
    for index in reversed(range(len(candidates))):
        red, green, blue = ramp(level[index], SCORE_RAMP).tolist()
        opacity = 0.45 + 0.45 * float(level[index])
        canvas.lines(_glyph(candidates[index], gripper), (red, green, blue), opacity=opacity)


def _draw_keypoints(canvas: Canvas, keypoints: Keypoints) -> None:
    surface = keypoints.of(KeypointKind.SURFACE)[:, :2]
    canvas.dots(surface, KEYPOINT_COLOURS[KeypointKind.SURFACE], radius=1.4, opacity=0.8)
    contour = keypoints.of(KeypointKind.CONTOUR)[:, :2]
    canvas.dots(contour, KEYPOINT_COLOURS[KeypointKind.CONTOUR], radius=1.6, rim=_DARK)
    skeleton = keypoints.of(KeypointKind.SKELETON)[:, :2]
    canvas.dots(skeleton, KEYPOINT_COLOURS[KeypointKind.SKELETON], radius=2.2, rim=_DARK)


def _draw_path(canvas: Canvas, path: Sequence[PlanarGrasp], gripper: GripperSpec) -> None:
    centres = np.array([[grasp.x, grasp.y] for grasp in path])
    steps = len(path) - 1
    for index, grasp in enumerate(path[:-1]):
        fade = 0.25 + 0.65 * index / steps
        canvas.lines(_glyph(grasp, gripper), PATH_COLOUR, opacity=0.6 * fade)
        canvas.lines([centres[index : index + 2]], PATH_COLOUR, thickness=2, opacity=fade, halo=_DARK)
    canvas.dots(centres, PATH_COLOUR, radius=2.0, rim=_DARK)
    canvas.dots(centres[:1], (255, 255, 255), radius=2.6, rim=PATH_COLOUR)


def _rectangle(centre: Array, along: Array, half_along: float, half_across: float) -> Array:
    across = np.array([-along[1], along[0]])
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [half_along, half_across]
    return np.asarray(centre + corners[:, :1] * along + corners[:, 1:] * across)


def _draw_rival(canvas: Canvas, grasp: PlanarGrasp, gripper: GripperSpec) -> None:
    """Pads to scale as outlines, and a dashed line between them."""
    middle, along = np.array([grasp.x, grasp.y]), grasp.closing_axis
    reach = grasp.width / 2 + gripper.pad_thickness / 2
    pads = [
        _rectangle(middle + sign * reach * along, along, gripper.pad_thickness / 2, gripper.pad_width / 2)
        for sign in (-1, 1)
    ]
    stops = np.linspace(-grasp.width / 2, grasp.width / 2, 2 * _DASHES)
    dashes = [middle + stops[i : i + 2, None] * along for i in range(0, 2 * _DASHES - 1, 2)]
    canvas.lines(pads, RIVAL_COLOUR, closed=True, thickness=2, halo=_DARK)
    canvas.lines(dashes, RIVAL_COLOUR, thickness=2, halo=_DARK)


def _draw_grasp(canvas: Canvas, grasp: PlanarGrasp, gripper: GripperSpec, colour: Rgb) -> None:
    """Pads to scale at their opening, arrows in the closing direction, and the palm as a faint outline."""
    middle, along = np.array([grasp.x, grasp.y]), grasp.closing_axis
    reach = grasp.width / 2 + gripper.pad_thickness / 2
    pads = [
        _rectangle(middle + sign * reach * along, along, gripper.pad_thickness / 2, gripper.pad_width / 2)
        for sign in (-1, 1)
    ]
    palm = _rectangle(middle, along, gripper.palm_along / 2, gripper.palm_across / 2)
    canvas.lines([palm], colour, closed=True, opacity=0.3)
    canvas.lines([np.stack([middle - along * grasp.width / 2, middle + along * grasp.width / 2])], colour, halo=_DARK)
    canvas.fill(pads, colour, opacity=0.85)
    canvas.lines(pads, (255, 255, 255), closed=True, halo=_DARK)
    across = np.array([-along[1], along[0]])
    size = min(0.006, grasp.width / 4)
    for sign in (-1, 1):
        tip = middle + sign * along * (grasp.width / 2 - size * 1.3)
        back = tip + sign * along * size
        canvas.fill([np.stack([tip, back + across * size * 0.6, back - across * size * 0.6])], colour)
    canvas.dots(middle[None], colour, radius=2.4, rim=_DARK)


def _draw_scale_bar(canvas: Canvas) -> None:
    rows, columns = canvas.image.shape[:2]
    length = 0.05 * canvas.pixels_per_metre
    left, right, row = columns - 12 - length, columns - 12.0, rows - 14
    image = canvas.image
    image[row - 1 : row + 4, round(left) - 1 : round(right) + 1] = _DARK
    image[row : row + 3, round(left) : round(right)] = (244, 246, 248)
    canvas.text("5 cm", ((left + right) / 2, row - 6), (244, 246, 248), size=13, anchor="ms")


def _draw_label(canvas: Canvas, drawing: SceneDrawing) -> None:
    text = drawing.label or ("" if drawing.outcome is None else drawing.outcome.value.replace("_", " "))
    if text:
        canvas.text(text, (12, 12), outcome_colour(drawing.outcome), size=16, anchor="lt")


@dataclass(frozen=True, eq=False)
class Tile:
    """One picture of a contact sheet.

    Attributes:
        image: (H, W, 3) uint8 RGB.
        caption: One line below the picture, cut where it is too long.
        colour: Colour of the caption.
    """

    image: Image
    caption: str = ""
    colour: Rgb = (224, 230, 236)


def contact_sheet(tiles: Sequence[Tile], *, columns: int = 4, tile_width: int = 320) -> Image:
    """Lay pictures out in a grid, each scaled to ``tile_width`` pixels, with captions; (H, W, 3) uint8 RGB."""
    cv2 = require("cv2", "grasp")
    gap, caption_height = 10, 26
    columns = max(1, min(columns, len(tiles)))
    scaled = []
    for tile in tiles:
        height = round(tile.image.shape[0] * tile_width / tile.image.shape[1])
        mode = cv2.INTER_AREA if tile_width <= tile.image.shape[1] else cv2.INTER_CUBIC
        scaled.append(np.asarray(cv2.resize(tile.image, (tile_width, height), interpolation=mode), np.uint8))
    row_height = max((image.shape[0] for image in scaled), default=0) + caption_height
    rows = -(-len(tiles) // columns)
    sheet = np.empty((gap + rows * (row_height + gap), gap + columns * (tile_width + gap), 3), np.uint8)
    sheet[:] = (15, 19, 26)
    for index, (tile, image) in enumerate(zip(tiles, scaled, strict=True)):
        top = gap + index // columns * (row_height + gap)
        left = gap + index % columns * (tile_width + gap)
        sheet[top : top + image.shape[0], left : left + tile_width] = image
        if tile.caption:
            at = (left + 2, top + image.shape[0] + 18)
            write_text(sheet, _fit(tile.caption, tile_width - 4, 14), at, tile.colour)
    return sheet


def _fit(text: str, width: float, size: int) -> str:
    """``text``, cut with an ellipsis where it is wider than ``width`` pixels."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…"
