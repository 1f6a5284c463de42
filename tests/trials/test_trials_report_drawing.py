"""Pictures show things where they are, in the colours that the legend gives."""

import io

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("PIL")

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from keygrasp.errors import InputError
from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.scene import (
    TOTAL_ROWS,
    HeightMap,
    KeypointKind,
    Keypoints,
    Outcome,
    OverheadView,
    PlanarGrasp,
    Segment,
)
from keygrasp.trials.drawing import (
    FAILURE_COLOUR,
    HEIGHT_RAMP,
    KEYPOINT_COLOURS,
    OPEN_COLOUR,
    PATH_COLOUR,
    RIVAL_COLOUR,
    SUCCESS_COLOUR,
    SceneDrawing,
    Tile,
    contact_sheet,
    depth_picture,
    draw_scene,
)
from keygrasp.trials.drawing_canvas import Canvas, Window, decode_png, encode_png, ramp, text_width

_CELLS, _CELL = 80, 0.0025
_HALF = _CELLS * _CELL / 2


def _height_map(mask=None, height=0.05):
    heights = np.zeros((_CELLS, _CELLS), np.float32)
    if mask is not None:
        heights[mask] = height
    origin = np.full(2, -_HALF + _CELL / 2)
    return HeightMap(heights, np.ones_like(heights, bool), origin, _CELL)


def _block(x, y, half=0.01):
    """Mask of a square around workspace (x, y)."""
    centres = (np.arange(_CELLS) + 0.5) * _CELL - _HALF
    return (abs(centres[:, None] - y) <= half) & (abs(centres[None, :] - x) <= half)


def _pixel(image, x, y):
    """Colour at a workspace point of a picture of the whole map."""
    scale = image.shape[1] / (2 * _HALF)
    return image[round((_HALF - y) * scale), round((x + _HALF) * scale)].astype(int)


def _near(colour, expected, tolerance=40):
    return np.abs(np.asarray(colour, int) - expected).max() <= tolerance


def test_x_runs_right_and_y_up():
    image = draw_scene(SceneDrawing(_height_map(_block(0.05, 0.03))), whole=True)
    assert image.shape == (_CELLS * 5, _CELLS * 5, 3)
    assert image.dtype == np.uint8
    assert _pixel(image, 0.05, 0.03).sum() > 2 * _pixel(image, -0.05, -0.03).sum()
    assert _near(_pixel(image, 0.05, -0.03), HEIGHT_RAMP[0], 25)


@pytest.mark.parametrize(
    ("outcome", "colour"), [(Outcome.SUCCESS, SUCCESS_COLOUR), (Outcome.SLIPPED, FAILURE_COLOUR), (None, OPEN_COLOUR)]
)
@pytest.mark.parametrize("yaw", [0.0, 0.7, -1.2])
def test_pads_lie_beside_the_opening_in_the_outcomes_colour(outcome, colour, yaw):
    grasp = PlanarGrasp(0.01, -0.02, 0.0, yaw, 0.06)
    image = draw_scene(SceneDrawing(_height_map(), grasp=grasp, outcome=outcome), whole=True)
    along = grasp.closing_axis
    for sign in (-1, 1):
        inside = np.array([grasp.x, grasp.y]) + sign * along * (0.03 + 0.005)
        beyond = np.array([grasp.x, grasp.y]) + sign * along * (0.03 + 0.016)
        assert _near(_pixel(image, *inside), colour)
        assert not _near(_pixel(image, *beyond), colour)


def test_a_rival_is_outlined_beside_the_grasp_and_in_the_picture():
    grasp = PlanarGrasp(0.0, 0.0, 0.0, 0.0, 0.06)
    rival = PlanarGrasp(0.0, 0.06, 0.0, 0.0, 0.08)
    image = draw_scene(SceneDrawing(_height_map(), rival=rival, grasp=grasp), whole=True)
    assert _near(_pixel(image, 0.035, 0.0), OPEN_COLOUR)
    assert _near(_pixel(image, 0.04, 0.06), RIVAL_COLOUR)  # the edge of its pad
    assert not _near(_pixel(image, 0.045, 0.06), RIVAL_COLOUR)  # which isn't filled
    mask = _block(0.0, -0.05)
    focused = SceneDrawing(_height_map(mask), Segment(mask, np.array([0.0, -0.05]), 4e-4, 0.05, False), rival=rival)
    assert np.any(np.all(np.abs(draw_scene(focused).astype(int) - RIVAL_COLOUR) < 20, axis=-1))


def _keypoints(kind, x, y):
    order = [KeypointKind.CONTOUR] * 64 + [KeypointKind.SKELETON] * 24 + [KeypointKind.SURFACE] * 40
    kinds = np.array(order, np.int8)
    row = int(np.flatnonzero(kinds == kind)[0])
    position, mask = np.zeros((TOTAL_ROWS, 3), np.float32), np.zeros(TOTAL_ROWS, bool)
    position[row, :2], mask[row] = (x, y), True
    zero = np.zeros((TOTAL_ROWS, 2), np.float32)
    return Keypoints(position, zero, zero[:, 0], np.zeros((TOTAL_ROWS, 2, 2), np.float32), kinds, mask)


@pytest.mark.parametrize("kind", list(KeypointKind))
def test_keypoints_have_the_colour_of_their_kind(kind):
    drawing = SceneDrawing(_height_map(), keypoints=_keypoints(kind, 0.03, 0.04))
    assert _near(_pixel(draw_scene(drawing, whole=True), 0.03, 0.04), KEYPOINT_COLOURS[kind], 60)


def test_a_path_fades_towards_its_start():
    path = tuple(PlanarGrasp(-0.06 + 0.03 * step, 0.0, 0.0, 1.5, 0.02) for step in range(5))
    image = draw_scene(SceneDrawing(_height_map(), path=path), whole=True).astype(int)
    old, new = (np.abs(_pixel(image, x, 0.0) - PATH_COLOUR).sum() for x in (-0.045, 0.045))
    assert new < old


def test_candidates_do_not_hide_the_best_one():
    best = PlanarGrasp(0.0, 0.0, 0.0, 0.0, 0.08, score=1.0)
    worse = tuple(PlanarGrasp(0.0, 0.0, 0.0, 0.0, 0.08, score=s) for s in (0.5, 0.1))
    alone = draw_scene(SceneDrawing(_height_map(), candidates=(best,)), whole=True)
    together = draw_scene(SceneDrawing(_height_map(), candidates=(best, *worse)), whole=True)
    assert _near(_pixel(alone, 0.02, 0.0), _pixel(together, 0.02, 0.0), 60)


def test_without_anything_it_is_just_the_table():
    image = draw_scene(SceneDrawing(_height_map()))
    assert image.shape == (_CELLS * 5, _CELLS * 5, 3)


def test_the_picture_is_centred_on_the_object():
    mask = _block(0.06, 0.06)
    segment = Segment(mask, np.array([0.06, 0.06]), 4e-4, 0.05, False)
    image = draw_scene(SceneDrawing(_height_map(mask), segment))
    rows, columns = image.shape[:2]
    assert rows == columns
    middle = image[rows // 2 - 4 : rows // 2 + 4, columns // 2 - 4 : columns // 2 + 4].mean()
    assert middle > 2 * image[20:40, 20:40].mean()


def test_not_a_number_in_the_map_or_a_score_is_drawn_as_nothing():
    height_map = _height_map()
    height_map.heights[:10] = np.nan
    candidates = (PlanarGrasp(0, 0, 0, 0, 0.05, score=float("nan")), PlanarGrasp(0, 0, 0, 0, 0.05, score=0.3))
    assert draw_scene(SceneDrawing(height_map, candidates=candidates), whole=True).shape[2] == 3


def test_the_scale_bar_is_5_cm_long():
    image = draw_scene(SceneDrawing(_height_map()), whole=True)
    row = image[image.shape[0] - 13].astype(int)
    bright = int((row.min(axis=1) > 235).sum())
    assert bright == pytest.approx(0.05 * image.shape[1] / (2 * _HALF), abs=1)


@given(x=st.floats(-1, 1), y=st.floats(-1, 1))
def test_pixels_follow_the_window(x, y):
    canvas = Canvas(np.zeros((100, 200, 3), np.uint8), Window(-1.0, -0.5, 2.0, 1.0))
    column, row = canvas.to_pixels([x, y])
    assert (column + 0.5) / 100 - 1.0 == pytest.approx(x, abs=1e-9)
    assert 0.5 - (row + 0.5) / 100 == pytest.approx(y, abs=1e-9)


@given(
    points=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=6),
    thickness=st.integers(1, 5),
)
def test_shapes_that_leave_the_picture_are_cut_off(points, thickness):
    canvas = Canvas(np.zeros((60, 60, 3), np.uint8), Window(-0.1, -0.1, 0.2, 0.2))
    line = np.array(points)
    canvas.lines([line], (255, 0, 0), thickness=thickness, halo=(1, 2, 3))
    canvas.fill([line], (0, 255, 0))
    canvas.dots(line, (0, 0, 255), radius=3, rim=(9, 9, 9))


def test_overlapping_shapes_do_not_cancel_each_other():
    canvas = Canvas(np.zeros((60, 60, 3), np.uint8), Window(0, 0, 0.06, 0.06))
    square = np.array([[0.01, 0.01], [0.05, 0.01], [0.05, 0.05], [0.01, 0.05]])
    canvas.fill([square, square], (255, 255, 255))
    assert canvas.image[30, 30].tolist() == [255, 255, 255]


@pytest.mark.parametrize("scale", [1e5, 0.0, -1.0, float("nan")])
def test_a_picture_has_bounds(scale):
    with pytest.raises(InputError, match="can't be drawn"):
        draw_scene(SceneDrawing(_height_map()), scale=scale, whole=True)


def test_depth_shows_invalid_pixels_apart():
    depth = np.full((16, 16), 0.7, np.float32)
    depth[4:8, 4:8] = 0.6
    depth[0, 0] = np.nan
    view = OverheadView(depth, Intrinsics(16, 16, 32.0, 32.0, 7.5, 7.5), overhead_pose(0.7))
    image = depth_picture(view, scale=3).astype(int)
    assert image.shape == (48, 48, 3)
    assert image[1, 1].tolist() == [118, 40, 52]
    assert image[16, 16].sum() > image[40, 40].sum() + 200, "nearer is lighter"


def test_a_sheet_holds_all_tiles_in_rows():
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
    tiles = [Tile(np.full((50, 50, 3), colour, np.uint8), "x" * 200) for colour in colours]
    sheet = contact_sheet(tiles, columns=2, tile_width=100)
    assert sheet.shape == (10 + 2 * (126 + 10), 10 + 2 * (100 + 10), 3)
    assert sheet[60, 60].tolist() == [200, 0, 0]
    assert sheet[60, 170].tolist() == [0, 200, 0]
    assert sheet[196, 60].tolist() == [0, 0, 200]
    assert contact_sheet([]).size > 0


def test_long_captions_are_cut():
    tile = Tile(np.full((50, 50, 3), 99, np.uint8), "W" * 300)
    sheet = contact_sheet([tile], tile_width=100).astype(int)
    assert text_width("W" * 300, 14) > 100
    assert np.abs(sheet[112:, 112:] - [15, 19, 26]).max() == 0, "nothing is written beyond the tile"


@given(value=st.floats(allow_nan=True))
def test_a_ramp_takes_any_number(value):
    low, high = (0, 10, 20), (100, 110, 120)
    colour = ramp(value, (low, high))
    assert np.all((colour >= low) & (colour <= high))


@pytest.mark.parametrize("colours", [None, 64])
def test_png_comes_back(colours):
    image = np.zeros((20, 30, 3), np.uint8)
    image[:10, :15] = (255, 0, 0)
    png = encode_png(image, colours=colours)
    back = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    assert np.array_equal(decode_png(png), back)
    assert back.shape == image.shape
    assert np.abs(back.astype(int) - image).max() <= 8
