"""What a collection refuses before it executes the first grasp."""

import dataclasses
import json

import numpy as np
import pytest

from keygrasp.configuration import load_config
from keygrasp.errors import ConfigurationError, InputError, StorageError
from keygrasp.experience.labels import PROPOSALS, LabelFolder
from keygrasp.files import sole_writer, write_json

module = pytest.importorskip("keygrasp.experience.collect")


def config(out, **changes):
    return module.CollectConfig(**{"out": out, "scenes": 1, "objects": 1, "workers": 1, **changes})


def test_a_second_collection_in_the_same_folder_is_refused(tmp_path):
    with sole_writer(tmp_path), pytest.raises(InputError, match="another run is writing"):
        module.collect(config(tmp_path, seed=1))


def test_a_folder_of_another_seed_is_refused_by_name_and_left_as_it_is(tmp_path):
    other = json.loads(json.dumps(dataclasses.asdict(config(tmp_path, seed=1)), default=str))
    write_json(tmp_path / "index.json", {"config": {k: v for k, v in other.items() if k not in ("out", "workers")}})
    with pytest.raises(InputError, match=r"different: .*seed"):
        module.collect(config(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["index.json"]


@pytest.mark.parametrize("text", ["[]", "3", '{"config": []}'])
def test_an_index_that_is_none_is_refused(text, tmp_path):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(InputError, match="another configuration"):
        module.collect(config(tmp_path))


def test_shards_that_nobody_knows_the_settings_of_are_refused(tmp_path):
    np.savez(tmp_path / "shard-00000.npz")
    with pytest.raises(InputError, match=r"no index\.json"):
        module.collect(config(tmp_path))


def test_a_folder_that_can_not_be_written_is_said_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="nothing was started"):
            module.collect(config(out))


@pytest.mark.parametrize(
    ("line", "needle"),
    [
        ("objects: -1", "objects is -1"),
        ("seed: -1", "seed is -1"),
        ("perturbed: -5", "perturbed is -5"),
        ("random: -5", "random is -5"),
        ("workers: 0", "workers is 0"),
        ("rule: none", "Known: E, A, S, M"),
        ("planners: [geometrik]", "Did you mean 'geometric'?"),
        ("planners: [oracle]", "looks behind the image"),
        ("{random: 0, planned: 0, perturbed: 0}", "Ask for grasps"),
    ],
)
def test_what_can_not_work_is_refused_by_name(line, needle, tmp_path):
    (tmp_path / "collect.yaml").write_text(line)
    with pytest.raises(ConfigurationError) as raised:
        load_config(tmp_path / "collect.yaml", module.CollectConfig)
    assert needle in str(raised.value)


def test_weights_that_are_not_there_are_said_before_any_work(tmp_path):
    with pytest.raises(InputError, match="no weights at /nonexist"):
        module.collect(config(tmp_path, weights="/nonexist"))


def test_progress_comes_at_once_and_no_planned_grasps_are_kept_where_none_are_asked_for(tmp_path):
    seen = []
    module.collect(config(tmp_path, random=1, planned=0, perturbed=1), seen.append)
    assert (seen[0].shards, seen[0].grasps, seen[-1].shards) == (0, 0, 1)
    (scene,) = LabelFolder.open(tmp_path).scenes()
    assert PROPOSALS.index("planner") not in scene.proposal
    assert len(scene.grasps) == 2
