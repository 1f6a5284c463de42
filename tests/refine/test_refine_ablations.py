"""Ablations: what is varied is exactly what was asked for, runs are compared in pairs, and all of it resumes."""

import dataclasses

import pytest
import torch
import yaml
from test_refine_network import random_features
from test_refine_training import config as small_training
from test_refine_training import labels  # noqa: F401 - a fixture

from keygrasp.configuration import load_config
from keygrasp.errors import ConfigurationError
from keygrasp.refine.ablations import AblationConfig, Variation, _plain, run_ablations, trainings_of
from keygrasp.refine.inference import FastNetwork
from keygrasp.refine.network import NetworkConfig, QNetwork
from keygrasp.refine.train_config import TrainConfig
from keygrasp.trials.planners import FACTORIES, PlannerSpec, build_planner, planner_spec, stream_of


@pytest.fixture
def training(labels, tmp_path):  # noqa: F811 - the fixture
    """A file of a small training's settings."""
    path = tmp_path / "training.yaml"
    settings = small_training(labels, tmp_path / "unused", steps=4, warm_up=2, evaluate_every=4)
    path.write_text(yaml.safe_dump(_plain(dataclasses.asdict(settings))))
    return path


def test_a_variation_changes_what_it_names_and_nothing_else(training, tmp_path):
    variations = (Variation("base"), Variation("seen", {"network": {"inputs": "heights"}, "targets": "retrace"}))
    config = AblationConfig(out=tmp_path, training=training, trainings=variations, seeds=(0, 5), steps=3)
    made = list(trainings_of(config))
    assert [(each.name, seed) for each, seed, _ in made] == [("base", 0), ("base", 5), ("seen", 0), ("seen", 5)]
    base, seen = made[0][2], made[2][2]
    assert base == dataclasses.replace(load_config(training, TrainConfig), steps=3, out=tmp_path / "base-seed0")
    network = dataclasses.replace(base.network, inputs="heights")
    assert seen == dataclasses.replace(base, network=network, targets="retrace", out=tmp_path / "seen-seed0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"searches": (Variation("base", {"max_steps": 2}),)},  # the first must be the base
        {"searches": (Variation("base"), Variation("base", {"max_steps": 2}))},
        {"searches": (Variation("base"), Variation("other", {"max_stepz": 2}))},
        {"searches": (Variation("../base"),)},
        {"objects": 0},
        {"scenes": ()},
        {"trainings": (Variation("base"),), "seeds": ()},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        AblationConfig(**wrong)


def test_an_unknown_setting_of_a_training_is_named_before_any_begins(training, tmp_path):
    variations = (Variation("base"), Variation("typo", {"n_steps": 1}))
    with pytest.raises(ConfigurationError, match="n_step"):
        run_ablations(AblationConfig(out=tmp_path, training=training, trainings=variations))


@pytest.mark.parametrize("name", ["ablations", "ablations-search", "ablations-small"])
def test_the_files_that_come_with_the_project_are_read(name, pytestconfig):
    config = load_config(pytestconfig.rootpath / "configs" / f"{name}.yaml", AblationConfig)
    assert len(config.searches) > 1 or len(config.trainings) > 1
    assert len(config.seeds) >= 3


@pytest.mark.parametrize(("inputs", "unseen"), [("keypoints", "heights"), ("heights", "keypoints")])
def test_a_network_without_an_input_ignores_it_and_stays_so(inputs, unseen):
    torch.manual_seed(0)
    network, features = QNetwork(NetworkConfig(8, (4, 4), 16, inputs)), random_features()
    optimiser = torch.optim.AdamW(network.parameters(), 1e-2, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        network(features).square().sum().backward()
        optimiser.step()
    other = dataclasses.replace(features, **{unseen: torch.randn_like(getattr(features, unseen))})
    assert torch.equal(network(features), network(other))
    # The code at run time knows nothing of it: the weights are 0.
    everything = QNetwork(NetworkConfig(8, (4, 4), 16))
    everything.load_state_dict(network.state_dict())
    assert torch.allclose(everything(features), network(features), atol=1e-6)
    FastNetwork(network)


@pytest.mark.slow
def test_variations_are_trained_tried_compared_and_taken_up_again(training, tmp_path):
    config = AblationConfig(
        out=tmp_path, training=training, seeds=(0,), objects=1, scenes=(2,), workers=1,
        trainings=(Variation("base"), Variation("retrace", {"targets": "retrace"})),
    )  # fmt: skip
    found = run_ablations(config)["trainings"]
    assert list(found) == ["base", "retrace"]
    assert found["base"]["difference"]["difference"] == 0
    assert all(each["single_shot"]["trials"] == 1 for each in found.values())
    assert found["retrace"]["shares"]["rollouts"] > 0
    assert 0 <= found["retrace"]["final"]["validation_auroc"] <= 1
    told = []
    again = run_ablations(config, lambda what, done, total: told.append((what, done, total)))
    assert again["trainings"] == found
    assert all(done == total for _, done, total in told)  # nothing was done again


def test_variations_of_one_planner_draw_the_same_random_numbers():
    shipped, fewer = (
        build_planner(PlannerSpec(name, FACTORIES["refined"], {"kind": "refined", **changes}))
        for name, changes in (("base", {}), ("steps-0", {"max_steps": 0}))
    )
    assert (shipped.name, fewer.name) == ("base", "steps-0")
    assert stream_of(shipped) == stream_of(fewer) == stream_of(build_planner(planner_spec("refined"))) == "refined"
    assert stream_of(build_planner(planner_spec("random"))) == "random"
