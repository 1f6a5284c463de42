"""Many trials: over worker processes, journalled, resumable."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keygrasp.files import write_json
from keygrasp.protocol import SceneSpec
from keygrasp.provenance import provenance
from keygrasp.trials.config import TrialsConfig
from keygrasp.trials.journal import Journal
from keygrasp.trials.pool import Done, run_tasks
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.scheduling import make_schedule
from keygrasp.trials.summary import summarise

Json = dict[str, Any]

_HANDLER = "keygrasp.trials.execution:build"


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    Attributes:
        done: Scenes that are finished, those of an earlier run included.
        total: Scenes in all.
        resumed: Scenes that an earlier run had finished.
        successes: Single-shot successes by planner.
        trials: Trials by planner (scenes that could not be made are left out).
        latest: Records of the scene that was finished last; empty at the start.
    """

    done: int
    total: int
    resumed: int
    successes: dict[str, int] = field(default_factory=dict)
    trials: dict[str, int] = field(default_factory=dict)
    latest: tuple[TrialRecord, ...] = ()


@dataclass(frozen=True)
class Results:
    """What a run found.

    Attributes:
        config: What was asked.
        records: One a planner and scene, sorted by scene and then in the planners' order.
        wall_s: Seconds that this run took (an earlier, interrupted part not included).
        provenance: Machine, versions, command, seed and date.
    """

    config: TrialsConfig
    records: tuple[TrialRecord, ...]
    wall_s: float
    provenance: Json

    def summary(self) -> Json:
        """KG-1's figures of every planner, by name, with where they come from."""
        return {
            "planners": summarise(self.config, self.records),
            "config": self.config.identity(),
            "wall_s": self.wall_s,
            "provenance": self.provenance,
        }

    def write_json(self, path: Path) -> None:
        """Write the summary, whole or not at all."""
        write_json(path, self.summary())


def run_trials(
    config: TrialsConfig, on_progress: Callable[[Progress], None] | None = None, *, journal: Path | None = None
) -> Results:
    """Try the planners of ``config`` on its scenes in worker processes.

    Results depend on ``config.identity()`` alone, not on the number of workers.

    Args:
        config: What to do.
        on_progress: Called at the start and after each scene.
        journal: File that keeps each finished scene; one that exists is resumed. ``None`` keeps nothing.

    Returns:
        All records, those of an earlier run of the same journal included.

    Raises:
        KeyboardInterrupt: On Ctrl-C; what is in the journal stays, and workers are stopped.
        ConfigurationError: If the journal is of another configuration, or a planner is unknown.
        StorageError: If the journal can't be written; what was written before is intact.
        WorkerError: If workers don't start.
        InputError: If there are too few objects, or the journal is damaged or in use.
    """
    start = time.perf_counter()
    scenes = config.scenes()
    if journal is None:
        done, fresh = _run(config, scenes, {}, None, on_progress)
    else:
        with Journal(journal, config.identity()) as book:
            earlier = _finished(config, (TrialRecord.from_json(data) for data in book.records))
            done, fresh = _run(config, scenes, earlier, book, on_progress)
    records = tuple(record for scene in sorted(done) for record in done[scene])
    wall = time.perf_counter() - start
    return Results(config, records, wall, {**provenance(config.seed), "scenes_run_now": fresh})


def _run(
    config: TrialsConfig,
    scenes: tuple[SceneSpec, ...],
    earlier: dict[int, tuple[TrialRecord, ...]],
    book: Journal | None,
    on_progress: Callable[[Progress], None] | None,
) -> tuple[dict[int, tuple[TrialRecord, ...]], int]:
    """Do what is missing; returns records by scene, and how many scenes were done now."""
    done: dict[int, tuple[TrialRecord, ...]] = {}
    fresh = 0
    schedule = make_schedule(config, scenes)

    def report(latest: tuple[TrialRecord, ...]) -> None:
        if on_progress is not None:
            known = {**earlier, **done}
            on_progress(_progress(known, max(len(known), schedule.expected()), len(earlier), latest))

    report(())
    while chosen := schedule.next_round():
        done.update((index, earlier[index]) for index in chosen if index in earlier)
        missing = [index for index in chosen if index not in earlier]
        with closing(_carry_out(config, scenes, missing)) as ends:
            for index, records in ends:
                if book is not None:
                    book.append([record.to_json() for record in records])
                done[index] = records
                report(records)
        fresh += len(missing)
        schedule.learn(done, chosen)
    return done, fresh


def _carry_out(
    config: TrialsConfig, scenes: tuple[SceneSpec, ...], chosen: list[int]
) -> Generator[tuple[int, tuple[TrialRecord, ...]], None, None]:
    """Try all planners on some scenes in worker processes; yields each scene's records as they come."""
    tasks = [
        {"scene": index, "spec": dataclasses.asdict(scenes[index]), "only_tail": config.only_tail(index)}
        for index in chosen
    ]
    setup = {
        "planners": [dataclasses.asdict(spec) for spec in config.planners],
        "robot": config.robot,
        "up_to": config.up_to,
        "robust": config.robust,
        "ceiling": config.ceiling,
    }
    with closing(run_tasks(_HANDLER, setup, tasks, workers=config.processes, timeout_s=config.timeout_s)) as ends:
        for end in ends:
            index = chosen[end.index]
            yield index, _records_of(config, index, scenes[index], end)


def _records_of(config: TrialsConfig, index: int, spec: SceneSpec, end: Done) -> tuple[TrialRecord, ...]:
    if end.result is not None:
        return tuple(TrialRecord.from_json(data) for data in end.result["records"])
    return tuple(
        TrialRecord(
            scene=index,
            object_name=spec.object_name,
            category="",
            rule=spec.rule,
            source=spec.source,
            seed=spec.seed,
            robot=config.robot,
            planner=planner.name,
            fault=end.problem,
        )
        for planner in config.planners
    )


def _finished(config: TrialsConfig, records: Iterable[TrialRecord]) -> dict[int, tuple[TrialRecord, ...]]:
    """Scenes of a journal that are complete (a crash may have cut the last one short)."""
    by_scene: dict[int, dict[str, TrialRecord]] = defaultdict(dict)
    for record in records:
        by_scene[record.scene][record.planner] = record
    return {scene: tuple(found.values()) for scene, found in by_scene.items() if _complete(config, scene, found)}


def _complete(config: TrialsConfig, scene: int, found: dict[str, TrialRecord]) -> bool:
    """Whether a scene has a record of everybody who acts on it."""
    if config.only_tail(scene) and "reference" in found and found["reference"].single_shot:
        return True
    if any(spec.name not in found for spec in config.planners):
        return False
    return not config.ceiling or "oracle" in found or any(r.up_to or r.scene_fault for r in found.values())


def _progress(
    done: dict[int, tuple[TrialRecord, ...]], total: int, resumed: int, latest: tuple[TrialRecord, ...]
) -> Progress:
    successes: dict[str, int] = defaultdict(int)
    trials: dict[str, int] = defaultdict(int)
    for records in done.values():
        for record in records:
            if not record.scene_fault:
                trials[record.planner] += 1
                successes[record.planner] += record.single_shot
    return Progress(len(done), total, resumed, dict(successes), dict(trials), latest)
