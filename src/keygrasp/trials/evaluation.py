"""The whole table of KG-1: planners, rules and seeds as several runs of trials, each with its own journal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from keygrasp.errors import ConfigurationError
from keygrasp.objects import Rule
from keygrasp.protocol import RobotName
from keygrasp.trials.config import SplitName, TrialsConfig
from keygrasp.trials.journal import config_hash
from keygrasp.trials.planners import FACTORIES, PlannerSpec, planner_spec
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.report_reading import JOURNAL_FILE, read_journal
from keygrasp.trials.running import Progress, run_trials
from keygrasp.trials.scheduling import in_tail

Json = dict[str, Any]

#: Seconds after which a scene counts as hung: the oracle may search for minutes.
_TIMEOUT_S = 3600.0
#: The planner under test, and the rule whose tail is the headline.
PRODUCT, HEADLINE = "refined", "E"


@dataclass(frozen=True)
class EvaluationConfig:
    """What the table is made of.

    Attributes:
        rules: Scaling rules.
        seeds: Evaluation seeds.
        objects: Objects of the split, with one pose each.
        tail: Scenes of the tail of rule E for each seed (T300), for which further poses are drawn; 0 leaves it at the
            tail of the first poses, as it is for the other rules.
        poses: Most poses of an object that are drawn for that.
        weights: Weights of trainings with different seeds; none are the shipped ones. The controls use the first.
        controls: Planners beside ``reference`` and ``refined``.
        robust_objects: Objects of each rule on which grasps of ``refined`` are also executed ten times with errors; 0
            leaves that out.
        ceiling: Whether the oracle searches where everybody failed, for what is graspable at all.
        split: Which objects of the embedded set.
        robot: Who executes.
        workers: Worker processes; 0 is one a core.
    """

    rules: tuple[Rule, ...] = ("E", "A")
    seeds: tuple[int, ...] = (0, 1, 2)
    objects: int = 300
    tail: int = 300
    poses: int = 8
    weights: tuple[Path, ...] = ()
    controls: tuple[str, ...] = ("geometric", "cem", "argmax")
    robust_objects: int = 100
    ceiling: bool = True
    split: SplitName = "test"
    robot: RobotName = "gripper"
    workers: int = 0

    def __post_init__(self) -> None:
        for name in ("rules", "seeds", "controls", "weights"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ConfigurationError(f"evaluate: {name} has something twice", "Name each once")
        if not self.rules or not self.seeds:
            raise ConfigurationError("evaluate: there must be a rule and a seed", "Give --rules and --seeds")
        if any(rule not in get_args(Rule) for rule in self.rules):
            raise ConfigurationError(f"evaluate: rules are {', '.join(self.rules)}", "Known: E, A, none")
        wrong = sorted({*self.controls} & {"reference", PRODUCT, "oracle"})
        if wrong:
            raise ConfigurationError(f"evaluate: {wrong[0]} is no control", "It is in the table already")
        missing = [path for path in self.weights if not path.is_file()]
        if missing:
            raise ConfigurationError(f"evaluate: there are no weights at {missing[0]}", "Check --weights")
        if self.robust_objects < 0:
            raise ConfigurationError(f"evaluate: robust_objects is {self.robust_objects}", "It must be at least 0")
        self.parts()  # what is wrong with a run is said before the first begins

    @property
    def products(self) -> tuple[PlannerSpec, ...]:
        """``refined`` with each of the weights; from the second on with their number in the name."""
        if not self.weights:
            return (planner_spec(PRODUCT),)
        names = (PRODUCT, *(f"{PRODUCT}-{number}" for number in range(2, len(self.weights) + 1)))
        return tuple(
            PlannerSpec(name, FACTORIES[PRODUCT], {"kind": PRODUCT, "weights": str(path)})
            for name, path in zip(names, self.weights, strict=True)
        )

    def parts(self) -> tuple[Part, ...]:
        """The runs, in the order in which they are made."""
        found = []
        for rule in self.rules:
            found += [Part(f"{rule}-seed{seed}", rule, seed, self._main(rule, seed)) for seed in self.seeds]
            if self.robust_objects:
                found += [Part(f"{rule}-robust-seed{s}", rule, s, self._robust(rule, s), True) for s in self.seeds]
        return tuple(found)

    def _main(self, rule: Rule, seed: int) -> TrialsConfig:
        controls = tuple(self._control(name) for name in self.controls)
        tail = self.tail if rule == HEADLINE else 0
        return TrialsConfig(
            planners=(planner_spec("reference"), *controls, *self.products),
            objects=self.objects,
            rule=rule,
            split=self.split,
            robot=self.robot,
            seed=seed,
            poses=self.poses if tail else 1,
            tail=tail,
            ceiling=self.ceiling,
            robust=False,
            workers=self.workers,
            timeout_s=_TIMEOUT_S,
        )

    def _robust(self, rule: Rule, seed: int) -> TrialsConfig:
        return dataclasses.replace(
            self._main(rule, seed),
            planners=(planner_spec("reference"), *self.products),
            objects=min(self.robust_objects, self.objects),
            poses=1,
            tail=0,
            ceiling=False,
            up_to=1,
            robust=True,
        )

    def _control(self, name: str) -> PlannerSpec:
        learned = FACTORIES.get(name, "").startswith("keygrasp.refine.")
        return planner_spec(name, weights=str(self.weights[0])) if learned and self.weights else planner_spec(name)


@dataclass(frozen=True)
class Part:
    """One run of an evaluation.

    Attributes:
        name: Folder of its journal.
        rule: Scaling rule.
        seed: Evaluation seed.
        config: The run.
        robust: Whether it is the run of the perturbed executions.
    """

    name: str
    rule: Rule
    seed: int
    config: TrialsConfig
    robust: bool = False


@dataclass(frozen=True)
class PartRecords:
    """A part with the trials that there are of it: fewer than asked for where the evaluation was stopped."""

    part: Part
    records: tuple[TrialRecord, ...]


def run_evaluation(
    config: EvaluationConfig, folder: Path, on_progress: Callable[[int, Part, Progress], None] | None = None
) -> tuple[PartRecords, ...]:
    """Make all parts, or go on with those that were begun.

    Args:
        config: What to do.
        folder: Where the journals lie.
        on_progress: Told the part's number, the part, and where its run stands.

    Raises:
        KeyboardInterrupt: On Ctrl-C; what is done stays in the journals.
        ConfigurationError: If the folder holds another evaluation.
    """
    done = []
    for number, part in enumerate(config.parts(), start=1):

        def report(state: Progress, number: int = number, part: Part = part) -> None:
            if on_progress is not None:
                on_progress(number, part, state)

        results = run_trials(part.config, report, journal=folder / part.name / JOURNAL_FILE)
        done.append(PartRecords(part, results.records))
    return tuple(done)


def read_evaluation(config: EvaluationConfig, folder: Path) -> tuple[PartRecords, ...]:
    """What there is of an evaluation that was stopped or is still running.

    Raises:
        ConfigurationError: If the folder holds another evaluation.
    """
    found = []
    for part in config.parts():
        journal = folder / part.name / JOURNAL_FILE
        if not journal.is_file():
            continue
        identity, records = read_journal(journal)
        if config_hash(identity) != config_hash(part.config.identity()):
            raise ConfigurationError(f"{journal} is of another evaluation", "Choose another folder with --out")
        found.append(PartRecords(part, records))
    return tuple(found)


def is_whole(found: PartRecords) -> bool:
    """Whether all scenes of a part have been tried."""
    config = found.part.config
    done = len({record.scene for record in found.records})
    if config.tail == 0:
        return done >= config.expected_scenes()
    return sum(map(in_tail, found.records)) >= config.tail or done >= config.expected_scenes()
