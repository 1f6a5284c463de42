"""From the figures of a run to what a report says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keygrasp.errors import InputError
from keygrasp.scene import Outcome
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.report_model import RATE_COLUMNS, PlannerSummary, Rate, Report
from keygrasp.trials.report_spent import spent_of
from keygrasp.trials.summary import intervals_in_words

Json = dict[str, Any]


def report_of(summary: Json, records: Sequence[TrialRecord] = (), *, expected: int | None = None) -> Report:
    """Put a report together, without pictures.

    Args:
        summary: As :meth:`keygrasp.trials.running.Results.summary` gives it or as it was read from a JSON file.
        records: The trials behind it; without them the report doesn't say where the time went.
        expected: Scenes that were asked for; where fewer are in ``records`` the report says that the run was stopped.

    Raises:
        InputError: If the summary lacks what every run writes.
    """
    try:
        config, provenance = summary["config"], summary["provenance"]
        planners = tuple(_planner(data, records) for data in summary["planners"].values())
        return Report(
            title=_title([planner.name for planner in planners]),
            setting=_setting(config, planners),
            planners=planners,
            provenance=provenance,
            spent=spent_of(config, records),
            notices=_notices(summary, records, expected),
            intervals=intervals_in_words(
                data.get(key) for data in summary["planners"].values() for key, _, _ in RATE_COLUMNS
            ),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"these results can't be shown: {type(error).__name__} at {error}",
            "Give a file that 'keygrasp trials' wrote",
        ) from error


def _title(names: list[str]) -> str:
    shown = [name for name in names if name != "reference"] or names
    return "Grasp trials: " + (", ".join(shown) if len(shown) <= 3 else f"{len(shown)} planners")


def _setting(config: Json, planners: tuple[PlannerSummary, ...]) -> dict[str, str]:
    scenes = max((planner.rates["single_shot"].trials for planner in planners), default=0)
    embedded = config["source"] == "embedded" and not config["names"]
    return {
        "protocol": config["protocol"],
        "objects": f"{config['source']}, {config['split']} split" if embedded else str(config["source"]),
        "rule": config["rule"],
        "robot": config["robot"],
        "scenes": str(scenes),
        "seed": str(config["seed"]),
    }


def _planner(data: Json, records: Sequence[TrialRecord]) -> PlannerSummary:
    causes = {name: int(count) for name, count in data["outcomes"].items() if name != Outcome.SUCCESS and count}
    stated = data.get("probability") or {}
    figures = {
        "brier_skill": stated.get("brier_skill"),
        "auroc": stated.get("auroc"),
        "success_at_90": stated.get("success_at_90_coverage"),
    }
    return PlannerSummary(
        name=str(data["planner"]),
        rates={key: _rate(data[key]) for key, _, _ in RATE_COLUMNS if data.get(key) is not None},
        categories={name: _rate(rate) for name, rate in data.get("categories", {}).items()},
        causes=dict(sorted(causes.items(), key=lambda item: (-item[1], item[0]))),
        plan_ms=_numbers(data["plan_ms"]),
        trial_s=_numbers(data["trial_s"]),
        evaluations=_numbers(data.get("evaluations") or {}).get("p50", 0.0),
        costs_s=_costs([record for record in records if record.planner == data["planner"]]),
        stated=_numbers(figures),
        against=_against(data.get("against_reference")),
    )


def _against(data: Json | None) -> tuple[float, float, float] | None:
    if data is None:
        return None
    low, high = data["interval"]
    return float(data["difference"]), float(low), float(high)


def _rate(data: Json) -> Rate:
    low, high = data["interval"]
    return Rate.of(int(data["successes"]), int(data["trials"]), (float(low), float(high)))


def _numbers(data: Json) -> dict[str, float]:
    return {key: float(value) for key, value in data.items() if value is not None}


def _costs(records: Sequence[TrialRecord]) -> dict[str, float]:
    """Seconds by purpose over all attempts; the perturbed executions of the robust measure aren't in them."""
    if not records:
        return {}
    attempts = [attempt for record in records for attempt in record.attempts]
    return {
        "scene": sum(record.build_s for record in records),
        "planning": sum(attempt.plan_ms for attempt in attempts) / 1e3,
        "physics": sum(attempt.execute_s for attempt in attempts),
    }


def _notices(summary: Json, records: Sequence[TrialRecord], expected: int | None) -> tuple[str, ...]:
    notices = []
    done = len({record.scene for record in records})
    if expected is not None and done < expected:
        notices.append(f"The run was stopped after {done} of {expected} scenes; the figures are of these.")
    scheduler = summary["config"].get("scheduler", "all")
    if scheduler != "all":
        notices.append(
            f"The scheduler '{scheduler}' chose the scenes by earlier outcomes: rates are of these, not of the split."
        )
    planners = summary["planners"].values()
    skipped = max((int(data.get("scenes_not_built", 0)) for data in planners), default=0)
    if skipped:
        notices.append(f"{skipped} scene(s) could not be made (the object never came to rest) and are left out.")
    for data in planners:
        if data.get("faults"):
            notices.append(
                f"{data['planner']}: {data['faults']} trial(s) could not be carried out and count as failed."
            )
        if data.get("unreachable"):
            notices.append(f"{data['planner']}: {data['unreachable']} grasp(s) were out of the robot's reach.")
    return tuple(notices)
