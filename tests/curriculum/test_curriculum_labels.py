"""A scheduler within a collection of labels: it follows outcomes, and a stop changes nothing."""

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.experience.collect import CollectConfig, _fingerprint, _rounds
from keygrasp.experience.labels import OUTCOMES, PROPOSALS, SceneLabels, write_shard
from keygrasp.scene import Outcome

PLANNER, RANDOM = PROPOSALS.index("planner"), PROPOSALS.index("random")


def labels_of(name, seed, rate):
    """One scene with four grasps of planners, which succeed at a rate, and a random one, which always does."""
    won = np.append(np.random.default_rng(seed).random(4) < rate, True)
    outcome = np.where(won, OUTCOMES.index(Outcome.SUCCESS), OUTCOMES.index(Outcome.SLIPPED)).astype(np.uint8)
    proposal = np.array([PLANNER] * 4 + [RANDOM], np.uint8)
    depth, grasps = np.ones((2, 2), np.float32), np.zeros((5, 5), np.float32)
    return SceneLabels(
        object_name=name, seed=seed, pose=np.eye(4), depth=depth, grasps=grasps, outcome=outcome, proposal=proposal
    )


def collected(config, rounds):
    """Carry out rounds without physics: an object's rate follows from its name."""
    chosen = []
    for tasks in rounds:
        for task in tasks:
            if not (config.out / task["file"]).is_file():
                write_shard(
                    config.out / task["file"], [labels_of(n, s, 0.5 if int(n) % 2 else 0.0) for n, s in task["scenes"]]
                )
        chosen.append(tasks)
    return chosen


def test_a_collection_follows_outcomes_and_resumes_with_the_same_scenes(tmp_path):
    config = CollectConfig(out=tmp_path, objects=12, scenes=240, scenes_per_shard=5, scheduler="graph")
    straight = collected(config, _rounds(config))
    scenes = [scene for tasks in straight for task in tasks for scene in task["scenes"]]
    assert len(scenes) == 240
    late = [int(name) % 2 for name, _ in scenes[120:]]
    odd = len({name for name, _ in scenes if int(name) % 2}) / len({name for name, _ in scenes})
    assert np.mean(late) > odd + 0.1
    for path in sorted(tmp_path.glob("*.npz"))[20:]:  # as if it had been stopped in the third round
        path.unlink()
    assert collected(config, _rounds(config)) == straight


def test_an_unknown_scheduler_is_refused():
    with pytest.raises(ConfigurationError, match="scheduler"):
        CollectConfig(scheduler="graphs")


def test_labels_from_before_there_were_schedulers_can_be_gone_on_with():
    assert "scheduler" not in _fingerprint(CollectConfig())
    assert _fingerprint(CollectConfig(scheduler="graph"))["scheduler"] == "graph"
