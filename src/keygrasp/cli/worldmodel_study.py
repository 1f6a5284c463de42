"""``keygrasp worldmodel study``: a model of one task's data on other tasks, against other ways to learn them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from keygrasp.cli import console, steps
from keygrasp.errors import EXIT_INTERRUPTED, ConfigurationError
from keygrasp.files import write_json
from keygrasp.provenance import provenance

if TYPE_CHECKING:
    from keygrasp.sim.tabletop import Tabletop
    from keygrasp.worldmodel.episodes import Episode
    from keygrasp.worldmodel.study import Contender, StudyConfig
    from keygrasp.worldmodel.task_files import FileTask
    from keygrasp.worldmodel.training import TrainConfig

Json = dict[str, Any]
Paths = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="[PATH ...]", help_behavior_hint="")]


@dataclass(frozen=True)
class Study:
    """Evaluate a model of one task's data on other tasks, without one further step in the workspace.

    For each seed a model is trained, and on each task planned with; beside it stand random actions, the scripted
    expert, the old task's policy, Q-networks that are retrained in imagination with the task's code, and with a reward
    head that is refitted. Finished runs are kept in the journal: the same command goes on where it was stopped.
    """

    data: Path
    """Folder of episodes."""
    task: Paths
    """Task files."""
    journal: Path
    """File that keeps finished runs; the models are kept beside it."""
    old_task: Path = Path("tasks/reach_red.yaml")
    """Task file of the old policy."""
    conditions: console.Names = ()
    """Conditions to run; all where none is named."""
    behaviours: console.Names = ()
    """Learn from episodes of these behaviours alone; of all where none is named."""
    held_out: int = 40
    """Episodes, evenly taken, on which predictions are scored."""
    seeds: int = 5
    """Models."""
    episodes: int = 3
    """Scenes a seed and task."""
    updates: int = 1000
    """Gradient steps of a model over pieces of episodes, after those over single actions."""
    imagination: int = 2000
    """Gradient steps of a Q-network."""
    scratch: int = 5000
    """Steps in the workspace of what learns from scratch."""
    json: console.OptionalPath = None
    """Also write the figures to this file."""


def run_study(options: Study) -> int:
    """Run it; returns the exit status."""
    from keygrasp.trials.journal import Journal
    from keygrasp.worldmodel.qlearning import QConfig
    from keygrasp.worldmodel.study import CONDITIONS, StudyConfig
    from keygrasp.worldmodel.task_files import load_task
    from keygrasp.worldmodel.training import TrainConfig

    conditions = tuple(dict.fromkeys(options.conditions)) or CONDITIONS
    for name in conditions:
        if name not in CONDITIONS:
            raise ConfigurationError(f"unknown condition '{name}'", f"Known: {', '.join(CONDITIONS)}")
    if options.seeds < 1 or options.episodes < 1:
        raise ConfigurationError("study: give at least 1 seed and 1 episode")
    tasks = [load_task(path) for path in options.task]
    learned, held = _split(options)
    config = StudyConfig(
        seeds=options.seeds,
        episodes=options.episodes,
        imagination=QConfig(updates=options.imagination),
        scratch_steps=options.scratch,
    )
    training = TrainConfig(updates=options.updates)
    identity = {
        "decisions": sum(map(len, learned)),
        "training": dataclasses.asdict(training),
        "study": dataclasses.asdict(dataclasses.replace(config, seeds=0)),
        "old_task": options.old_task.stem,
    }
    with Journal(options.journal, identity) as book:
        try:
            for record in _runs(options, tasks, conditions, learned, held, config, training, book.records):
                book.append([record])
        except KeyboardInterrupt:
            console.progress_output().print(f"keygrasp: stopped; finished runs are kept in {options.journal}")
            return EXIT_INTERRUPTED
        return _report(options, [task.name for task in tasks], conditions, book.records, identity)


def _split(options: Study) -> tuple[list[Episode], list[Episode]]:
    from keygrasp.worldmodel.episodes import read_episodes, split
    from keygrasp.worldmodel.layout import Layout

    learned, held = split(read_episodes(options.data, Layout()), options.held_out)
    learned = [e for e in learned if not options.behaviours or e.behaviour in options.behaviours]
    if not learned:
        raise ConfigurationError(f"{options.data} has no episodes of {', '.join(options.behaviours)}")
    return learned, held


def _runs(
    options: Study,
    tasks: list[FileTask],
    conditions: tuple[str, ...],
    learned: list[Episode],
    held: list[Episode],
    config: StudyConfig,
    training: TrainConfig,
    known: list[Json],
) -> Iterator[Json]:
    """Records that are missing in the journal, as they are made."""
    from keygrasp.sim.tabletop import Tabletop

    have = {(r["condition"], r["task"], r["seed"]) for r in known}
    total = options.seeds * (1 + len(tasks) * len(conditions))
    with Tabletop() as workspace, steps.StepBar("runs") as bar:
        for seed in range(options.seeds):
            wanted = [(c, t) for t in tasks for c in conditions if (c, t.name, seed) not in have]
            if not wanted and ("model", "", seed) in have:
                continue
            contender, record = _contender(options, learned, held, config, training, seed)
            if ("model", "", seed) not in have:
                have.add(("model", "", seed))
                yield record
            for condition, task in wanted:
                yield _timed(workspace, contender, condition, task)
                have.add((condition, task.name, seed))
                bar.update(len(have), total, {})


def _timed(workspace: Tabletop, contender: Contender, condition: str, task: FileTask) -> Json:
    from keygrasp.worldmodel.study import run_one

    begun, used = time.monotonic(), time.process_time()
    record = run_one(workspace, contender, condition, task)
    seconds = {"seconds": round(time.monotonic() - begun, 1), "processor_s": round(time.process_time() - used, 1)}
    return {**record, **seconds}


def _contender(
    options: Study,
    learned: list[Episode],
    held: list[Episode],
    config: StudyConfig,
    training: TrainConfig,
    seed: int,
) -> tuple[Contender, Json]:
    """The model of a seed, from its file where there is one, and the record of it."""
    from keygrasp.worldmodel.ensemble import Ensemble
    from keygrasp.worldmodel.evaluation import symbol_scores
    from keygrasp.worldmodel.study import Contender
    from keygrasp.worldmodel.task_files import load_task
    from keygrasp.worldmodel.training import train

    path = options.journal.with_name(f"{options.journal.stem}-model-{seed}.safetensors")
    begun, used = time.monotonic(), time.process_time()
    if path.exists():
        model = Ensemble.load(path)
    else:
        with steps.StepBar(f"updates of model {seed}") as bar:
            model = train(learned, dataclasses.replace(training, seed=seed), progress=bar.update)
        model.save(path)
    record = {
        "condition": "model",
        "task": "",
        "seed": seed,
        "seconds": round(time.monotonic() - begun, 1),
        "processor_s": round(time.process_time() - used, 1),
        "scores": [dataclasses.asdict(s) for s in symbol_scores(model, held)] if held else [],
    }
    return Contender(model, learned, load_task(options.old_task), config, seed), record


def _report(options: Study, tasks: list[str], conditions: tuple[str, ...], records: list[Json], identity: Json) -> int:
    import numpy as np

    from keygrasp.worldmodel.study import summary

    found = summary(records, tasks, [c for c in conditions if c not in ("random", "expert")])
    table = console.table("task", *found, title="normalised return: 0 random actions, 1 the expert; mean of seeds")
    for task in tasks:
        cells = [found[c]["tasks"].get(task, {}).get("mean") for c in found]
        table.add_row(task, *("–" if v is None else f"{v:.2f}" for v in cells))
    table.add_row("mean", *(f"{found[c]['mean']:.2f}" for c in found), style="bold")
    table.add_row("mean, each at most 1", *(f"{found[c]['capped_mean']:.2f}" for c in found))
    out = console.output()
    out.print(table)
    gaps = [gap for r in records if r["condition"] == "plan" for gap in r["predicted_minus_realised"]]
    if gaps:
        out.print(f"predicted minus realised reward a decision: {np.mean(gaps):+.3f} ± {np.std(gaps):.3f}")
    if options.json is not None:
        gap = {"mean": float(np.mean(gaps)), "sd": float(np.std(gaps)), "pieces": len(gaps)} if gaps else None
        data = {"normalised": found, "predicted_minus_realised": gap, "config": identity, "records": records}
        write_json(options.json, {**data, "provenance": provenance(0)})
    return 0
