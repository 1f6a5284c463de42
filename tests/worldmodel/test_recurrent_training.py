"""Training of the recurrent image model: what it learns, that it resumes, what it refuses, and its command."""

import dataclasses
import json
import math

import pytest
import torch
from test_recurrent import LAYOUT, SMALL, X, Y, episode

from keygrasp.cli.worldmodel import run
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.worldmodel.episodes import write_episode
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.recurrent import RecurrentModel
from keygrasp.worldmodel.recurrent_losses import (
    LOSSES,
)
from keygrasp.worldmodel.recurrent_training import (
    ImageTrainConfig,
    ImageTrainer,
    checkpoint_path,
    load_images_model,
    train_images,
)

EPISODES = [episode(number, 7 + number) for number in range(3)]
SHORT = ImageTrainConfig(steps=4, batch=2, length=5, horizon=5, save_every=2, device="cpu", network=SMALL)


def test_a_few_steps_teach_the_model_what_actions_do():
    """The gripper's imagined motion follows its actions, whose effect no image shows before it has happened."""
    layout = Layout(("red",))
    sizes = dataclasses.replace(SMALL, memory=48, hidden=48, heads=1)
    config = ImageTrainConfig(
        steps=200, batch=6, length=5, horizon=5, learning_rate=5e-3, device="cpu", network=sizes, image_scale=0.003
    )
    trainer = ImageTrainer(config, [episode(seed, 12, layout=layout) for seed in range(30)], layout)
    losses = torch.stack([trainer.train_step() for _ in range(config.steps)])
    for name, early, late in zip(LOSSES, losses[:10].mean(dim=0), losses[-10:].mean(dim=0), strict=True):
        assert late < early, name
    model, data = RecurrentModel(trainer.network), episode(99, 40, layout=layout)
    belief = model.start(data.symbols[:-1], data.images()[:-1])
    imagined = (model.step(belief, data.actions).symbols - belief.symbols)[:, [X, Y]]
    true = (data.symbols[1:] - data.symbols[:-1])[:, [X, Y]]
    correlation = torch.corrcoef(torch.stack([imagined.flatten(), true.flatten()]))[0, 1]
    assert correlation > 0.4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_recorded_step_is_the_step_itself():
    """A graph that is played back gives the losses and the gradients that computing each step anew gives."""
    config = ImageTrainConfig(steps=8, batch=3, length=6, horizon=5, device="cuda", network=SMALL)
    recorded, computed = (
        ImageTrainer(dataclasses.replace(config, graph=graph), EPISODES, LAYOUT) for graph in (True, False)
    )
    for _ in range(config.steps):
        losses = [trainer.train_step().clone() for trainer in (recorded, computed)]
        assert torch.allclose(*losses, rtol=1e-2, atol=1e-2)
        gradients = [torch.cat([p.grad.flatten() for p in t.network.parameters()]) for t in (recorded, computed)]
        assert torch.cosine_similarity(*gradients, dim=0) > 0.99
    assert (recorded.recording, computed.recording) == ("recorded", "not asked for")


def test_training_goes_on_where_it_was_stopped(tmp_path):
    def stop(step, losses):
        if step == 3:
            raise KeyboardInterrupt

    once, twice = tmp_path / "once.safetensors", tmp_path / "twice.safetensors"
    whole = train_images(EPISODES, once, SHORT)
    with pytest.raises(KeyboardInterrupt):
        train_images(EPISODES, twice, SHORT, stop)
    steps = []
    report = train_images(EPISODES, twice, SHORT, lambda step, losses: steps.append(step))
    assert steps == [3, 4]
    assert report["parameters"] == whole["parameters"]
    first, second = (load_images_model(path).network.state_dict() for path in (once, twice))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_seconds_end_the_schedule_before_its_steps(tmp_path):
    """The rate falls with whichever runs out first; what is resumed counts the seconds before."""
    config = dataclasses.replace(SHORT, steps=10**6, seconds=30.0)
    trainer = ImageTrainer(config, EPISODES, LAYOUT)
    rates = []
    for step, seconds in ((200, 0.0), (200, 15.0), (200, 29.9)):
        trainer.step, trainer.seconds = step, seconds
        trainer.train_step()
        rates.append(trainer.optimiser.param_groups[0]["lr"] / config.learning_rate)
    assert rates == pytest.approx([1.0, 0.51, 0.02], abs=1e-3)
    trainer.seconds = 30.0
    assert trainer.progress == 1.0
    report = train_images(EPISODES, tmp_path / "model.safetensors", dataclasses.replace(config, seconds=0.2))
    assert report["seconds"] >= 0.2
    assert 1 <= report["steps"] < 10**4
    assert all(math.isfinite(value) for value in report["final"].values())


def test_a_checkpoint_of_other_settings_or_data_or_a_torn_one_is_refused(tmp_path):
    out = tmp_path / "model.safetensors"
    train_images(EPISODES, out, SHORT)
    with pytest.raises(InputError, match="another configuration"):
        train_images(EPISODES, out, dataclasses.replace(SHORT, seed=1))
    with pytest.raises(InputError, match="another configuration"):
        train_images(EPISODES[:2], out, SHORT)
    checkpoint = checkpoint_path(out)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(InputError, match="can't resume"):
        train_images(EPISODES, out, SHORT)


def test_weights_of_other_symbols_or_damaged_ones_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    train_images(EPISODES, path, SHORT)
    assert load_images_model(path).layout == LAYOUT
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="can't read the image model"):
        load_images_model(path)
    with pytest.raises(InputError, match="keygrasp worldmodel train --model images"):
        load_images_model(tmp_path / "nowhere.safetensors")
    with pytest.raises(InputError, match="no episodes"):
        train_images([], path, SHORT)


@pytest.mark.parametrize(
    "change", [{"horizon": 4}, {"horizon": 16}, {"length": 6, "horizon": 7}, {"device": "tpu"}, {"seconds": -1.0}]
)
def test_impossible_settings_are_named(change):
    with pytest.raises(ConfigurationError, match="image model"):
        ImageTrainConfig(**change)


def test_the_command_trains_scores_and_refuses_settings_of_another_model(tmp_path, capfd):
    for number in range(3):
        write_episode(tmp_path / f"data/episode-{number:06d}.safetensors", episode(number, 17), LAYOUT)
    settings = tmp_path / "tiny.yaml"
    network = "{memory: 8, residual: 2, hidden: 8, channels: 2, heads: 2}"
    settings.write_text(f"{{steps: 2, batch: 1, length: 5, horizon: 5, network: {network}}}")
    out, figures = tmp_path / "model.safetensors", tmp_path / "figures.json"
    command = ["train", "--data", f"{tmp_path / 'data'}", "--settings", f"{settings}", "--out", f"{out}"]
    assert run([*command, "--model", "images", "--held-out", "1", "--json", f"{figures}"]) == 0
    assert "gripper_x" in capfd.readouterr().out
    report = json.loads(figures.read_text())
    assert [score["steps"] for score in report["scores"]] == [1, 5, 15]
    assert {"seconds", "provenance", "final"} <= set(report)
    assert load_images_model(out).network.config.memory == 8
    with pytest.raises(ConfigurationError, match="--model images"):
        run(command)
