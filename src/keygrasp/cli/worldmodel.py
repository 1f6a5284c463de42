"""``keygrasp worldmodel``: collect episodes, train a model of them, score it, and plan tasks that are files."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from keygrasp.cli import console, steps
from keygrasp.cli.worldmodel_study import Study, run_study
from keygrasp.errors import EXIT_INTERRUPTED, ConfigurationError, InputError
from keygrasp.files import ensure_writable, write_json, write_text
from keygrasp.provenance import provenance

if TYPE_CHECKING:
    from keygrasp.worldmodel.episodes import Episode
    from keygrasp.worldmodel.model import WorldModel
    from keygrasp.worldmodel.task_files import FileTask

Json = dict[str, Any]
_MODEL = Path("worldmodel.safetensors")
Tasks = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="[PATH ...]", help_behavior_hint="")]


@dataclass(frozen=True)
class Collect:
    """Collect episodes in the simulated workspace: two coloured blocks, a random object, a gripper.

    Every episode is a file, on disk before the next begins: the same command goes on where it was stopped.
    """

    out: Path
    """Folder of the episodes."""
    episodes: int = 500
    """Episodes in the folder afterwards."""
    behaviours: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="")] = (
        "random",
        "random",
        "random",
        "scripted",
    )
    """What acts, in turn: random, scripted, novelty."""
    task: str = "reach_red"
    """Task of the scripted behaviour; the others know none."""
    model: console.OptionalPath = None
    """Model whose members' disagreement novelty-seeking behaviour looks for."""
    images: bool = False
    """Keep overhead images of 64 by 64 pixels, colour and depth."""
    seed: int = 0
    """Seed of the first episode; each has its own."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


@dataclass(frozen=True)
class Train:
    """Train a model on episodes, and score it on some that are held out."""

    data: Tasks
    """Folders of episodes."""
    out: Path = _MODEL
    """File of the weights."""
    model: Literal["symbols", "images"] = "symbols"
    """The ensemble over symbols: minutes on a CPU. Or the recurrent model over images, for a GPU: stopped, the same
    command goes on."""
    settings: console.OptionalPath = None
    """YAML file of the image model's settings."""
    updates: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Gradient steps over pieces of episodes: 1,000, or the image model's settings."""
    first_updates: int = 6000
    """Gradient steps over single actions before those, of the ensemble."""
    horizon: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Steps of open-loop prediction in the loss: 5, or the image model's settings."""
    held_out: int = 40
    """Episodes of each folder, evenly taken, that are scored instead of learned."""
    device: str = "cpu"
    """Where to compute: cpu or cuda."""
    seed: int = 0
    """Seed of weights and batches."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


@dataclass(frozen=True)
class Evaluate:
    """Plan tasks in the workspace, between random actions and the scripted expert that sees the true state.

    Returns are normalised: 0 is what random actions get, 1 what the expert gets in the same scenes. With --data, the
    model's predictions are scored too; the time of a decision is measured in any case.
    """

    task: Tasks
    """Task files."""
    model: console.OptionalPath = None
    """The model, instead of the one that ships."""
    data: console.OptionalPath = None
    """Folder of held-out episodes on which predictions are scored."""
    episodes: int = 3
    """Scenes a task."""
    seed: int = 0
    """Chooses the scenes."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


@dataclass(frozen=True)
class PlanTask:
    """Plan one task in the workspace and watch what was imagined against what happened."""

    task: Path
    """Task file."""
    model: console.OptionalPath = None
    """The model, instead of the one that ships."""
    seed: int = 0
    """Chooses the scene."""
    picture: console.OptionalPath = None
    """Draw the imagined and the real episode into this SVG file."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


Command = (
    Annotated[Collect, tyro.conf.subcommand("collect")]
    | Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[PlanTask, tyro.conf.subcommand("plan")]
    | Annotated[Study, tyro.conf.subcommand("study")]
)


def run(argv: list[str]) -> int:
    """Run the command; returns the exit status."""
    options: Collect | Train | Evaluate | PlanTask | Study = console.parse(Command, argv, command="worldmodel")  # type: ignore[arg-type]
    if options.json is not None:
        ensure_writable(options.json)
    if isinstance(options, Study):
        return run_study(options)
    if options.seed < 0:
        raise ConfigurationError(f"--seed is {options.seed}", "Give 0 or more")
    if isinstance(options, Collect):
        return _collect(options)
    if isinstance(options, Train):
        return _train(options)
    return _evaluate(options) if isinstance(options, Evaluate) else _plan(options)


def _collect(options: Collect) -> int:
    from keygrasp.worldmodel.collect import CollectConfig, collect

    folder = console.results_folder(options.out)
    config = CollectConfig(
        episodes=options.episodes,
        behaviours=options.behaviours,
        task=options.task,
        images=options.images,
        seed=options.seed,
    )
    model = _model(options.model) if options.model is not None else None
    begun = time.monotonic()
    try:
        with steps.StepBar("episodes") as bar:
            decisions = collect(folder, config, model=model, progress=bar.update)
    except KeyboardInterrupt:
        console.progress_output().print(f"keygrasp: stopped; {folder} keeps what is whole, the same command goes on")
        return EXIT_INTERRUPTED
    seconds = time.monotonic() - begun
    console.output().print(f"{options.episodes:,} episodes, {decisions:,} decisions in {folder}, {seconds:.0f} s")
    if options.json is not None:
        figures = {"episodes": options.episodes, "decisions": decisions, "seconds": seconds}
        write_json(options.json, {**figures, "config": _plain(config), "provenance": provenance(options.seed)})
    return 0


def _train(options: Train) -> int:
    import torch

    from keygrasp.worldmodel.episodes import read_episodes, split
    from keygrasp.worldmodel.evaluation import symbol_scores
    from keygrasp.worldmodel.layout import Layout
    from keygrasp.worldmodel.training import TrainConfig, train

    ensure_writable(options.out)
    if options.settings is not None and options.model != "images":
        raise ConfigurationError("--settings are those of the image model", "Add --model images")
    if options.device not in ("cpu", "cuda") or (options.device == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"--device {options.device} is not there", "Use cpu")
    if options.held_out < 0:
        raise ConfigurationError(f"--held-out is {options.held_out}", "Give 0 or more")
    learned, held = [], []
    for folder in options.data:
        found = read_episodes(folder, Layout())
        parts = split(found, options.held_out)
        learned += parts[0]
        held += parts[1]
    if options.model == "images":
        return _train_images(options, learned, held)
    given = {"updates": options.updates, "horizon": options.horizon}
    config = TrainConfig(
        seed=options.seed,
        first_updates=options.first_updates,
        **{name: value for name, value in given.items() if value is not None},
    )
    begun = time.monotonic()
    with steps.StepBar("updates") as bar:
        model = train(learned, config, device=options.device, progress=bar.update).to("cpu")
    seconds = time.monotonic() - begun
    decisions = sum(map(len, learned))
    model.save(options.out, {"decisions": decisions, "seconds": round(seconds, 1), **provenance(options.seed)})
    scores = [dataclasses.asdict(s) for s in symbol_scores(model, held)] if held else []
    console.output().print(f"learned from {decisions:,} decisions in {seconds:.0f} s; written {options.out}")
    _print_scores(scores)
    if options.json is not None:
        figures = {"decisions": decisions, "seconds": seconds, "scores": scores, "config": _plain(config)}
        write_json(options.json, {**figures, "provenance": provenance(options.seed)})
    return 0


def _train_images(options: Train, learned: list[Episode], held: list[Episode]) -> int:
    from keygrasp.worldmodel.evaluation import symbol_scores
    from keygrasp.worldmodel.recurrent_training import (
        ImageTrainConfig,
        checkpoint_path,
        load_images_model,
        train_images,
    )

    config = steps.load_settings(
        ImageTrainConfig, options.settings, Path("configs/worldmodel-images.yaml"),
        steps=options.updates, horizon=options.horizon, device=options.device, seed=options.seed,
    )  # fmt: skip
    try:
        with steps.StepBar("updates") as bar:
            report = train_images(
                learned, options.out, config, lambda step, losses: bar.update(step, config.steps, losses)
            )
    except KeyboardInterrupt:
        kept = checkpoint_path(options.out)
        console.progress_output().print(f"keygrasp: stopped; {kept} is kept, the same command goes on", soft_wrap=True)
        return EXIT_INTERRUPTED
    scores = [dataclasses.asdict(s) for s in symbol_scores(load_images_model(options.out), held)] if held else []
    console.output().print(
        f"learned from {sum(map(len, learned)):,} decisions in {report['seconds']:.0f} s; written {options.out}"
    )
    _print_scores(scores)
    if options.json is not None:
        write_json(options.json, {**report, "scores": scores})
    return 0


def _print_scores(scores: list[Json]) -> None:
    if not scores:
        return
    table = console.table("symbol", *(f"{s['steps']} ahead" for s in scores), title="R² of changes, F1 of contacts")
    for name in scores[0]["r2_of_change"]:
        table.add_row(name, *map(_figure, (s["r2_of_change"][name] for s in scores)))
    for name in scores[0]["f1"]:
        table.add_row(name, *map(_figure, (s["f1"][name] for s in scores)))
    console.output().print(table)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _evaluate(options: Evaluate) -> int:
    import numpy as np

    from keygrasp.sim.tabletop import Tabletop
    from keygrasp.worldmodel.episodes import read_episodes
    from keygrasp.worldmodel.evaluation import symbol_scores
    from keygrasp.worldmodel.study import Contender, StudyConfig, normalised, run_one
    from keygrasp.worldmodel.timing import decision_times

    model = _model(options.model)
    tasks = [_scripted_task(path) for path in options.task]
    if options.episodes < 1:
        raise ConfigurationError(f"--episodes is {options.episodes}", "Give 1 or more")
    scores = []
    if options.data is not None:
        scores = [dataclasses.asdict(s) for s in symbol_scores(model, read_episodes(options.data, model.layout))]
    contender = Contender(model, [], tasks[0], StudyConfig(episodes=options.episodes), options.seed)
    records: list[Json] = []
    with Tabletop() as workspace, steps.StepBar("runs") as bar:
        for task in tasks:
            for condition in ("random", "expert", "plan"):
                records.append(run_one(workspace, contender, condition, task))
                bar.update(len(records), 3 * len(tasks), {})
        timed = decision_times(model, tasks[0], workspace)
    table = console.table("task", "random", "planned", "expert", "normalised")
    for task in tasks:
        means = [
            np.mean(r["returns"])
            for c in ("random", "plan", "expert")
            for r in records
            if (r["condition"], r["task"]) == (c, task.name)
        ]
        table.add_row(task.name, *(f"{m:.1f}" for m in means), f"{normalised(records, 'plan', task.name)[0]:.2f}")
    out = console.output()
    out.print(table)
    for what, figures in timed.items():
        out.print(f"one decision with {what}: {1e3 * figures['median_s']:.0f} ms, median of {figures['decisions']}")
    _print_scores(scores)
    if options.json is not None:
        write_json(
            options.json,
            {"records": records, "planning": timed, "scores": scores, "provenance": provenance(options.seed)},
        )
    return 0


def _plan(options: PlanTask) -> int:
    from keygrasp.sim.tabletop import Tabletop
    from keygrasp.worldmodel.pictures import rollout_picture
    from keygrasp.worldmodel.policies import Planned, imagined_rows
    from keygrasp.worldmodel.rollouts import rewards_of, roll_out

    model, task = _model(options.model), _task(options.task)
    if options.picture is not None:
        ensure_writable(options.picture)
    policy = Planned(model, task)
    with Tabletop() as workspace:
        episode = roll_out(workspace, policy, model.layout, steps=task.steps, seed=options.seed, task=task)
    rewards = rewards_of(episode, task)
    shares = task.breakdown(episode.symbols[:-1], episode.actions, episode.symbols[1:])
    table = console.table("term", "sum", "at the end", title=f"{task.name}: {task.text}")
    for name, values in shares.items():
        table.add_row(name, f"{float(values.sum()):.2f}", f"{float(values[-1]):.2f}")
    table.add_row("reward", f"{float(rewards.sum()):.2f}", f"{float(rewards[-1]):.2f}", style="bold")
    out = console.output()
    out.print(table)
    median = sorted(policy.seconds)[len(policy.seconds) // 2]
    ended = "ended by the task" if episode.terminated else "cut off"
    out.print(f"{len(episode)} decisions, {ended}; {1e3 * median:.0f} ms each")
    if options.picture is not None:
        rows, deviation = imagined_rows(model, episode.symbols[0], episode.actions)
        subject = "red" if all(u == "red" for u in _subjects(task)) else "blue"
        write_text(
            options.picture,
            rollout_picture(model.layout, episode.symbols, rows, deviation, task.text or task.name, subject),
        )
        out.print(f"drawn {options.picture}", markup=False, soft_wrap=True)
    if options.json is not None:
        figures = {"task": task.name, "rewards": [round(float(r), 4) for r in rewards], "median_decision_s": median}
        write_json(options.json, {**figures, "terminated": episode.terminated, "provenance": provenance(options.seed)})
    return 0


def _model(path: Path | None) -> WorldModel:
    """The named model, or the one that ships."""
    from keygrasp.worldmodel.loading import default_model, load_model

    return load_model(default_model() if path is None else path)


def _task(path: Path) -> FileTask:
    from keygrasp.worldmodel.task_files import load_task

    return load_task(path)


def _scripted_task(path: Path) -> FileTask:
    from keygrasp.worldmodel.scripts import EXPERTS

    task = _task(path)
    if task.name not in EXPERTS:
        raise ConfigurationError(f"{path}: no scripted expert for '{task.name}'", f"Known: {', '.join(EXPERTS)}")
    return task


def _subjects(task: FileTask) -> list[str]:
    return [str(dict(use.arguments)["object"]) for use in task.terms if "object" in dict(use.arguments)]


def _plain(config: Any) -> Json:
    return dict(dataclasses.asdict(config))
