"""Pictures of failures: scenes are made again from their seeds, so that a run needn't keep images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from keygrasp.errors import KeygraspError
from keygrasp.perception import Perceived, perceive
from keygrasp.protocol import SceneSpec, build_scene
from keygrasp.scene import Outcome, PlanarGrasp
from keygrasp.trials.drawing import SceneDrawing, draw_scene
from keygrasp.trials.drawing_canvas import encode_png
from keygrasp.trials.records import AttemptRecord, GraspRow, TrialRecord, grasp_from_row
from keygrasp.trials.report_model import Picture

#: Colours of a picture's palette: enough for thin coloured lines, a quarter of a full picture's size.
_PALETTE = 256


def failure_pictures(
    records: Sequence[TrialRecord], *, limit: int, on_scene: Callable[[int, int], None] | None = None
) -> tuple[tuple[Picture, ...], int]:
    """Draw failures of single-shot trials.

    Args:
        records: All trials.
        limit: Most pictures of each planner; causes of failure take turns.
        on_scene: Called after each scene with how many are done and how many there are.

    Returns:
        Pictures in the order of planners and causes, and how many scenes could not be made again.
    """
    return record_pictures([(record.planner, record) for record in choose_failures(records, limit)], on_scene=on_scene)


def record_pictures(
    chosen: Sequence[tuple[str, TrialRecord]],
    *,
    rivals: Sequence[TrialRecord] = (),
    on_scene: Callable[[int, int], None] | None = None,
) -> tuple[tuple[Picture, ...], int]:
    """Draw trials under a heading each, with the grasps of ``rivals`` on the same scenes where these are given.

    See :func:`failure_pictures`.
    """
    by_scene: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, (_, record) in enumerate(chosen):
        by_scene[record.object_name, record.rule, record.source, str(record.seed), record.robot].append(place)
    pictures: dict[int, Picture] = {}
    lost = 0
    for count, places in enumerate(by_scene.values(), start=1):
        try:
            perceived = _perceive_again(chosen[places[0]][1])
        except KeygraspError:
            lost += 1
        else:
            for place in places:
                pictures[place] = _picture(*chosen[place], perceived, rivals[place] if rivals else None)
        if on_scene is not None:
            on_scene(count, len(by_scene))
    return tuple(pictures[place] for place in sorted(pictures)), lost


def choose_failures(records: Sequence[TrialRecord], limit: int) -> list[TrialRecord]:
    """At most ``limit`` single-shot failures of each planner, the causes taking turns, in the order of the scenes."""
    by_planner: dict[str, dict[str, list[TrialRecord]]] = {}
    for record in records:
        queues = by_planner.setdefault(record.planner, defaultdict(list))
        if record.attempts and not record.single_shot:
            queues[record.first.outcome].append(record)
    chosen = []
    for queues in by_planner.values():
        longest = max((len(queue) for queue in queues.values()), default=0)
        turns = [queue[turn] for turn in range(longest) for queue in queues.values() if turn < len(queue)]
        chosen += turns[:limit]
    return chosen


def _perceive_again(record: TrialRecord) -> Perceived:
    """What was seen in the trial; the same seed gives the same image."""
    spec = SceneSpec(record.object_name, record.rule, record.seed, record.source)  # type: ignore[arg-type]
    with build_scene(spec, record.robot) as scene:
        return perceive(scene.view)


def _picture(heading: str, record: TrialRecord, perceived: Perceived, rival: TrialRecord | None) -> Picture:
    attempt = record.first
    other = None if rival is None else rival.first
    drawing = SceneDrawing(
        height_map=perceived.height_map,
        segment=perceived.segments[0] if perceived.segments else None,
        keypoints=perceived.keypoints[0] if perceived.keypoints else None,
        candidates=_grasps(attempt.candidates) if other is None else (),
        rival=None if other is None or other.grasp is None else grasp_from_row(other.grasp),
        path=_grasps(attempt.path),
        grasp=None if attempt.grasp is None else grasp_from_row(attempt.grasp),
        outcome=Outcome(attempt.outcome),
    )
    title = f"{record.object_name} ({record.category})" if record.category else record.object_name
    detail, caption = _detail(record, attempt), record.object_name
    if rival is not None:
        detail = f"{rival.planner}: {rival.first.message or rival.first.outcome}; {record.planner}: {detail}"
        caption += f": {rival.planner} {rival.first.outcome.replace('_', ' ')}"
    elif attempt.probability is not None:
        caption += f": stated {100 * attempt.probability:.0f}%"
    return Picture(heading, title, detail, _encoded(drawing), caption)


def _encoded(drawing: SceneDrawing) -> bytes:
    return encode_png(draw_scene(drawing, scale=4.0), colours=_PALETTE)


def _grasps(rows: Sequence[GraspRow]) -> tuple[PlanarGrasp, ...]:
    return tuple(grasp_from_row(row) for row in rows)


def _detail(record: TrialRecord, attempt: AttemptRecord) -> str:
    parts = [attempt.message or attempt.outcome.replace("_", " ")]
    if attempt.probability is not None:
        parts.append(f"stated success {100 * attempt.probability:.0f}%")
    if record.up_to and not attempt.success:
        parts.append(f"succeeded at attempt {len(record.attempts)}")
    return "; ".join(parts)
