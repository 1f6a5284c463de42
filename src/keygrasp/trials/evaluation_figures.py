"""From the trials of an evaluation to the figures of its table, and to what they say of the targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keygrasp.objects import Rule
from keygrasp.protocol import PROTOCOL, statistics
from keygrasp.provenance import provenance
from keygrasp.scene import Outcome
from keygrasp.trials.evaluation import HEADLINE, PRODUCT, EvaluationConfig, PartRecords, is_whole
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.scheduling import in_tail
from keygrasp.trials.summary import percentiles, rate_of, worth_of_stated

Json = dict[str, Any]
Success = Callable[[TrialRecord], bool]
#: A scene of an evaluation: seed and index.
SceneKey = tuple[int, int]

#: Name of the row that takes the trainings together.
ALL_TRAININGS = f"{PRODUCT}, all trainings"
#: Stated probabilities between which failures are counted.
_BOUNDS = (0.3, 0.85)


@dataclass(frozen=True, eq=False)
class SceneSets:
    """The scenes of one rule over all seeds, and who did what on them.

    Attributes:
        trials: Records by planner and scene.
        first: Scenes of the first poses, from which the rates over all objects come.
        tail: Scenes on which the reference fails; of each seed at most as many as the evaluation asks for.
        kept: First poses on which the reference succeeds.
        graspable: Scenes on which anybody succeeded in any attempt, the oracle included.
    """

    trials: dict[str, dict[SceneKey, TrialRecord]]
    first: tuple[SceneKey, ...]
    tail: tuple[SceneKey, ...]
    kept: tuple[SceneKey, ...]
    graspable: frozenset[SceneKey]


def figures(config: EvaluationConfig, parts: Sequence[PartRecords]) -> Json:
    """All figures of an evaluation, JSON-ready."""
    rules: Json = {rule: _rule_figures(config, rule, parts) for rule in config.rules}
    return {
        "protocol": PROTOCOL.name,
        "config": {**asdict(config), "weights": [str(path) for path in config.weights]},
        "unfinished": _unfinished(config, parts),
        "rules": rules,
        "targets": targets(rules),
        "provenance": provenance(),
    }


def scene_sets(config: EvaluationConfig, rule: Rule, parts: Sequence[PartRecords]) -> SceneSets:
    """Sort the trials of a rule into first poses, tail, kept and graspable."""
    trials: dict[str, dict[SceneKey, TrialRecord]] = {}
    tail: list[SceneKey] = []
    for found in parts:
        if found.part.rule != rule or found.part.robust:
            continue
        failures = []
        for record in found.records:
            if record.scene_fault:
                continue
            key = (found.part.seed, record.scene)
            trials.setdefault(record.planner, {})[key] = record
            if in_tail(record):
                failures.append(key)
        tail += sorted(failures)[: found.part.config.tail or None]
    reference = trials.get("reference", {})
    first = tuple(sorted(key for key in reference if key[1] < config.objects))
    return SceneSets(
        trials,
        first,
        tuple(tail),
        tuple(key for key in first if reference[key].single_shot),
        frozenset(key for by_scene in trials.values() for key, record in by_scene.items() if record.up_to),
    )


def targets(rules: Json) -> list[Json]:
    """The targets of the refiner with what was measured; those that were not measured are left out.

    Those of planning's time are not among them: beside other workers a clock tells little (benchmarks/planning.py).
    """
    found: list[Json] = []

    def add(what: str, value: float | None, bound: float, *, above: bool = False) -> None:
        if value is not None:
            met = value > bound if above else value >= bound
            found.append({"target": what, "bound": bound, "above": above, "value": value, "met": met})

    easy = rules.get("A", {}).get("planners", {}).get(PRODUCT)
    if easy:
        add("rule A: single-shot", easy["single_shot"]["rate"], 0.98)
        add("rule A: kept", easy["kept"]["rate"], 0.99)
    main = rules.get(HEADLINE, {}).get("planners", {}).get(PRODUCT)
    if not main:
        return found
    add("rule E: single-shot", main["single_shot"]["rate"], 0.97)
    add("rule E: graspable tail, single-shot", main["tail_graspable"]["rate"], 0.95)
    add("rule E: graspable tail, up to three", main["tail_graspable_up_to_three"]["rate"], 0.995)
    add("rule E: kept", main["kept"]["rate"], 0.99)
    for control, data in main["against"].items():
        if control in ("argmax", "cem") and data["tail"]:
            add(f"rule E: tail, lower end of the gain over {control}", data["tail"]["interval"][0], 0.0, above=True)
    add("rule E: robust grasps", (main["robust"] or {}).get("rate"), 0.90)
    stated = main["probability"] or {}
    add("rule E: AUROC of failures", stated.get("auroc"), 0.80)
    add("rule E: success at 90% coverage", stated.get("success_at_90_coverage"), 0.99)
    return found


def _unfinished(config: EvaluationConfig, parts: Sequence[PartRecords]) -> list[str]:
    """Names of the parts of which scenes are missing."""
    done = {found.part.name for found in parts if is_whole(found)}
    return [part.name for part in config.parts() if part.name not in done]


def _rule_figures(config: EvaluationConfig, rule: Rule, parts: Sequence[PartRecords]) -> Json:
    sets = scene_sets(config, rule, parts)
    robust = [r for part in parts if part.part.rule == rule and part.part.robust for r in part.records]
    names = [name for name in sets.trials if name != "oracle"]
    planners = {name: _planner(name, sets, [r for r in robust if r.planner == name], names) for name in names}
    products = [spec.name for spec in config.products]
    if len(products) > 1:
        planners[ALL_TRAININGS] = _all_trainings(products, sets)
    searched = sets.trials.get("oracle", {})
    return {
        "scenes": len(sets.first),
        "tail_scenes": len(sets.tail),
        "tail_graspable_scenes": sum(key in sets.graspable for key in sets.tail),
        "oracle": {"searched": len(searched), "found": sum(record.up_to for record in searched.values())},
        "planners": planners,
    }


def _planner(name: str, sets: SceneSets, robust: Sequence[TrialRecord], names: Sequence[str]) -> Json:
    own = sets.trials[name]
    records = [own[key] for key in sets.first if key in own]
    executed = [record for record in robust if record.robust_trials]
    return {
        **_rates([own], sets),
        "no_candidate": _rate(records, lambda record: record.first.outcome == Outcome.NO_GRASP),
        "robust": _rate(executed, lambda r: r.robust_successes >= PROTOCOL.robust_successes) if executed else None,
        "probability": worth_of_stated(records),
        "plan_ms": percentiles([record.first.plan_ms for record in records if record.attempts]),
        "evaluations": percentiles([record.first.evaluations for record in records if record.attempts]),
        "steps": percentiles([max(0, len(record.first.path) - 1) for record in records if record.attempts]),
        "causes": _causes(records),
        "all_causes": _causes(own[key] for key in {*sets.first, *sets.tail} if key in own),
        "tail_causes": _causes(own[key] for key in sets.tail if key in own),
        "tail_causes_after_three": _causes((own[key] for key in sets.tail if key in own), last=True),
        "tail_failures": _told_before(own, sets),
        "faults": sum(bool(record.fault) for record in own.values()),
        "seeds": {
            str(seed): _rate([own[k] for k in sets.first if k[0] == seed and k in own], _single)
            for seed in sorted({key[0] for key in sets.first})
        },
        "against": {other: _against(own, sets.trials[other], sets) for other in names if other != name},
    }


def _all_trainings(products: Sequence[str], sets: SceneSets) -> Json:
    own = [sets.trials[name] for name in products if name in sets.trials]
    return {**_rates(own, sets), "trainings": len(own)}


def _rates(own: Sequence[dict[SceneKey, TrialRecord]], sets: SceneSets) -> Json:
    """Rates on each set of scenes, over one training or several."""

    def on(keys: Iterable[SceneKey], succeeded: Success) -> Json:
        chosen = list(keys)
        return _rate([by_scene[key] for by_scene in own for key in chosen if key in by_scene], succeeded)

    graspable = [key for key in sets.tail if key in sets.graspable]
    return {
        "single_shot": on(sets.first, _single),
        "up_to_three": on(sets.first, _up_to),
        "tail": on(sets.tail, _single),
        "tail_up_to_three": on(sets.tail, _up_to),
        "tail_graspable": on(graspable, _single),
        "tail_graspable_up_to_three": on(graspable, _up_to),
        "kept": on(sets.kept, _single),
    }


def _against(own: dict[SceneKey, TrialRecord], other: dict[SceneKey, TrialRecord], sets: SceneSets) -> Json:
    """Paired differences in success, this planner minus another."""

    def on(keys: Sequence[SceneKey], succeeded: Success) -> Json | None:
        both = [key for key in keys if key in own and key in other]
        if not both:
            return None
        theirs, ours = ([succeeded(by_scene[key]) for key in both] for by_scene in (other, own))
        difference, interval = statistics.paired_difference(theirs, ours, [own[key].object_name for key in both])
        return {"difference": difference, "interval": list(interval), "trials": len(both)}

    return {"single_shot": on(sets.first, _single), "tail": on(sets.tail, _single), "kept": on(sets.kept, _single)}


def _told_before(own: dict[SceneKey, TrialRecord], sets: SceneSets) -> Json | None:
    """Single-shot failures on the tail by what the planner had stated; where nobody could grasp, they stand apart.

    ``None`` where it states no probabilities.
    """
    if all(record.first.probability is None for record in own.values()):
        return None
    counts = {"not graspable": 0, **{f"stated below {bound:g}": 0 for bound in _BOUNDS}, "stated more": 0}
    for key in sets.tail:
        if key not in own or own[key].single_shot:
            continue
        stated = own[key].first.probability or 0.0
        below = next((f"stated below {bound:g}" for bound in _BOUNDS if stated < bound), "stated more")
        counts[below if key in sets.graspable else "not graspable"] += 1
    return counts


def _rate(records: Iterable[TrialRecord], succeeded: Success) -> Json:
    chosen = list(records)
    return rate_of([succeeded(record) for record in chosen], [record.object_name for record in chosen])


def _causes(records: Iterable[TrialRecord], *, last: bool = False) -> Json:
    """Failures by how the first attempt, or the last of all failed ones, ended."""
    failed = [record for record in records if not (record.up_to if last else record.single_shot)]
    ends = Counter((record.attempts[-1] if last and record.attempts else record.first).outcome for record in failed)
    return dict(ends.most_common())


def _single(record: TrialRecord) -> bool:
    return record.single_shot


def _up_to(record: TrialRecord) -> bool:
    return record.up_to
