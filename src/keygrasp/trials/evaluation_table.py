"""The figures of an evaluation as Markdown tables, for the terminal, the docs and the page."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

#: Key of each rate, its heading, and what it means.
COLUMNS = (
    ("single_shot", "single-shot", "one image, one grasp, executed once; all objects"),
    ("up_to_three", "up to three", "after a failure a new image and a new plan"),
    ("kept", "kept", "scenes on which the reference succeeds, single-shot"),
    ("tail", "tail", "scenes on which the reference fails, single-shot"),
    ("tail_up_to_three", "tail, up to three", "the same, up to three attempts"),
    ("tail_graspable", "graspable tail", "those on which anybody, the oracle included, succeeded; single-shot"),
    ("tail_graspable_up_to_three", "graspable tail, up to three", "the same, up to three attempts"),
    ("robust", "robust", "grasps that succeed in nine of ten executions with errors"),
)


def markdown(found: Json) -> str:
    """All tables of :func:`keygrasp.trials.evaluation_figures.figures`."""
    parts = [_rule(rule, data, found["config"]) for rule, data in found["rules"].items() if data["planners"]]
    if found["targets"]:
        parts.append(_table(["Target", "Wanted", "Measured", ""], [target_row(one) for one in found["targets"]]))
    return "\n\n".join(parts) + "\n"


def columns_of(planners: Json) -> list[tuple[str, str, str]]:
    """Columns that somebody has a figure for."""
    return [c for c in COLUMNS if any((data.get(c[0]) or {}).get("trials") for data in planners.values())]


def share(rate: Json | None) -> str:
    """A rate in per cent; a dash without trials."""
    return "–" if not rate or not rate["trials"] else f"{100 * rate['rate']:.1f}%"


def points(difference: Json | None) -> str:
    """A difference in percentage points with its interval; a dash where there is none."""
    if difference is None:
        return "–"
    low, high = difference["interval"]
    return f"{_signed(difference['difference'])} ({_signed(low)} to {_signed(high)})"


def target_row(one: Json) -> list[str]:
    """Cells of a target: what, wanted, measured, whether it is met."""
    sign = ">" if one["above"] else "≥"
    return [one["target"], f"{sign} {_number(one, 'bound')}", _number(one, "value"), "met" if one["met"] else "missed"]


def headline(rule: str, data: Json, config: Json) -> str:
    """One sentence: which scenes."""
    oracle = data["oracle"]
    ceiling = ""
    if oracle["searched"]:
        ceiling = f"; where everybody failed the oracle found a grasp in {oracle['found']} of {oracle['searched']}"
    return (
        f"Rule {rule}: {data['scenes']} scenes of {config['objects']} {config['split']} objects, "
        f"seeds {', '.join(map(str, config['seeds']))}; {data['tail_scenes']} scenes of the tail, "
        f"{data['tail_graspable_scenes']} of them graspable{ceiling}."
    )


def _rule(rule: str, data: Json, config: Json) -> str:
    planners = data["planners"]
    columns = columns_of(planners)
    rows = [[f"`{name}`", *(_cell(own.get(key)) for key, _, _ in columns)] for name, own in planners.items()]
    parts = [headline(rule, data, config), _table(["Planner", *(heading for _, heading, _ in columns)], rows)]
    measures = ("single_shot", "tail", "kept")
    rows = [
        [f"`{name}` − `{other}`", *(points(difference[key]) for key in measures)]
        for name, own in planners.items()
        if name.startswith("refined")
        for other, difference in own.get("against", {}).items()
    ]
    if rows:
        parts.append("Paired differences in percentage points, with 95% intervals over objects:")
        parts.append(_table(["", "single-shot", "tail", "kept"], rows))
    return "\n\n".join(parts)


def _cell(rate: Json | None) -> str:
    if not rate or not rate["trials"]:
        return "–"
    low, high = (100 * end for end in rate["interval"])
    return f"**{share(rate)}** ({max(low, 0):.1f}–{high:.1f})"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def _number(one: Json, key: str) -> str:
    value = one[key]
    if "AUROC" in one["target"]:
        return f"{value:.3f}"
    if "gain" in one["target"]:
        return f"{_signed(value)} points" if value else "0 points"
    return f"{100 * value:.1f}%"
