"""Batched refinement without physics: when it pays, when it ends, and that seeds decide everything."""

import numpy as np
import pytest
import torch
from synthetic_views import box, placed, render

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.contact_model import ContactConfig, ContactModel, save_contact_model
from keygrasp.experience.solids import SIDE, SolidScenes
from keygrasp.perception import perceive
from keygrasp.refine.actions import ACTIONS, EXECUTE
from keygrasp.refine.batched import BatchedRefinement
from keygrasp.refine.dataset import GraspDataset
from keygrasp.refine.network import NetworkConfig
from keygrasp.refine.state import SceneTensors, featurise
from keygrasp.refine.train_config import TrainConfig
from keygrasp.refine.training import Trainer
from keygrasp.refine.virtual import virtual_refinement
from keygrasp.scene import GripperSpec


@pytest.fixture
def solids():
    columns = torch.zeros(3, SIDE, SIDE, dtype=torch.int64)
    columns[:, 60:80, 60:80] = 0xFFFF
    top = torch.where(columns != 0, 0.05, 0.0)
    return SolidScenes(columns, top, torch.tensor([[0.0, 0.0, 0.03]] * 3), torch.full((3,), 0.1))


def always(success):
    model = ContactModel(ContactConfig(hidden=4, dropout=0.0)).eval()
    with torch.no_grad():
        model.layers[-1].weight.zero_()
        model.layers[-1].bias.fill_(30.0 if success else -30.0)
    return model


def test_only_an_execution_pays_and_ends(solids):
    trials = virtual_refinement(solids, always(True), GripperSpec(), 6)
    before = trials.grasps.clone()
    got = trials.step(torch.tensor([EXECUTE, 0, EXECUTE, 1, 2, 3]))
    assert got.reward.tolist() == [1, 0, 1, 0, 0, 0]
    assert got.terminated.tolist() == [True, False, True, False, False, False]
    assert not got.truncated.any()
    assert torch.all((trials.grasps[1] - before[1]).abs() < 0.02)  # moved a little; row 0 is another episode


def test_what_the_model_calls_impossible_pays_nothing(solids):
    trials = virtual_refinement(solids, always(False), GripperSpec(), 50)
    assert trials.step(torch.full((50,), EXECUTE)).reward.sum() == 0


def test_moves_run_out_as_truncation(solids):
    trials = virtual_refinement(solids, always(True), GripperSpec(), 4, max_steps=3)
    move = torch.zeros(4, dtype=torch.long)
    ends = [trials.step(move).truncated.all().item() for _ in range(6)]
    assert ends == [False, False, True, False, False, True]


def test_the_same_seed_gives_the_same_episodes(solids):
    runs = []
    for _ in range(2):
        trials = virtual_refinement(solids, ContactModel(ContactConfig(hidden=4)).eval(), GripperSpec(), 20, seed=5)
        torch.manual_seed(1)
        for _ in range(30):
            trials.step(torch.randint(ACTIONS, (20,), generator=torch.Generator().manual_seed(0)))
        runs.append(torch.cat([trials.grasps, trials.scene[:, None]], dim=1))
    assert torch.equal(*runs)


def test_without_an_end_of_its_own_an_episode_waits_until_it_is_begun_anew():
    """The face that a learner with its own resets uses: only what is begun changes, and an ended episode can't move."""

    def starts(begins):
        return torch.arange(3), torch.full((3, 5), 0.05)

    episodes = BatchedRefinement(lambda scene, grasps: scene > 0, starts, 3, GripperSpec())
    with pytest.raises(InputError, match="has ended"):
        episodes.step(torch.zeros(3, dtype=torch.long))  # nothing was begun
    episodes.begin(torch.ones(3, dtype=torch.bool))
    got = episodes.step(torch.tensor([EXECUTE, EXECUTE, 0]))
    assert got.reward.tolist() == [0, 1, 0]
    moved = episodes.grasps.clone()
    episodes.begin(got.terminated)
    assert torch.all(episodes.grasps[:2] == 0.05)
    assert torch.equal(episodes.grasps[2], moved[2])
    assert not episodes.step(torch.zeros(3, dtype=torch.long)).terminated.any()


def test_observing_needs_images(solids):
    with pytest.raises(InputError, match="no images"):
        virtual_refinement(solids, always(True), GripperSpec(), 2).observe()


def test_nothing_to_do_is_an_error(solids):
    with pytest.raises(InputError):
        virtual_refinement(solids, always(True), GripperSpec(), 0)


@pytest.mark.parametrize("change", [{"virtual_batch": 8}, {"contact_model": "x"}, {"virtual_batch": -1}])
def test_a_contact_model_and_its_batch_need_each_other(change):
    with pytest.raises(ConfigurationError):
        TrainConfig(**change)


def test_training_uses_the_models_labels(solids, tmp_path):
    """Two scenes whose few executions say nothing, and a model that calls every grasp good."""
    save_contact_model(tmp_path / "contact.safetensors", always(True))
    seen = perceive(render(placed(box(0.05, 0.05, 0.05), 0.0, 0.0, 0.0)))
    data = GraspDataset(
        scenes=SceneTensors.build([seen.height_map], [seen.keypoints[0]]),
        scene=torch.zeros(10, dtype=torch.long),
        grasps=torch.tensor(np.tile([0.0, 0.0, 0.02, 0.0, 0.07], (10, 1)), dtype=torch.float32),
        success=torch.tensor([1.0, 0.0] * 5),
        gripper=GripperSpec(),
        objects=("box",),
        solids=solids,
    )
    config = TrainConfig(
        steps=200, warm_up=200, execute_batch=4, virtual_batch=64, virtual_executions=1, learning_rate=5e-3,
        contact_model=tmp_path / "contact.safetensors", network=NetworkConfig(8, (4, 4), 16), device="cpu",
    )  # fmt: skip
    trainer = Trainer(config, data, None)
    losses = [trainer.train_step() for _ in range(200)]
    assert losses[-1]["virtual_loss"] < 0.8 * losses[0]["virtual_loss"]
    features = featurise(data.scenes, data.scene[:1], data.grasps[:1], data.gripper)
    assert torch.sigmoid(trainer.online.execute_logit(features)).item() > 0.6  # half of the executions failed
