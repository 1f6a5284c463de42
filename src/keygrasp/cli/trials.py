"""``keygrasp trials``: many objects, any planners, one report."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from keygrasp.cli import console
from keygrasp.errors import EXIT_INTERRUPTED, ConfigurationError, InputError, KeygraspError, WorkerError

if TYPE_CHECKING:
    from keygrasp.trials.config import TrialsConfig
    from keygrasp.trials.running import Results

#: Folder under which results lie where none is named.
_DEFAULT_PARENT = Path("keygrasp-results")
_PICTURES = 12
_OBJECTS = 300
#: Trials that could not be carried out that are named.
_NAMED = 5


@dataclass(frozen=True)
class Options:
    """Try grasp planners on many objects in simulation (protocol KG-1) and report success with 95% intervals.

    The frozen reference planner always runs too, on the same images: it defines the tail and what must be kept. Each
    finished scene is kept in the results' folder: the same command, or --resume, goes on where a run was stopped.
    """

    planner: str = "refined"
    """Planner: refined, geometric, reference, reference-lenient, argmax, cem, climb, centroid, random or oracle."""
    planners: console.Names = ()
    """Several planners instead of one."""
    objects: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 300)")] = None
    """How many objects of the split."""
    rule: Literal["E", "A", "S", "M", "none"] = "E"
    """Scaling rule: E (middle side 10 cm), A (smallest side 4 cm, easy) or none; outside KG-1 S (2 cm) and M (7 cm)."""
    split: Literal["train", "validation", "test"] = "test"
    """Which objects of the embedded set."""
    source: Literal["embedded", "ycb", "dexnet", "file"] = "embedded"
    """Where objects come from; only the embedded set has splits."""
    location: console.OptionalPath = None
    """The database of the source dexnet, or the mesh file or folder of the source file."""
    unit: console.Unit = None
    """Unit of the mesh files' numbers; metres, unless their size says that it can't be."""
    names: console.Names = ()
    """Objects by name instead of by split."""
    robot: Literal["gripper", "ur5", "delta"] = "gripper"
    """Who executes: a free gripper (fast), a UR5, or a Delta (an X1 with every length doubled)."""
    seed: int = 0
    """Evaluation seed: poses and camera noise follow from it."""
    poses: int = 1
    """Scenes with each object; with a scheduler, at most."""
    scheduler: str = "all"
    """Who decides which objects are tried how often: all (every scene once), or graph, paper, uniform, history, knn,
    replay, learnability, which spend --budget where it tells most."""
    budget: int = 0
    """Scenes in all, where a scheduler decides."""
    attempts: int = 3
    """Most attempts in the up-to-three trials; 1 leaves them out."""
    robust: bool = True
    """Also execute each grasp ten times with perturbations."""
    workers: int = 0
    """Worker processes; 0 is one a core."""
    weights: console.OptionalPath = None
    """Weights of the refiner and of the controls that share its network, instead of those that come with it."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""
    report: console.OptionalPath = None
    """Folder of the results, instead of a new one under keygrasp-results/."""
    pictures: int = _PICTURES
    """Most pictures of failures of each planner in the report."""
    resume: console.OptionalPath = None
    """Go on with the run of this folder; its own settings are used."""


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options = console.parse(Options, argv, command="trials")
    if options.pictures < 0:
        raise InputError(f"--pictures must be at least 0, not {options.pictures}")
    config, folder = _resumed(options) if options.resume is not None else _fresh(options)
    console.results_folder(folder)
    return _run(options, config, folder)


def _fresh(options: Options) -> tuple[TrialsConfig, Path]:
    from keygrasp.trials.config import TrialsConfig
    from keygrasp.trials.journal import config_hash

    names = options.planners or (options.planner,)
    own = _names(options)
    config = TrialsConfig(
        planners=tuple(_spec(name, options.weights) for name in dict.fromkeys(names)),
        objects=len(own) or (_OBJECTS if options.objects is None else options.objects),
        rule=options.rule,
        split=options.split,
        source=options.source,
        names=own,
        robot=options.robot,
        seed=options.seed,
        poses=options.poses,
        scheduler=options.scheduler,
        budget=options.budget,
        up_to=options.attempts,
        robust=options.robust,
        workers=options.workers,
    )
    what = options.split if options.source == "embedded" else options.source
    label = f"{what}-{options.rule}-{options.robot}-seed{options.seed}-{config_hash(config.identity())[:8]}"
    return config, options.report or _DEFAULT_PARENT / label


def _names(options: Options) -> tuple[str, ...]:
    """Names of the objects where they are not drawn from a split: as given, or the first of a location."""
    if options.unit is not None and options.source != "file":
        raise ConfigurationError("--unit is of mesh files", "Give --source file as well, or leave out --unit")
    if options.location is None and not options.names:
        return ()
    from keygrasp.objects import Catalog

    if not options.names:
        count = _OBJECTS if options.objects is None else options.objects
        return Catalog().names(options.source, location=options.location, unit=options.unit)[: max(count, 0)]
    if options.location is not None:
        raise ConfigurationError("--names and --location both say which objects there are", "Leave one out")
    if options.objects is not None:
        raise ConfigurationError("--names already say which objects there are", "Leave out --objects")
    Catalog().check(options.names, source=options.source)
    return tuple(f"{name}::{options.unit}" if options.unit and "::" not in name else name for name in options.names)


def _spec(name: str, weights: Path | None) -> Any:
    from keygrasp.trials.planners import FACTORIES, planner_spec

    if weights is None or not FACTORIES.get(name, "").startswith("keygrasp.refine."):
        return planner_spec(name)
    if not weights.exists():
        raise InputError(f"there are no weights at {weights}", "Check --weights, or make some with 'keygrasp train'")
    return planner_spec(name, weights=str(weights))


def _resumed(options: Options) -> tuple[TrialsConfig, Path]:
    from keygrasp.trials.report_reading import JOURNAL_FILE, config_of, read_journal

    folder = options.resume
    if folder is None or options.report is not None:
        raise ConfigurationError("--resume and --report name the same thing", "Give one of them")
    journal = folder / JOURNAL_FILE
    identity, _ = read_journal(journal)
    return dataclasses.replace(config_of(identity, str(journal)), workers=options.workers), folder


def _run(options: Options, config: TrialsConfig, folder: Path) -> int:
    """Run, show progress, and report whatever was done, after Ctrl-C too."""
    from keygrasp.cli.trials_progress import TrialsProgress
    from keygrasp.files import ensure_writable
    from keygrasp.trials.report_reading import JOURNAL_FILE
    from keygrasp.trials.running import run_trials

    journal = folder / JOURNAL_FILE
    if options.json is not None:
        ensure_writable(options.json)
    try:
        with TrialsProgress([spec.name for spec in config.planners]) as progress:
            results = run_trials(config, progress.update, journal=journal)
    except KeyboardInterrupt:
        return _stopped(options, config, folder)
    _finish(options, results, folder)
    _check_carried_out(results)
    return 0


def _check_carried_out(results: Results) -> None:
    """Name the trials that could not be carried out, and why; scenes that could not be made are no fault of a few."""
    why = [(record, record.scene_fault or record.fault) for record in results.records]
    none = all(text for _, text in why)
    faults = [f"{record.planner} on {record.object_name}: {text}" for record, text in why if record.fault or none]
    if not faults:
        return
    more = [f"and {len(faults) - _NAMED} more, in the report"] if len(faults) > _NAMED else []
    raise WorkerError(
        f"{len(faults)} of {len(results.records)} trials could not be carried out: "
        + "; ".join(faults[:_NAMED] + more),
        "Mend that and run again with another --report, or leave these objects out",
    )


def _finish(options: Options, results: Results, folder: Path) -> None:
    from keygrasp.cli.trials_progress import drawing_progress
    from keygrasp.cli.trials_table import print_summary
    from keygrasp.files import write_json
    from keygrasp.trials.config import judged_planner
    from keygrasp.trials.report import write_report

    summary = results.summary()
    if options.json is not None:
        chosen = summary["planners"][judged_planner([spec.name for spec in results.config.planners])]
        write_json(options.json, {**chosen, **summary})
    out = console.output()
    print_summary(out, summary)
    with drawing_progress() as on_scene:
        page = write_report(results, folder, pictures=options.pictures, on_scene=on_scene)
    out.print(f"\nreport: {page}", soft_wrap=True)
    if options.json is not None:
        out.print(f"figures: {options.json}", soft_wrap=True)


def _stopped(options: Options, config: TrialsConfig, folder: Path) -> int:
    """After Ctrl-C: say what is kept, and show the figures of it."""
    from keygrasp.cli.trials_table import print_summary
    from keygrasp.provenance import provenance
    from keygrasp.trials.report_reading import JOURNAL_FILE, read_journal
    from keygrasp.trials.running import Results

    notes = console.progress_output()
    total = config.expected_scenes()
    try:
        _, records = read_journal(folder / JOURNAL_FILE)
    except KeygraspError:
        records = ()
    done = len({record.scene for record in records})
    if done:
        results = Results(config, records, 0.0, provenance(config.seed))
        print_summary(console.output(), results.summary())
    notes.print(f"keygrasp: stopped after {done} of {total} scenes; they are kept in {folder}", soft_wrap=True)
    notes.print(f"  Go on with: keygrasp trials --resume {folder}", soft_wrap=True)
    return EXIT_INTERRUPTED
