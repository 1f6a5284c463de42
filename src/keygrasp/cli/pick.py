"""``keygrasp pick``: one object of the user's, from mesh to verdict, with pictures."""

from __future__ import annotations

import itertools
import os
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from keygrasp.cli import console
from keygrasp.errors import InputError, MeshError

if TYPE_CHECKING:
    from rich.console import Console

    from keygrasp.cli.pick_pictures import Frames
    from keygrasp.objects import PreparedObject
    from keygrasp.protocol import Scene
    from keygrasp.scene import GraspPlan, Planner, TrialOutcome

#: Exit status where everything worked, but the pick failed.
EXIT_PICK_FAILED = 1
#: In a folder of pictures that was named after a file: which file that is.
_OWNER = "object.txt"
#: Characters; four bytes each still make a file's name.
_LONGEST_SLUG = 60


@dataclass(frozen=True)
class Options:
    """Drop one object of yours on the table, take a depth image, plan a grasp and execute it in simulation.

    Writes pictures of each step and one line with the outcome. Exit status 0 if the object was picked, 1 if not.
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """Mesh of the object: OBJ, STL or PLY."""
    unit: console.Unit = None
    """Unit of the mesh's coordinates; metres, unless its size says that it can't be."""
    rule: Literal["none", "A", "E"] = "none"
    """Scale it: A (smallest side 4 cm at most) or E (middle side 10 cm)."""
    planner: str = "refined"
    """Planner: refined, geometric, reference, argmax, cem, climb, centroid or random."""
    robot: Literal["ur5", "gripper", "delta"] = "ur5"
    """Who executes: a UR5, a free gripper (faster), or a Delta."""
    out: console.OptionalPath = None
    """Folder of the pictures, instead of keygrasp-results/pick-NAME (pick-NAME-2 where that is another file's)."""
    seed: int = 0
    """Seed of the object's pose, of the camera's noise and of the planner."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="pick")
    if not options.file.is_file():
        raise MeshError(f"there is no file {options.file}", "Give an OBJ, STL or PLY file")
    from keygrasp.cli.pick_pictures import Frames, write_pictures
    from keygrasp.files import write_text
    from keygrasp.objects import Catalog
    from keygrasp.objects.meshfiles import check_graspable
    from keygrasp.perception import perceive
    from keygrasp.protocol import SceneSpec, build_scene
    from keygrasp.scene import GripperSpec

    planner = _planner(options.planner)
    out, notes = console.output(), console.progress_output()
    folder = console.results_folder(options.out or _folder_of(options.file, Path("keygrasp-results")))
    notes.print(f"preparing {options.file.name} …", markup=False)
    name = str(options.file) if options.unit is None else f"{options.file}::{options.unit}"
    spec = SceneSpec(name, options.rule, options.seed, "file")
    prepared = Catalog().prepare(name, options.rule, source="file")
    _describe(notes, prepared)
    check_graspable(prepared, GripperSpec(), options.file.name)
    with build_scene(spec, options.robot) as scene:
        perceived = perceive(scene.view)
        plan = _plan(notes, planner, scene, options.seed)
        frames = Frames(scene.world)
        outcome = _execute(notes, scene, plan, frames)
        written = write_pictures(folder, scene.view, perceived, plan, outcome, frames, scene.robot.gripper)
    if options.out is None:
        write_text(folder / _OWNER, _owner(options.file))
    for path in written:
        out.print(f"  {path}", markup=False, soft_wrap=True)
    out.print(_verdict(options.file.name, outcome), markup=False, soft_wrap=True)
    return 0 if outcome.success else EXIT_PICK_FAILED


def _slug(name: str) -> str:
    """A file's name as part of a folder's name."""
    characters = unicodedata.normalize("NFC", name)
    spaced = (c if c.isalnum() or c in "._-" or unicodedata.category(c).startswith("M") else " " for c in characters)
    return "-".join("".join(spaced).split()).strip("-.")[:_LONGEST_SLUG] or "object"


def _folder_of(file: Path, parent: Path) -> Path:
    """The folder named after a file: the first that is empty, or holds that file's pictures and no other's."""
    name = f"pick-{_slug(file.stem)}"
    names = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
    return next(parent / name for name in names if _may_write(parent / name, file))


def _may_write(folder: Path, file: Path) -> bool:
    if not folder.is_dir() or not any(folder.iterdir()):
        return True
    try:
        return (folder / _OWNER).read_text(encoding="utf-8") == _owner(file)
    except (OSError, UnicodeDecodeError):
        return False


def _owner(file: Path) -> str:
    """A file as its folder's owner: its path, on a line."""
    return os.fsencode(file.resolve()).decode("utf-8", "replace") + "\n"


def _planner(name: str) -> Planner:
    from keygrasp.trials.planners import ScenePlanner, build_planner, planner_spec

    planner = build_planner(planner_spec(name))
    if isinstance(planner, ScenePlanner):
        raise InputError(f"planner '{name}' looks behind the image and can't pick", "Choose another planner")
    return planner


def _describe(notes: Console, prepared: PreparedObject) -> None:
    """Size, mass and what was mended."""
    sides = " × ".join(f"{100 * side:.1f}" for side in sorted(prepared.extents, reverse=True))
    notes.print(f"  {sides} cm, {1000 * prepared.mass:.0f} g, convex pieces: {len(prepared.hulls)}")
    for note in prepared.notes:
        notes.print(f"  {note}", markup=False, soft_wrap=True)


def _plan(notes: Console, planner: Planner, scene: Scene, seed: int) -> GraspPlan:
    import numpy as np

    begin = time.perf_counter()
    robot = scene.robot
    plan = planner.plan(scene.view, robot.gripper, rng=np.random.default_rng([seed, 1]), reach=robot.reach)
    took = f"planned in {1e3 * (time.perf_counter() - begin):.0f} ms"
    if plan.grasp is None:
        notes.print(f"{took}: no grasp ({plan.reason})", markup=False, soft_wrap=True)
        return plan
    figures = [f"{len(plan.candidates)} candidates"]
    if plan.evaluations:
        figures.append(f"{plan.evaluations} network evaluations")
    if plan.success_probability is not None:
        figures.append(f"success expected with {100 * plan.success_probability:.0f}%")
    notes.print(f"{took}: {', '.join(figures)}")
    return plan


def _execute(notes: Console, scene: Scene, plan: GraspPlan, frames: Frames) -> TrialOutcome:
    """Execute with progress by stage."""
    from keygrasp.scene import Outcome, Stage, TrialOutcome

    if plan.grasp is None:
        return TrialOutcome(Outcome.NO_GRASP, message=f"no grasp: {plan.reason}")
    begun: list[str] = []

    def on_stage(stage: Stage) -> None:
        frames.begin(stage.value)
        begun.append(stage.value)
        if notes.is_terminal:
            notes.print("\r  " + " → ".join(begun), end="")

    outcome = scene.robot.execute(plan.grasp, on_stage=on_stage)
    frames.begin("end")
    notes.print("" if notes.is_terminal else "  " + " → ".join(begun))
    return outcome


def _verdict(name: str, outcome: TrialOutcome) -> str:
    if outcome.success:
        return f"picked: {name} was lifted {100 * outcome.rise:.0f} cm, shaken and held"
    return f"not picked: {name}: {outcome.message or outcome.outcome.value.replace('_', ' ')}"
