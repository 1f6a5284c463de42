"""Episodes on disk, and pieces of them."""

import json

import pytest
import torch
from safetensors.torch import save_file

from keygrasp.errors import InputError
from keygrasp.worldmodel.episodes import Episode, read_episode, read_episodes, windows, write_episode


def episode(row, steps, **changes):
    rows = row.repeat(steps + 1, 1)
    rows[:, 0] = torch.arange(steps + 1) / 1000
    return Episode(rows, torch.full((steps, 5), 0.1), **changes)


def test_an_episode_comes_back_as_it_was(tmp_path, layout, row):
    images = {"rgb": torch.ones(4, 64, 64, 3, dtype=torch.uint8), "depth": torch.zeros(4, 64, 64)}
    one = episode(row, 3, truncated=True, behaviour="random", seed=7, **images)
    write_episode(tmp_path / "episode-000000.safetensors", one, layout)
    found = read_episodes(tmp_path, layout)[0]
    assert torch.equal(found.symbols, one.symbols)
    assert (found.truncated, found.terminated, found.behaviour, found.seed) == (True, False, "random", 7)
    assert found.images().shape == (4, 4, 64, 64)
    assert found.images()[0, 0, 0, 0] == pytest.approx(1 / 255)


def test_episodes_of_unequal_length_make_one_batch(row):
    found = windows([episode(row, 2), episode(row, 9)], 4)
    assert found.symbols.shape == (11, 5, len(row))
    assert found.valid.sum(dim=1).tolist() == [2, 1, 4, 4, 4, 4, 4, 4, 3, 2, 1]
    assert torch.isfinite(found.symbols).all()
    assert (found.actions[~found.valid] == 0).all()


def test_only_the_first_row_is_flagged_as_first_and_its_step_is_kept(row):
    found = windows([episode(row, 3), episode(row, 2)], 2)
    assert found.first.tolist() == [True, False, False, True, False]
    assert found.valid[found.first].all()  # a first step is a step like any other: it has an action and a row after it
    assert torch.equal(found.symbols[0, 1], episode(row, 3).symbols[1])


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda e: Episode(e.symbols[:-1], e.actions), "symbols of shape"),
        (lambda e: Episode(e.symbols, e.actions * float("nan")), "not finite"),
        (lambda e: Episode(e.symbols, e.actions * 20), r"outside \[-1, 1\]"),
        (lambda e: Episode(e.symbols, e.actions, terminated=True, truncated=True), "at once"),
        (lambda e: Episode(e.symbols[:1], e.actions[:0]), "0 actions"),
        (lambda e: Episode(e.symbols, e.actions, rgb=torch.zeros(4, 64, 64, 3, dtype=torch.uint8)), "without depth"),
        (lambda e: Episode(e.symbols.double(), e.actions), "float64"),
    ],
)
def test_what_is_no_episode_is_neither_written_nor_read(tmp_path, layout, row, broken, said):
    with pytest.raises(InputError, match=said):
        write_episode(tmp_path / "a.safetensors", broken(episode(row, 3)), layout)
    assert not list(tmp_path.iterdir())


def test_damaged_and_foreign_files_are_named(tmp_path, layout, row):
    path = tmp_path / "episode-000000.safetensors"
    with pytest.raises(InputError, match="no episode in"):
        read_episodes(tmp_path, layout)
    with pytest.raises(InputError, match="is no folder"):
        read_episodes(tmp_path / "none", layout)
    with pytest.raises(InputError, match="can't read"):
        read_episode(path, layout)
    write_episode(path, episode(row, 3), layout)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])  # the machine died while it was copied
    with pytest.raises(InputError, match="no whole safetensors file"):
        read_episode(path, layout)
    good = {"symbols": row.repeat(4, 1), "actions": torch.zeros(3, 5)}
    about = {"format": "keygrasp-episode-1", "columns": list(layout.names), "terminated": False, "truncated": True}
    for change, said in (
        ({"format": "other"}, "not of the format"),
        ({"columns": ["x"]}, "other symbols"),
        ({"seed": "one"}, "wrongly"),
    ):
        meta = about | {"behaviour": "", "task": "", "seed": 0} | change
        save_file(good, path, {"episode": json.dumps(meta)})
        with pytest.raises(InputError, match=said):
            read_episode(path, layout)
    save_file(good, path)
    with pytest.raises(InputError, match="says nothing"):
        read_episode(path, layout)
    with pytest.raises(InputError, match="nothing to cut"):
        windows([], 3)
