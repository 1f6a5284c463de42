"""The contact model: it learns what decides, mirrors change nothing, files are checked, and its report is honest."""

import numpy as np
import pytest
import torch

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.experience.contact_fit import ContactFitConfig, agreement, fit_contact_model
from keygrasp.experience.contact_model import (
    ContactConfig,
    ContactModel,
    contact_inputs,
    load_contact_model,
    save_contact_model,
)
from keygrasp.experience.labels import SceneLabels, write_index, write_shard
from keygrasp.experience.solids import PAD_LAYERS, ROWS, PadProfiles
from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.geometry.poses import make_pose
from keygrasp.objects import Catalog
from keygrasp.scene import GripperSpec, OverheadView

SMALL = ContactConfig(hidden=32, steps=150, batch=256, dropout=0.0)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Embedded objects as they fall from their body frame; a grasp holds where the tips are below its middle."""
    folder = tmp_path_factory.mktemp("labels")
    names, rng = Catalog().names()[:4], np.random.default_rng(0)
    scenes = []
    for number, name in enumerate(names):
        height = -Catalog().prepare(name, "E").vertices[:, 2].min()
        grasps = np.column_stack(
            [
                rng.uniform(-0.01, 0.01, (200, 2)),
                rng.uniform(0.0, 2 * height, 200),
                rng.uniform(-1.5, 1.5, 200),
                np.full(200, 0.08),
            ]
        )
        outcome = np.where(grasps[:, 2] < height, 0, 3).astype(np.uint8)
        depth = np.full((12, 16), 0.7, np.float32)
        pose = make_pose((0.0, 0.0, height), np.eye(3))
        scenes.append(
            SceneLabels(name, number, pose, depth, grasps.astype(np.float32), outcome, np.zeros(200, np.uint8))
        )
    write_index(
        folder, OverheadView(depth, Intrinsics(16, 12, 32.0, 32.0, 7.5, 5.5), overhead_pose(0.7)), GripperSpec(), {}
    )
    write_shard(folder / "shard-00000.npz", scenes)
    return folder


def test_learns_what_decides_and_says_how_well_on_objects_it_never_saw(labels, tmp_path):
    config = ContactFitConfig(labels=(labels,), out=tmp_path, held_out=0.25, device="cpu", model=SMALL)
    report = fit_contact_model(config)
    assert report["labels"] == 800
    assert (report["objects"], report["held_out_objects"]) == (4, 1)
    assert sum(report["agreement"]["confusion"].values()) == 200
    assert report["agreement"]["balanced_accuracy"] > 0.8
    assert load_contact_model(tmp_path / "contact.safetensors").config == SMALL


def profiles(count, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.rand(*shape, generator=generator)

    grasps = torch.cat([draw(count, 4) * 0.05, 0.04 + draw(count, 1) * 0.04], dim=1)
    way = draw(count, 2, ROWS, PAD_LAYERS) * 0.04
    return PadProfiles(way, draw(count, 2) * 0.01, draw(count) * 0.01, draw(count, 3) * 0.02), grasps


def test_a_mirrored_grasp_gives_the_mirrored_inputs():
    seen, grasps = profiles(3)
    mirrored = PadProfiles(
        seen.way.flip(1).flip(2), seen.fingers.flip(1), seen.palm, seen.centre * torch.tensor([-1.0, -1.0, 1.0])
    )
    mass, flip = torch.full((3,), 0.1), -torch.ones(3, 2)
    assert torch.equal(contact_inputs(seen, grasps, mass, flip), contact_inputs(mirrored, grasps, mass))


def test_inputs_are_finite_and_bounded():
    inputs = contact_inputs(*profiles(50), torch.full((50,), 0.5))
    assert torch.isfinite(inputs).all()
    assert inputs.abs().max() <= 3.0


def test_a_file_that_is_no_contact_model(tmp_path):
    path = tmp_path / "contact.safetensors"
    with pytest.raises(InputError, match="can't read the contact model"):
        load_contact_model(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="can't read the contact model"):
        load_contact_model(path)
    save_contact_model(path, ContactModel(SMALL))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="can't read the contact model"):
        load_contact_model(path)


def test_weights_of_a_refiner_are_refused(tmp_path):
    from keygrasp.refine.network import QNetwork, save_network

    save_network(tmp_path / "w.safetensors", QNetwork())
    with pytest.raises(InputError, match="kg-contact-1"):
        load_contact_model(tmp_path / "w.safetensors")


def test_agreement_counts_both_kinds_of_error():
    found = agreement(np.array([0.9, 0.8, 0.2, 0.1, 0.7]), np.array([1.0, 0.0, 1.0, 0.0, 1.0]))
    assert list(found["confusion"].values()) == [2, 1, 1, 1]
    assert found["balanced_accuracy"] == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_one_object_cannot_be_checked(labels, tmp_path):
    from keygrasp.experience.labels import read_shard

    for name in ("index.json",):
        (tmp_path / name).write_bytes((labels / name).read_bytes())
    write_shard(tmp_path / "shard-00000.npz", read_shard(labels / "shard-00000.npz")[:1])
    with pytest.raises(InputError, match="only one"):
        fit_contact_model(ContactFitConfig(labels=(tmp_path,), out=tmp_path, device="cpu", model=SMALL))


@pytest.mark.parametrize("change", [{"held_out": 0.0}, {"held_out": 1.5}, {"device": "tpu"}])
def test_settings_out_of_range(change):
    with pytest.raises(ConfigurationError):
        ContactFitConfig(**change)
