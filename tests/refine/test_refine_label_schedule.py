"""A scheduler that decides which labels the refiner's training sees: it follows what the network gets wrong."""

import json
import math

import numpy as np
import pytest
import torch
from synthetic_views import box, placed, render

from keygrasp.cli.train import run as train_command
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.labels import SceneLabels, write_index, write_shard
from keygrasp.refine.dataset import load_dataset
from keygrasp.refine.label_schedule import LabelSchedule
from keygrasp.refine.network import NetworkConfig, load_network
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import train
from keygrasp.scene import GripperSpec

SCENES, LABELS, BATCH = 10, 30, 64


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Ten boxes of two kinds with thirty grasps each."""
    folder, rng, scenes = tmp_path_factory.mktemp("labels") / "train", np.random.default_rng(0), []
    for seed in range(SCENES):
        long, high = (0.12, 0.02) if seed % 2 else (0.06, 0.06)
        view = render(placed(box(long + 0.001 * seed, 0.04, high), 0.0, 0.0, 0.2 * seed))
        grasps = np.column_stack([*rng.uniform(-0.02, 0.02, (5, LABELS))]).astype(np.float32)
        grasps[:, 2], grasps[:, 4] = rng.uniform(0.005, 0.08, LABELS), 0.07
        outcome = np.where(grasps[:, 2] < high, 0, 2).astype(np.uint8)
        scenes.append(
            SceneLabels(f"{seed:03d}", seed, np.eye(4), view.depth, grasps, outcome, np.zeros(LABELS, np.uint8))
        )
    for path in (folder, folder.parent / "validation"):
        write_index(path, view, GripperSpec(), {})
        write_shard(path / "shard-00000.npz", scenes)
    return folder


def rounds(schedule, data, count):
    """Draw and note batches of a network that is right by lot about flat boxes (odd), and always about high ones."""
    generator, lots = torch.Generator().manual_seed(1), np.random.default_rng(2)
    drawn = []
    for _ in range(count):
        rows = schedule.draw(BATCH, generator)
        odd = data.scene[rows].numpy() % 2 == 1
        schedule.note(rows, torch.from_numpy(~odd | (lots.random(BATCH) < 0.5)))
        drawn.append(odd.mean())
    return drawn


def test_batches_go_where_the_network_is_right_now_and_then(labels):
    data = load_dataset([labels])
    schedule = LabelSchedule("graph", data, seed=0)
    drawn = rounds(schedule, data, 100)
    assert np.mean(drawn[:20]) == pytest.approx(0.5, abs=0.06)  # nothing is known: any label
    assert np.mean(drawn[60:]) > 0.6
    assert np.mean(drawn[60:]) < 1  # what is known is still looked at
    report = schedule.report()
    assert sum(report["scenes"]) == SCENES
    assert sum(report["labels"]) == 100 * BATCH
    assert (report["never_drawn"], report["always_alike"]) == (0, SCENES // 2)
    assert all(int(name) % 2 for name in report["most_telling"][: SCENES // 2])


def test_an_even_choice_of_scenes_stays_even(labels):
    data = load_dataset([labels])
    assert np.mean(rounds(LabelSchedule("uniform", data, seed=0), data, 60)) == pytest.approx(0.5, abs=0.08)


def test_a_schedule_goes_on_where_it_stood(labels):
    data = load_dataset([labels])
    whole, first = (LabelSchedule("graph", data, seed=0) for _ in range(2))
    rounds(whole, data, 50)
    rounds(first, data, 50)
    second = LabelSchedule("graph", data, seed=5)
    second.restore(first.state())
    assert rounds(whole, data, 50) == rounds(second, data, 50)
    with pytest.raises(InputError, match="scheduler"):
        LabelSchedule("knn", data, seed=0).restore(first.state())


def test_training_with_a_scheduler_resumes_learns_and_reports(labels, tmp_path, capsys):
    class StopError(Exception):
        pass

    def stop_at_forty(step, figures):
        if step == 40:
            raise StopError

    def config(name):
        return TrainConfig(
            labels=(labels,), validation=(labels.parent / "validation",), out=tmp_path / name, steps=60, warm_up=60,
            execute_batch=BATCH, evaluate_every=25, learning_rate=5e-3, device="cpu", scheduler="graph",
            network=NetworkConfig(keypoint_hidden=8, channels=(4, 4), hidden=16),
        )  # fmt: skip

    def weights(name):
        return torch.cat([v.flatten() for v in load_network(tmp_path / name / "weights.safetensors")[0].parameters()])

    whole = train(config("whole"))
    with pytest.raises(StopError):
        train(config("parts"), stop_at_forty)
    parts = train(config("parts"))
    assert parts["schedule"] == whole["schedule"]
    assert torch.allclose(weights("whole"), weights("parts"), atol=1e-3)
    assert sum(whole["schedule"]["labels"]) == 60 * BATCH
    assert whole["final"]["validation_auroc"] > 0.7
    settings = tmp_path / "settings.yaml"
    settings.write_text(json.dumps({
        "labels": [str(labels)], "steps": 21, "warm_up": 21, "execute_batch": BATCH, "scheduler": "graph",
        "network": {"keypoint_hidden": 8, "channels": [4, 4], "hidden": 16}, "out": str(tmp_path / "command"),
    }))  # fmt: skip
    assert train_command([str(settings)]) == 0
    shown = capsys.readouterr().out
    assert "where batches went" in shown
    assert math.isclose(json.loads((tmp_path / "command/report.json").read_text())["labels"], SCENES * LABELS)


def test_an_unknown_scheduler_is_refused():
    with pytest.raises(ConfigurationError, match="scheduler"):
        TrainConfig(scheduler="graphs")
