"""What each part of the refiner is worth: trainings and searches with one thing changed, on validation objects.

Every variation stands against the first of its group, which changes nothing: trainings with several seeds, each tried
on the same scenes; searches with one set of weights, as planners of one run of trials. All of it resumes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keygrasp.configuration import config_from, load_config
from keygrasp.errors import ConfigurationError
from keygrasp.files import read_json
from keygrasp.protocol import statistics
from keygrasp.provenance import provenance
from keygrasp.refine.network import default_weights
from keygrasp.refine.refiner import RefinerConfig
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import train
from keygrasp.trials.config import TrialsConfig
from keygrasp.trials.planners import FACTORIES, PlannerSpec
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.report_reading import JOURNAL_FILE
from keygrasp.trials.running import run_trials
from keygrasp.trials.summary import percentiles, rate_of

Json = dict[str, Any]
#: Told what is being done, and how far that is: done, of how many.
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Variation:
    """Settings that differ from the base.

    Attributes:
        name: Its name in tables and folders.
        changes: Settings by name, nested ones as mappings; none in a group's first variation.
    """

    name: str
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AblationConfig:
    """What is varied, and how much is spent on it.

    Attributes:
        out: Folder for weights, journals and figures.
        training: Settings of a training (see ``keygrasp train``) of which the variations differ.
        trainings: Variations of it; the first is the base.
        steps: Gradient steps of each training; 0 leaves those of its settings.
        seeds: Seeds of the trainings.
        searches: Variations of how the refiner searches (fields of ``RefinerConfig``) with one set of weights; the
            first is the base.
        weights: These weights; the shipped ones where none are named.
        objects: Validation objects.
        scenes: Evaluation seeds, each with one scene an object.
        workers: Processes of trials; 0 is one a core.
    """

    out: Path = Path("runs/ablations")
    training: Path = Path("configs/refiner.yaml")
    trainings: tuple[Variation, ...] = ()
    steps: int = 0
    seeds: tuple[int, ...] = (0, 1, 2)
    searches: tuple[Variation, ...] = ()
    weights: Path | None = None
    objects: int = 100
    scenes: tuple[int, ...] = (101, 102, 103)
    workers: int = 0

    def __post_init__(self) -> None:
        if self.objects < 1 or self.steps < 0 or not self.scenes or (self.trainings and not self.seeds):
            raise ConfigurationError("ablations: objects, scenes and seeds must not be empty, nor steps negative")
        for group in (self.trainings, self.searches):
            names = [variation.name for variation in group]
            if len(set(names)) < len(names):
                raise ConfigurationError(f"ablations: names must differ: {', '.join(names)}", "Rename one of them")
            if group and group[0].changes:
                raise ConfigurationError(f"ablations: '{names[0]}' is first and so the base", "Let it change nothing")
            if any(not name.replace("-", "").replace("_", "").isalnum() for name in names):
                raise ConfigurationError("ablations: names are of letters, digits, - and _", "They name folders")
        for variation in self.searches:
            config_from(variation.changes, RefinerConfig, where=f"ablations: {variation.name}")


def run_ablations(config: AblationConfig, on_progress: OnProgress | None = None) -> Json:
    """Make what is missing, and give all figures.

    Ctrl-C loses at most what a training does between two checkpoints and one scene of trials.
    """
    tell = on_progress or (lambda what, done, total: None)
    found: Json = {}
    if config.searches:
        found["searches"] = _searches(config, tell)
    if config.trainings:
        found["trainings"] = _trainings(config, tell)
    plain = {**dataclasses.asdict(config), "out": str(config.out), "training": str(config.training)}
    plain["weights"] = str(config.weights) if config.weights else "shipped"
    return {**found, "config": plain, "provenance": provenance(config.scenes[0])}


def trainings_of(config: AblationConfig) -> Iterator[tuple[Variation, int, TrainConfig]]:
    """Every training: its variation, its seed and all its settings.

    Raises:
        ConfigurationError: If a variation has an unknown setting or a wrong value.
    """
    base = load_config(config.training, TrainConfig)
    plain = _plain(dataclasses.asdict(base))
    for variation in config.trainings:
        for seed in config.seeds:
            changed = _merged(plain, variation.changes)
            changed |= {"seed": seed, "out": str(config.out / f"{variation.name}-seed{seed}")}
            if config.steps:
                changed["steps"] = config.steps
            yield variation, seed, config_from(changed, TrainConfig, where=f"ablations: {variation.name}")


def _searches(config: AblationConfig, tell: OnProgress) -> Json:
    weights = str(config.weights or default_weights())
    specs = [_spec(each.name, {**each.changes, "weights": weights}) for each in config.searches]
    records = _trials(config, "searches", specs, tell)
    base = config.searches[0].name
    return {each.name: _figures([records[each.name]], [records[base]]) for each in config.searches}


def _trainings(config: AblationConfig, tell: OnProgress) -> Json:
    every = list(trainings_of(config))  # what is wrong with one is said before the first begins
    tried: dict[str, list[dict[tuple[int, int], TrialRecord]]] = {each.name: [] for each in config.trainings}
    reports: dict[str, list[Json]] = {each.name: [] for each in config.trainings}
    for variation, seed, settings in every:
        label = f"{variation.name}, seed {seed}"
        if not (settings.out / "report.json").is_file():
            train(settings, lambda step, _, s=settings, what=label: tell(f"steps of {what}", step, s.steps))  # type: ignore[misc]
        reports[variation.name].append(read_json(settings.out / "report.json"))
        weights = str(settings.out / "weights.safetensors")
        spec = _spec("refined", {"weights": weights})
        tried[variation.name].append(_trials(config, f"{variation.name}-seed{seed}", [spec], tell)["refined"])
    base = tried[config.trainings[0].name]
    return {
        name: {
            **_figures(runs, base),
            "shares": _means(reports[name], "shares"),
            "final": _means(reports[name], "final"),
            "labels": reports[name][0]["labels"],
        }
        for name, runs in tried.items()
    }


def _spec(name: str, options: Json) -> PlannerSpec:
    return PlannerSpec(name, FACTORIES["refined"], {"kind": "refined", **options})


def _trials(
    config: AblationConfig, folder: str, specs: Sequence[PlannerSpec], tell: OnProgress
) -> dict[str, dict[tuple[int, int], TrialRecord]]:
    """Records by planner, evaluation seed and scene."""
    found: dict[str, dict[tuple[int, int], TrialRecord]] = {spec.name: {} for spec in specs}
    for seed in config.scenes:
        trials = TrialsConfig(
            planners=tuple(specs), objects=config.objects, split="validation", seed=seed, up_to=1, robust=False,
            workers=config.workers,
        )  # fmt: skip
        what = f"scenes of {folder}, seed {seed}"
        journal = config.out / folder / f"scenes-{seed}" / JOURNAL_FILE
        results = run_trials(trials, lambda s, what=what: tell(what, s.done, s.total), journal=journal)  # type: ignore[misc]
        for record in results.records:
            if record.planner in found and not record.scene_fault:
                found[record.planner][seed, record.scene] = record
    return found


def _figures(
    runs: Sequence[dict[tuple[int, int], TrialRecord]], base: Sequence[dict[tuple[int, int], TrialRecord]]
) -> Json:
    """Success of some runs together, and paired with the base's run of the same seed."""
    records = [record for run in runs for record in run.values()]
    pairs = [(first[key], run[key]) for run, first in zip(runs, base, strict=True) for key in run if key in first]
    before, after = zip(*pairs, strict=True)
    difference, interval = statistics.paired_difference(
        [record.single_shot for record in before],
        [record.single_shot for record in after],
        [record.object_name for record in after],
    )
    return {
        "single_shot": rate_of([r.single_shot for r in records], [r.object_name for r in records]),
        "runs": [sum(record.single_shot for record in run.values()) for run in runs],
        "difference": {"difference": difference, "interval": list(interval), "trials": len(pairs)},
        "plan_ms": percentiles([record.first.plan_ms for record in records]),
        "evaluations": percentiles([record.first.evaluations for record in records]),
    }


def _means(reports: Sequence[Json], part: str) -> dict[str, float]:
    """Means over the seeds of what all reports have in one part."""
    names = set.intersection(*(set(report[part]) for report in reports))
    return {name: sum(report[part][name] for report in reports) / len(reports) for name in sorted(names)}


def _merged(settings: Json, changes: Json) -> Json:
    """Settings with changes; nested mappings are changed entry by entry."""
    result = dict(settings)
    for name, value in changes.items():
        nested = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = _merged(result[name], value) if nested else value
    return result


def _plain(value: Any) -> Any:
    """Settings as YAML has them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
