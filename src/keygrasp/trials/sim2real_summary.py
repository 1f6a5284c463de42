"""From the scenes of the sim-to-real checks to figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from keygrasp.protocol import statistics
from keygrasp.scene import Outcome
from keygrasp.trials.sim2real import CONDITIONS, DELTA, UR5, SceneResult, Sim2RealResults
from keygrasp.trials.summary import rate_of

Json = dict[str, Any]

#: Points by which the Delta may fall behind the UR5 on tail scenes within its reach.
TARGET = 0.03


def summarise(results: Sim2RealResults) -> Json:
    """All figures, JSON-ready.

    A scene whose planner found no grasp within the Delta's reach, or whose execution left it, is *out of reach*: it is
    counted, and left out of the comparison of the two robots. Conditions count it as failed, like every other failure.
    """
    seed = results.config.seed
    executed = [scene for scene in results.scenes if scene.outcomes]
    reached = [scene for scene in executed if scene.outcomes[DELTA] not in (Outcome.NO_GRASP, Outcome.UNREACHABLE)]
    varied = [scene for scene in executed if results.config.has_factors(scene.scene)]
    planned = [scene for scene in executed if scene.within_reach]
    return {
        "scenes": {
            "asked": results.config.objects * results.config.poses,
            "done": len(results.scenes),
            "not_done": sum(bool(scene.fault) for scene in results.scenes),
            "tail": sum(scene.tail for scene in results.scenes),
            "executed": len(executed),
            "out_of_reach": len(executed) - len(reached),
        },
        "robots": {
            "tail": _robots([scene for scene in reached if scene.tail], seed),
            "all": _robots(reached, seed),
        },
        "conditions": {
            DELTA: {"group": "none", **_condition(varied, DELTA, seed)},
            **{
                condition.name: {"group": condition.group, **_condition(varied, condition.name, seed)}
                for condition in CONDITIONS
            },
        },
        "within_reach": {
            model: rate_of([scene.within_reach[model] for scene in planned], _objects(planned), seed)
            for model in (planned[0].within_reach if planned else ())
        },
        "config": results.config.identity(),
        "wall_s": results.wall_s,
        "provenance": results.provenance,
    }


def _robots(scenes: Sequence[SceneResult], seed: int) -> Json:
    """Both robots' success with the same grasps, and the paired difference, Delta minus UR5."""
    return {
        DELTA: rate_of(_succeeded(scenes, DELTA), _objects(scenes), seed),
        UR5: rate_of(_succeeded(scenes, UR5), _objects(scenes), seed),
        "difference": _difference(scenes, UR5, DELTA, seed),
        "outcomes": dict(Counter(f"{scene.outcomes[DELTA]} / {scene.outcomes[UR5]}" for scene in scenes).most_common()),
    }


def _condition(scenes: Sequence[SceneResult], name: str, seed: int) -> Json:
    known = [scene for scene in scenes if name in scene.outcomes or scene.outcomes[DELTA] == Outcome.NO_GRASP]
    return {
        **rate_of(_succeeded(known, name), _objects(known), seed),
        "difference": _difference(known, DELTA, name, seed),
        "outcomes": dict(Counter(scene.outcomes.get(name, Outcome.NO_GRASP) for scene in known).most_common()),
    }


def _difference(scenes: Sequence[SceneResult], first: str, second: str, seed: int) -> Json | None:
    if not scenes:
        return None
    difference, interval = statistics.paired_difference(
        _succeeded(scenes, first), _succeeded(scenes, second), _objects(scenes), seed=seed
    )
    return {"difference": difference, "interval": list(interval), "trials": len(scenes)}


def _succeeded(scenes: Sequence[SceneResult], name: str) -> list[bool]:
    return [scene.outcomes.get(name) == Outcome.SUCCESS for scene in scenes]


def _objects(scenes: Sequence[SceneResult]) -> list[str]:
    return [scene.object_name for scene in scenes]
