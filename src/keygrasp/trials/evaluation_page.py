"""An evaluation as one HTML file: tables, targets, and pictures of the tail and of what still fails."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keygrasp.files import atomic_path, write_text
from keygrasp.trials.evaluation import HEADLINE, PRODUCT, EvaluationConfig, PartRecords
from keygrasp.trials.evaluation_figures import scene_sets
from keygrasp.trials.evaluation_table import columns_of, headline, target_row
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.report_html import template
from keygrasp.trials.report_model import Picture
from keygrasp.trials.summary import intervals_in_words

Json = dict[str, Any]
#: Called after each scene that is drawn: how many are done, how many there are.
OnScene = Callable[[int, int], None]
#: Most pictures of tail scenes.
TAIL_PICTURES = 10
#: Names of the sheets beside the page.
TAIL_SHEET, FAILURES_SHEET = "tail.png", "failures.png"


@dataclass(frozen=True, eq=False)
class _Rule:
    """What the page shows of one rule."""

    name: str
    headline: str
    planners: Json
    columns: list[tuple[str, str, str]]
    differences: list[tuple[str, str, Json]]
    causes: list[str]
    intervals: str


def write_page(
    config: EvaluationConfig,
    found: Json,
    parts: Sequence[PartRecords],
    path: Path,
    *,
    pictures: int = 12,
    on_scene: OnScene | None = None,
) -> Path:
    """Write the page of :func:`keygrasp.trials.evaluation_figures.figures`, and its pictures as two sheets beside it.

    Args:
        config: What was evaluated.
        found: Its figures.
        parts: Its trials.
        path: Where to write.
        pictures: Most pictures of failures, and of tail scenes (of these ten at most); 0 draws none.
        on_scene: Progress of the pictures.

    Returns:
        The path.
    """
    tail, failures, lost = _pictures(config, parts, pictures, on_scene)
    for name, shown in ((TAIL_SHEET, tail), (FAILURES_SHEET, failures)):
        if shown:
            write_sheet(path.parent / name, shown)
    text: str = template("evaluation.html.j2").render(
        found=found,
        setting=_setting(found),
        notices=_notices(found, lost),
        targets=[target_row(one) for one in found["targets"]],
        rules=[_rule(name, data, found["config"]) for name, data in found["rules"].items() if data["planners"]],
        tail_pictures=tail,
        failures=failures,
        failure_causes=_causes(found),
        product=PRODUCT,
    )
    write_text(path, text)
    return path


def write_sheet(path: Path, pictures: Sequence[Picture]) -> None:
    """Lay pictures out in one PNG file, each with its caption."""
    from keygrasp.trials.drawing import Tile, contact_sheet
    from keygrasp.trials.drawing_canvas import decode_png, encode_png

    tiles = [Tile(decode_png(picture.png), picture.caption) for picture in pictures]
    sheet = encode_png(contact_sheet(tiles, columns=5, tile_width=300))
    with atomic_path(path) as temporary:
        temporary.write_bytes(sheet)


def tail_examples(config: EvaluationConfig, parts: Sequence[PartRecords], count: int) -> list[list[TrialRecord]]:
    """Scenes of the headline's tail as pairs of records, of the product and of the reference.

    The reference has chosen a grasp on each; objects differ, and how it failed takes turns with the category of the
    object. Longer refinements come first.
    """
    rule = HEADLINE if HEADLINE in config.rules else config.rules[0]
    sets = scene_sets(config, rule, parts)
    own, reference = sets.trials.get(PRODUCT, {}), sets.trials.get("reference", {})
    groups: dict[tuple[str, str], list[list[TrialRecord]]] = defaultdict(list)
    seen = set()
    for key in sorted((k for k in sets.tail if k in own), key=lambda k: (-len(own[k].first.path), k)):
        pair = [own[key], reference[key]]
        if pair[0].first.grasp is None or pair[1].first.grasp is None or pair[0].object_name in seen:
            continue
        seen.add(pair[0].object_name)
        groups[pair[1].first.outcome, pair[0].category].append(pair)
    turns = itertools.zip_longest(*groups.values())
    return [pair for turn in turns for pair in turn if pair is not None][:count]


def _pictures(
    config: EvaluationConfig, parts: Sequence[PartRecords], limit: int, on_scene: OnScene | None
) -> tuple[tuple[Picture, ...], tuple[Picture, ...], int]:
    """Pictures of tail scenes and of failures, and how many scenes could not be made again."""
    if limit == 0:
        return (), (), 0
    from keygrasp.trials.report_pictures import failure_pictures, record_pictures

    pairs = tail_examples(config, parts, min(limit, TAIL_PICTURES))
    tail, lost = record_pictures(
        [("tail", pair[0]) for pair in pairs], rivals=[pair[1] for pair in pairs], on_scene=on_scene
    )
    own = [r for part in parts if not part.part.robust for r in part.records if r.planner == PRODUCT]
    failures, missing = failure_pictures(own, limit=limit, on_scene=on_scene)
    return tail, failures, lost + missing


def _rule(name: str, data: Json, config: Json) -> _Rule:
    planners = data["planners"]
    causes: Counter[str] = Counter()
    for own in planners.values():
        causes.update(own.get("tail_causes", {}))
    return _Rule(
        name=name,
        headline=headline(name, data, config),
        planners=planners,
        columns=columns_of(planners),
        differences=[
            (own, other, difference)
            for own in planners
            if own.startswith(PRODUCT)
            for other, difference in planners[own].get("against", {}).items()
        ],
        causes=[cause for cause, _ in causes.most_common()],
        intervals=intervals_in_words(own.get(key) for own in planners.values() for key, _, _ in columns_of(planners)),
    )


def _causes(found: Json) -> dict[str, int]:
    """Single-shot failures of the product by cause, over all rules: first poses, and the tail's further ones."""
    counts: Counter[str] = Counter()
    for data in found["rules"].values():
        own = data["planners"].get(PRODUCT, {})
        counts.update(own.get("all_causes", {}))
    return dict(counts.most_common())


def _setting(found: Json) -> dict[str, str]:
    config = found["config"]
    weights = [Path(path).name for path in config["weights"]] or ["shipped"]
    return {
        "objects": f"{config['objects']}, {config['split']} split",
        "seeds": ", ".join(map(str, config["seeds"])),
        "robot": config["robot"],
        "weights": ", ".join(weights),
    }


def _notices(found: Json, lost: int) -> list[str]:
    notices = []
    if found["unfinished"]:
        notices.append(f"The evaluation was stopped; not or not wholly done: {', '.join(found['unfinished'])}.")
    if lost:
        notices.append(f"{lost} scene(s) could not be made again for a picture.")
    return notices
