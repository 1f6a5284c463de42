"""From records to the figures that KG-1 asks for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from keygrasp.protocol import PROTOCOL, statistics
from keygrasp.scene import Outcome
from keygrasp.trials.config import TrialsConfig
from keygrasp.trials.records import TrialRecord

Json = dict[str, Any]
Records = Sequence[TrialRecord]

_COVERAGE = 0.9
#: Below so many objects a bootstrap says little, and the interval is Wilson's.
_FEW_OBJECTS = 10
#: What an interval is by.
BOOTSTRAP, WILSON = "bootstrap", "wilson"


def rate(records: Iterable[TrialRecord], succeeded: Callable[[TrialRecord], bool], seed: int = 0) -> Json:
    """The rate of records that ``succeeded``; see :func:`rate_of`."""
    chosen = list(records)
    return rate_of([succeeded(record) for record in chosen], [record.object_name for record in chosen], seed)


def rate_of(values: Sequence[bool], objects: Sequence[str], seed: int = 0) -> Json:
    """``successes``, ``trials``, ``rate`` (``None`` without trials), the 95% ``interval`` and what it is ``by``."""
    successes, trials = sum(values), len(values)
    alike = successes in (0, trials)  # every resample would then be the same
    if alike or len(set(objects)) < _FEW_OBJECTS:
        by, interval = WILSON, statistics.wilson_interval(successes, trials)
    else:
        by, interval = BOOTSTRAP, statistics.bootstrap_interval(values, objects, seed=seed)
    return {
        "successes": successes,
        "trials": trials,
        "rate": successes / trials if trials else None,
        "interval": list(interval),
        "by": by,
    }


def intervals_in_words(rates: Iterable[Json | None]) -> str:
    """What the 95% intervals of rates are, as :func:`rate_of` chose it for each; earlier files don't tell."""
    used = {rate.get("by") for rate in rates if rate and rate["trials"]}
    if used == {BOOTSTRAP}:
        return "bootstrap over objects"
    if used == {WILSON}:
        return f"Wilson's, as objects are fewer than {_FEW_OBJECTS} or all outcomes alike"
    return f"bootstrap over objects; Wilson's where they are fewer than {_FEW_OBJECTS} or all outcomes alike"


def summarise(config: TrialsConfig, records: Records) -> Json:
    """The summary of every planner, by name, in the order of the configuration.

    Scenes that could not be made are left out of every rate and counted in ``scenes_not_built``. A trial that could
    not be carried out (``faults``) counts as failed.
    """
    built = [record for record in records if not record.scene_fault]
    by_planner: dict[str, dict[int, TrialRecord]] = defaultdict(dict)
    for record in built:
        by_planner[record.planner][record.scene] = record
    # A scene on which the reference could not even be tried belongs to neither set.
    reference = {scene: record for scene, record in by_planner["reference"].items() if record.attempts}
    tail = {scene for scene, record in reference.items() if not record.single_shot}
    kept = set(reference) - tail
    graspable = {record.scene for record in built if record.up_to}
    skipped = len({record.scene for record in records if record.scene_fault})
    return {
        spec.name: {
            "planner": spec.name,
            **_planner_summary(config, list(by_planner[spec.name].values()), tail, kept, graspable),
            "scenes_not_built": skipped,
            "against_reference": _against(list(by_planner[spec.name].values()), reference, config.seed),
        }
        for spec in config.planners
    }


def _planner_summary(
    config: TrialsConfig, records: Records, tail: set[int], kept: set[int], graspable: set[int]
) -> Json:
    def single(record: TrialRecord) -> bool:
        return record.single_shot

    seed = config.seed
    on_tail = [record for record in records if record.scene in tail]
    executed = [record for record in records if record.robust_trials]
    return {
        "robot": config.robot,
        "rule": config.rule,
        "split": config.split if config.source == "embedded" and not config.names else None,
        "source": config.source,
        "seed": seed,
        "protocol": PROTOCOL.name,
        "single_shot": rate(records, single, seed),
        "up_to_three": rate(records, lambda record: record.up_to, seed) if config.up_to > 1 else None,
        "tail": rate(on_tail, single, seed),
        "tail_graspable": rate((r for r in on_tail if r.scene in graspable), single, seed),
        "kept": rate((r for r in records if r.scene in kept), single, seed),
        # "successes" are here the scenes without a candidate, so that all shares read alike.
        "no_candidate": rate(records, lambda record: record.first.outcome == Outcome.NO_GRASP, seed),
        "robust": rate(executed, lambda r: r.robust_successes >= PROTOCOL.robust_successes, seed)
        if config.robust
        else None,
        "plan_ms": percentiles([r.first.plan_ms for r in records if r.attempts]),
        "trial_s": percentiles([r.build_s + r.first.plan_ms / 1e3 + r.first.execute_s for r in records if r.attempts]),
        "evaluations": percentiles([r.first.evaluations for r in records if r.attempts]),
        "steps": percentiles([max(0, len(r.first.path) - 1) for r in records if r.attempts]),
        "outcomes": dict(sorted(Counter(record.first.outcome for record in records).items())),
        "unreachable": sum(record.first.outcome == Outcome.UNREACHABLE for record in records),
        "faults": sum(bool(record.fault) for record in records),
        "probability": worth_of_stated(records),
        "categories": _by_category(records, seed),
    }


def percentiles(values: Sequence[float]) -> Json:
    """``p50`` and ``p99``; ``None`` without values."""
    if not values:
        return {"p50": None, "p99": None}
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": float(p50), "p99": float(p99)}


def worth_of_stated(records: Records) -> Json | None:
    """Worth of the stated probabilities on executed first grasps; ``None`` where the planner states none."""
    stated = [(r.first.probability, r.single_shot) for r in records if r.first.probability is not None]
    if not stated:
        return None
    probabilities, outcomes = zip(*stated, strict=True)
    return {
        "trials": len(stated),
        "brier": statistics.brier_score(probabilities, outcomes),
        "brier_skill": statistics.brier_skill(probabilities, outcomes),
        "auroc": statistics.auroc(probabilities, outcomes),
        "success_at_90_coverage": statistics.success_at_coverage(probabilities, outcomes, _COVERAGE),
    }


def _by_category(records: Records, seed: int) -> Json:
    groups: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        groups[record.category or "unknown"].append(record)
    return {name: rate(group, lambda record: record.single_shot, seed) for name, group in sorted(groups.items())}


def _against(records: Records, reference: dict[int, TrialRecord], seed: int) -> Json | None:
    """Paired difference in single-shot success, this planner minus the reference."""
    pairs = [(reference[r.scene].single_shot, r.single_shot, r.object_name) for r in records if r.scene in reference]
    if not pairs:
        return None
    first, second, objects = zip(*pairs, strict=True)
    difference, interval = statistics.paired_difference(first, second, objects, seed=seed)
    return {"difference": difference, "interval": list(interval), "trials": len(pairs)}
