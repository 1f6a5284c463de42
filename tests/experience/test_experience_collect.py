"""What a collection refuses before it executes the first grasp."""

import dataclasses
import json

import numpy as np
import pytest

from keygrasp.errors import InputError, StorageError
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
