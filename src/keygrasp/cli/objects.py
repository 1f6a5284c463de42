"""``keygrasp objects``: what can be grasped here, and checks on what a user brings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import tyro

from keygrasp.cli import console
from keygrasp.files import atomic_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from keygrasp.objects import PreparedObject

_SPLITS: tuple[Literal["train", "validation", "test"], ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class List:
    """List the names of the objects of a source."""

    source: Literal["embedded", "ycb"] = "embedded"
    """Where objects come from."""
    split: Annotated[Literal["train", "validation", "test"] | None, tyro.conf.arg(help_behavior_hint="")] = None
    """Only this split of the embedded set."""


@dataclass(frozen=True)
class Show:
    """Draw an object on the table, from beside and from above, into a PNG file."""

    name: Annotated[str, tyro.conf.Positional]
    """Name of the object."""
    source: Literal["embedded", "ycb"] = "embedded"
    """Where it comes from."""
    rule: Literal["E", "A", "S", "M", "none"] = "E"
    """Scaling rule."""
    seed: int = 0
    """Seed of its pose."""
    out: console.OptionalPath = None
    """Where to write the picture, instead of NAME.png here."""


@dataclass(frozen=True)
class Prepare:
    """Check a mesh of yours: say what was mended, how large and heavy it is, and whether it can be grasped here."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Mesh: OBJ, STL or PLY."""
    unit: console.Unit = None
    """Unit of the mesh's coordinates; metres, unless its size says that it can't be."""
    rule: Literal["E", "A", "S", "M", "none"] = "none"
    """Scaling rule."""


@dataclass(frozen=True)
class InspectDexnet:
    """Say what a Dex-Net HDF5 database holds."""

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """The database."""


Command = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Prepare, tyro.conf.subcommand("prepare")]
    | Annotated[InspectDexnet, tyro.conf.subcommand("inspect-dexnet")]
)


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    command: object = console.parse(cast("Callable[..., object]", Command), argv, command="objects")
    if isinstance(command, List):
        return _list(command)
    if isinstance(command, Show):
        return _show(command)
    if isinstance(command, Prepare):
        return _prepare(command)
    if isinstance(command, InspectDexnet):
        return _inspect(command)
    raise TypeError(f"{command!r} is no command")


def _list(options: List) -> int:
    from keygrasp.objects import Catalog, split

    out = console.output()
    names = split(options.split) if options.split is not None else Catalog().names(options.source)
    for name in names:
        out.print(name, markup=False, soft_wrap=True)
    counts = ""
    if options.source == "embedded" and options.split is None:
        counts = " (" + ", ".join(f"{part} {len(split(part))}" for part in _SPLITS) + ")"
    console.progress_output().print(f"{len(names)} objects{counts}")
    return 0


def _show(options: Show) -> int:
    """One picture from beside and one from above."""
    from keygrasp.perception import perceive
    from keygrasp.protocol import SceneSpec, build_scene
    from keygrasp.sim import look_at
    from keygrasp.trials.drawing import SceneDrawing, Tile, contact_sheet, draw_scene
    from keygrasp.trials.drawing_canvas import encode_png

    with build_scene(SceneSpec(options.name, options.rule, options.seed, options.source)) as scene:
        beside = scene.world.render_rgb(960, 960, look_at((0.27, -0.3, 0.27), (0.0, 0.0, 0.03)))
        perceived = perceive(scene.view)
        segment = perceived.segments[0] if perceived.segments else None
        keypoints = perceived.keypoints[0] if perceived.keypoints else None
        above = draw_scene(SceneDrawing(perceived.height_map, segment, keypoints))
        prepared = scene.prepared
    tiles = [Tile(beside, f"{options.name}, rule {options.rule}"), Tile(above, "as perceived from above")]
    path = options.out or Path(f"{options.name}.png")
    with atomic_path(path) as temporary:
        temporary.write_bytes(encode_png(contact_sheet(tiles, columns=2, tile_width=480)))
    _print_figures(prepared)
    console.output().print(f"picture: {path}", markup=False, soft_wrap=True)
    return 0


def _prepare(options: Prepare) -> int:
    from keygrasp.objects import prepare_file
    from keygrasp.objects.meshfiles import check_graspable
    from keygrasp.scene import GripperSpec

    prepared = prepare_file(options.file, unit=options.unit, rule=options.rule)
    _print_figures(prepared)
    out = console.output()
    for note in prepared.notes or ("nothing had to be mended",):
        out.print(f"mesh        {note}", markup=False, soft_wrap=True)
    check_graspable(prepared, GripperSpec(), options.file.name)
    out.print("gripper     its size suits the gripper")
    return 0


def _print_figures(prepared: PreparedObject) -> None:
    out = console.output()
    sides = " × ".join(f"{1000 * side:.0f}" for side in sorted(prepared.extents, reverse=True))
    out.print(f"object      {prepared.name} ({prepared.source}, {prepared.category})", markup=False, soft_wrap=True)
    out.print(f"size        {sides} mm (smallest oriented box)")
    out.print(f"mass        {1000 * prepared.mass:.0f} g, volume {1e6 * prepared.volume:.0f} cm³")
    out.print(f"triangles   {len(prepared.faces)}, convex pieces {len(prepared.hulls)}")


def _inspect(options: InspectDexnet) -> int:
    """Counts of each data set, and what the first object has."""
    from keygrasp.objects.dexnet import DexNetDatabase

    out = console.output()
    with DexNetDatabase(options.file) as database:
        for dataset in database.datasets():
            keys = database.objects(dataset)
            out.print(f"data set    {dataset}: {len(keys)} objects", markup=False, soft_wrap=True)
            if not keys:
                continue
            first = database.object(dataset, keys[0])
            size = 1000 * (first.vertices.max(axis=0) - first.vertices.min(axis=0))
            sides = " × ".join(f"{side:.0f}" for side in sorted(size, reverse=True))
            grippers = ", ".join(database.grippers(dataset, keys[0])) or "none"
            out.print(f"  first     {keys[0]}: {sides} mm, {len(first.faces)} triangles", markup=False, soft_wrap=True)
            out.print(f"  grasps    of the first object, for: {grippers}", markup=False, soft_wrap=True)
            out.print(
                f"  try       keygrasp trials --source dexnet --location {options.file}", markup=False, soft_wrap=True
            )
    return 0
