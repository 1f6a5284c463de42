"""Where trials went: objects by how difficult they turned out to be, and examples of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from keygrasp.trials.config import judged_planner
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.report_model import Spent

Json = dict[str, Any]

#: Objects that are shown of each kind.
_SHOWN = 3
#: Shares of successes: upper ends of the bins between never and always.
_BINS = (0.2, 0.4, 0.6, 0.8, 1.0)


def spent_of(config: Json, records: Sequence[TrialRecord]) -> Spent | None:
    """Where the trials of the judged planner went; ``None`` where no object was tried twice, or no trials are at hand.

    Args:
        config: The run's identity.
        records: Its trials.
    """
    if not records:
        return None
    planner = judged_planner([spec["name"] for spec in config["planners"]])
    objects = list(_by_object(records, planner).values())
    if all(len(trials) < 2 for trials in objects):
        return None
    counts: dict[str, list[int]] = {label: [0, 0] for label in _labels()}
    for trials in objects:
        label = _label(trials)
        counts[label][0] += 1
        counts[label][1] += len(trials)
    asked = len(config["names"]) or int(config["objects"])
    return Spent(
        planner=planner,
        scheduler=str(config.get("scheduler", "all")),
        bins=tuple((label, seen, trials) for label, (seen, trials) in counts.items()),
        alike=sum(len(trials) > 1 and _rate(trials) in (0.0, 1.0) for trials in objects),
        untried=max(0, asked - len(objects)),
    )


def telling_records(records: Sequence[TrialRecord], planner: str) -> list[tuple[str, TrialRecord]]:
    """Trials that show the easiest, the hardest and the most telling objects, under these headings.

    Most telling are those that succeed about every other time; of equal ones those with more trials. None that always
    succeeds counts as hard, none that never does as easy, and neither as telling.
    """
    objects = [trials for trials in _by_object(records, planner).values() if len(trials) > 1]
    objects.sort(key=len, reverse=True)
    kinds: dict[str, tuple[Callable[[float], bool], Callable[[float], float]]] = {
        "Easiest objects": (lambda rate: rate > 0, lambda rate: -rate),
        "Hardest objects": (lambda rate: rate < 1, lambda rate: rate),
        "Most telling objects": (lambda rate: 0 < rate < 1, lambda rate: abs(rate - 0.5)),
    }
    found = []
    for heading, (fits, rank) in kinds.items():
        ranked = sorted((rank(_rate(trials)), place) for place, trials in enumerate(objects) if fits(_rate(trials)))
        found += [(heading, objects[place][0]) for _, place in ranked[:_SHOWN]]
    return found


def _by_object(records: Sequence[TrialRecord], planner: str) -> dict[str, list[TrialRecord]]:
    """Trials of one planner that were carried out, by object."""
    found: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.planner == planner and record.attempts:
            found[record.object_name].append(record)
    return found


def _rate(trials: Sequence[TrialRecord]) -> float:
    return sum(record.single_shot for record in trials) / len(trials)


def _labels() -> list[str]:
    low = (0.0, *_BINS[:-1])
    return ["never", *(f"{100 * a:.0f}–{100 * b:.0f}%" for a, b in zip(low, _BINS, strict=True)), "always"]


def _label(trials: Sequence[TrialRecord]) -> str:
    rate, labels = _rate(trials), _labels()
    if rate in (0.0, 1.0):
        return labels[-1] if rate else labels[0]
    return labels[1 + next(i for i, high in enumerate(_BINS) if rate <= high)]
