"""Collecting in the workspace, and the scripted experts."""

from pathlib import Path

import pytest
import torch

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.scene import predicates
from keygrasp.sim.tabletop import Tabletop
from keygrasp.worldmodel.collect import Babbling, CollectConfig, collect, episode_path
from keygrasp.worldmodel.episodes import read_episodes
from keygrasp.worldmodel.policies import RandomActions
from keygrasp.worldmodel.rollouts import Scripted, episode_return, roll_out
from keygrasp.worldmodel.scripts import EXPERTS
from keygrasp.worldmodel.task_files import load_task

TASKS = Path(__file__).parents[2] / "tasks"


@pytest.fixture(scope="module")
def workspace():
    with Tabletop() as made:
        yield made


@pytest.mark.parametrize("name", ["reach_red", "least_force", "place_blue", "avoid_zone"])
def test_an_expert_gets_more_than_random_actions(workspace, layout, name):
    task = load_task(TASKS / f"{name}.yaml")
    expert, random = (
        episode_return(roll_out(workspace, policy, layout, steps=25, seed=0, task=task), task)
        for policy in (Scripted(EXPERTS[name]), RandomActions())
    )
    assert expert > random + 5


def test_a_collection_goes_on_where_it_stopped_with_the_same_episodes(tmp_path, layout, model):
    whole = CollectConfig(episodes=3, behaviours=("random", "scripted", "novelty"), images=False, seed=4)
    collect(tmp_path / "a", whole, model=model)
    collect(tmp_path / "b", CollectConfig(episodes=1, behaviours=whole.behaviours, seed=4), model=model)
    first = episode_path(tmp_path / "b", 0).stat().st_mtime_ns
    decisions = collect(tmp_path / "b", whole, model=model)
    assert episode_path(tmp_path / "b", 0).stat().st_mtime_ns == first
    a, b = (read_episodes(tmp_path / name, layout) for name in "ab")
    assert decisions == sum(map(len, a))
    assert [e.behaviour for e in a] == ["random", "scripted", "novelty"]
    assert len({len(e) for e in a}) > 1
    for one, other in zip(a, b, strict=True):
        assert torch.equal(one.actions, other.actions)
        assert one.truncated != one.terminated


def test_babbling_lifts_things_with_weak_grips_and_with_strong_ones(workspace, layout):
    """What was never held weakly can't teach when it slips."""
    grips = []
    for seed in range(5):
        episode = roll_out(workspace, Babbling(), layout, steps=60, seed=seed)
        for name in layout.objects:
            scene = layout.scene_rows(episode.symbols[1:], name)
            up = predicates.grasped(scene) & (episode.symbols[1:, layout.columns[f"{name}.height"]] > 0.02)
            grips += episode.actions[up, 4].tolist()
    assert sum(0 < grip < 0.12 for grip in grips) >= 5
    assert sum(grip > 0.3 for grip in grips) >= 5


def test_a_damaged_episode_stops_a_collection_with_its_name(tmp_path):
    episode_path(tmp_path, 0).write_bytes(b"half")
    with pytest.raises(InputError, match=r"episode-000000\.safetensors"):
        collect(tmp_path, CollectConfig(episodes=1))


def test_impossible_collections_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="without a model"):
        collect(tmp_path, CollectConfig(behaviours=("novelty",)))
    with pytest.raises(ConfigurationError, match="unknown"):
        CollectConfig(behaviours=("curious",))
    with pytest.raises(ConfigurationError, match="episodes is 0"):
        CollectConfig(episodes=0)
    with pytest.raises(ConfigurationError, match="no script for task"):
        CollectConfig(task="juggle")
