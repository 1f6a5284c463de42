"""What a language model is asked, and what counts as an answer. A change of either needs a new version."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any

from keygrasp.geometry.poses import Array
from keygrasp.scene.rendering import state_text
from keygrasp.scene.tasks import Task

#: Part of every cache key: scores of another prompt are never mixed in.
PROMPT_VERSION = "1"
#: The answer's JSON schema; servers may ignore it, so every answer is checked here as well.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}},
    "required": ["score"],
    "additionalProperties": False,
}
_SYSTEM = (
    "You judge how far a robot with a parallel gripper has got with its task. Answer with one JSON object "
    '{"score": s} and nothing else, where s is a number from 0 (no progress) to 1 (task done). Judge the state alone. '
    "Typical progress: the gripper comes near the object, turns so that it closes over the shorter side, goes down "
    "around the object, touches it with both pads, lifts it more than 5 cm, holds it still."
)


def messages(row: Array, goal: Hashable) -> list[dict[str, str]]:
    """The chat that asks for the score of a state (D,) under a goal."""
    task = goal.text() if isinstance(goal, Task) else str(goal)
    return [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": f"Task: {task}\n\nState (metres, radians; workspace frame):\n{state_text(row)}"},
    ]


def parse_score(text: str) -> float | None:
    """The score of an answer, ``None`` where it is not exactly one object with one finite number ``score``.

    Numbers are never searched for in free text: "90%", "8/10" and "Step 1 of 3: 0.4" are no scores.
    """
    try:
        answer = json.loads(text, object_pairs_hook=_single_keys, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, dict) or set(answer) != {"score"}:
        return None
    score = answer["score"]
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return None
    try:
        number = float(score)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _single_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")
