"""The pictures that ``keygrasp pick`` leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from keygrasp.files import atomic_path
from keygrasp.perception import Perceived
from keygrasp.scene import GraspPlan, GripperSpec, OverheadView, TrialOutcome
from keygrasp.sim import World, look_at
from keygrasp.trials.drawing import SceneDrawing, Tile, contact_sheet, depth_picture, draw_scene, outcome_colour
from keygrasp.trials.drawing_canvas import Image, encode_png

#: Columns and rows of a picture, twice those on the sheet: the renderer doesn't smooth edges, shrinking does.
_FRAME_SIZE = (720, 540)
#: Where the pictures are taken from, and what they look at, in metres in the workspace frame.
_EYE, _TARGET = (0.68, -0.68, 0.5), (-0.1, 0.1, 0.31)


class Frames:
    """Pictures of an execution from beside the table, one where each stage ends.

    Args:
        world: The world that is looked at.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._stage = "before"
        self.tiles: list[Tile] = []

    def begin(self, stage: str) -> None:
        """Take a picture of what the stage before has led to."""
        self.tiles.append(Tile(self._world.render_rgb(*_FRAME_SIZE, look_at(_EYE, _TARGET)), self._stage))
        self._stage = stage


def write_pictures(
    folder: Path,
    view: OverheadView,
    perceived: Perceived,
    plan: GraspPlan,
    outcome: TrialOutcome,
    frames: Frames,
    gripper: GripperSpec,
) -> list[Path]:
    """Write a picture of each step, all of them on one sheet, and a strip of the execution.

    Returns:
        Paths of the pictures, the sheet first.

    Raises:
        StorageError: If one can't be written.
    """
    segment = perceived.segments[0] if perceived.segments else None
    keypoints = perceived.keypoints[0] if perceived.keypoints else None
    base = SceneDrawing(perceived.height_map, segment, gripper=gripper)
    candidates = replace(base, candidates=plan.candidates)
    steps = {
        "depth": ("depth image", depth_picture(view)),
        "keypoints": ("segment and keypoints", draw_scene(replace(base, keypoints=keypoints))),
        "candidates": (f"{len(plan.candidates)} candidates", draw_scene(candidates)),
    }
    if len(plan.path) > 1:
        path = replace(base, path=plan.path, grasp=plan.grasp)
        steps["path"] = (f"refined in {len(plan.path) - 1} steps", draw_scene(path))
    executed = replace(base, grasp=plan.grasp, outcome=outcome.outcome)
    steps["grasp"] = (outcome.message or outcome.outcome.value.replace("_", " "), draw_scene(executed))
    tiles = [Tile(image, caption) for caption, image in steps.values()]
    tiles[-1] = Tile(tiles[-1].image, tiles[-1].caption, outcome_colour(outcome.outcome))
    pictures = {"overview": contact_sheet(tiles, columns=2 if len(tiles) == 4 else 3, tile_width=400)}
    if frames.tiles:
        pictures["execution"] = contact_sheet(frames.tiles, columns=4, tile_width=360)
    pictures.update({name: image for name, (_, image) in steps.items()})
    return [_write(folder / f"{name}.png", image) for name, image in pictures.items()]


def _write(path: Path, image: Image) -> Path:
    with atomic_path(path) as temporary:
        temporary.write_bytes(encode_png(image))
    return path
