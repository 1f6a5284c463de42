"""What a report says, as plain values: no images, planners or worlds are needed to render it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from keygrasp.protocol.statistics import wilson_interval

#: Columns of the main table in their order: key in the results, heading, what it means.
RATE_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("single_shot", "Single-shot", "One image, one grasp, executed once."),
    ("up_to_three", "Up to three", "After a failure a new image and a new plan, three attempts at most."),
    ("tail", "Tail", "Scenes on which the reference planner finds nothing or fails; same images and seeds."),
    ("tail_graspable", "Tail, graspable", "Tail scenes on which the oracle or any planner of this run succeeded."),
    ("kept", "Kept", "Scenes on which the reference planner succeeds."),
    ("robust", "Robust", "Grasps that succeed in at least nine of ten perturbed executions."),
    ("no_candidate", "No candidate", "Scenes on which the planner proposed nothing; fewer is better."),
)


@dataclass(frozen=True)
class Rate:
    """Successes of trials with a 95% interval.

    Attributes:
        successes: How many succeeded.
        trials: How many were made; 0 where the measure was not taken.
        low: Lower end of the interval in [0, 1].
        high: Upper end.
    """

    successes: int
    trials: int
    low: float
    high: float

    @classmethod
    def of(cls, successes: int, trials: int, interval: tuple[float, float] | None = None) -> Rate:
        """A rate with the given interval, or Wilson's where none is given."""
        low, high = interval if interval is not None else wilson_interval(successes, trials)
        return cls(successes, trials, low, high)

    @property
    def value(self) -> float:
        """Share of successes; 0 without trials."""
        return self.successes / self.trials if self.trials else 0.0


@dataclass(frozen=True)
class PlannerSummary:
    """One planner's figures.

    Attributes:
        name: Planner's name.
        rates: By key of :data:`RATE_COLUMNS`; missing keys were not measured.
        categories: Single-shot rate by category of object.
        causes: Number of single-shot failures by outcome, most frequent first.
        plan_ms: ``p50`` and ``p99`` milliseconds from image to grasp.
        trial_s: ``p50`` and ``p99`` seconds a trial.
        evaluations: Median of the network evaluations a plan; 0 where there is no network.
        costs_s: Seconds in all by what they were spent on (``scene``, ``planning``, ``physics``).
        stated: Worth of the stated success probability (``brier_skill``, ``auroc``, ``success_at_90``); empty where
            the planner states none.
        against: Paired difference in single-shot success to the reference with its 95% interval, as shares.
    """

    name: str
    rates: dict[str, Rate]
    categories: dict[str, Rate] = field(default_factory=dict)
    causes: dict[str, int] = field(default_factory=dict)
    plan_ms: dict[str, float] = field(default_factory=dict)
    trial_s: dict[str, float] = field(default_factory=dict)
    evaluations: float = 0.0
    costs_s: dict[str, float] = field(default_factory=dict)
    stated: dict[str, float] = field(default_factory=dict)
    against: tuple[float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture of a trial.

    Attributes:
        planner: Heading under which it stands: whose failure it is, or what the object is an example of.
        title: Name and category of the object.
        detail: How it ended, in words.
        png: The picture as a PNG file's bytes.
        caption: The same in a few words, for a sheet of many pictures.
    """

    planner: str
    title: str
    detail: str
    png: bytes
    caption: str = ""


@dataclass(frozen=True)
class Spent:
    """Where the trials of one planner went, by how difficult the objects turned out to be.

    Attributes:
        planner: Whose trials.
        scheduler: Who decided.
        bins: Share of successes in words, objects, and their trials; from objects that always failed to those that
            never did.
        alike: Objects that were tried more than once, always with the same end: they taught least.
        untried: Objects that were never tried.
        pictures: Examples of easy, hard and telling objects.
    """

    planner: str
    scheduler: str
    bins: tuple[tuple[str, int, int], ...]
    alike: int
    untried: int
    pictures: tuple[Picture, ...] = ()

    @property
    def trials(self) -> int:
        """Trials in all."""
        return sum(trials for _, _, trials in self.bins)


@dataclass(frozen=True)
class Report:
    """Everything that a report shows.

    Attributes:
        title: Heading of the page.
        setting: What was run, as names and values in their order (rule, split, robot …).
        planners: One summary a planner, in the order in which they were asked for.
        provenance: Machine, versions, command, seed and date, see :func:`keygrasp.provenance.provenance`.
        pictures: Failures, grouped by planner in the page.
        notices: What a reader must know before the figures (a run that was stopped, trials with faults).
        intervals: What the 95% intervals of shares are.
        spent: Where trials went; ``None`` where each object was tried once.
    """

    title: str
    setting: dict[str, str]
    planners: tuple[PlannerSummary, ...]
    provenance: dict[str, Any]
    pictures: tuple[Picture, ...] = ()
    notices: tuple[str, ...] = ()
    intervals: str = "Wilson's"
    spent: Spent | None = None

    @property
    def categories(self) -> tuple[str, ...]:
        """All categories, the most frequent first."""
        counts: dict[str, int] = {}
        for planner in self.planners:
            for name, rate in planner.categories.items():
                counts[name] = max(counts.get(name, 0), rate.trials)
        return tuple(sorted(counts, key=lambda name: (-counts[name], name)))

    @property
    def causes(self) -> tuple[str, ...]:
        """All causes of failure, the most frequent first."""
        counts: dict[str, int] = {}
        for planner in self.planners:
            for name, count in planner.causes.items():
                counts[name] = counts.get(name, 0) + count
        return tuple(sorted(counts, key=lambda name: (-counts[name], name)))
