"""The fast way through the network gives the network's own values, whatever its sizes and whatever is asked."""

import dataclasses
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_views import box, placed, render

from keygrasp.perception import perceive
from keygrasp.refine.actions import ACTIONS
from keygrasp.refine.inference import FastNetwork, ObjectView, action_logits
from keygrasp.refine.network import NetworkConfig, QNetwork, default_weights, load_network
from keygrasp.refine.state import SceneTensors, featurise
from keygrasp.scene import GripperSpec

GRIPPER = GripperSpec()


@pytest.fixture(scope="module")
def scene():
    perceived = perceive(render(placed(box(0.12, 0.05, 0.05), 0.01, -0.02, 0.4)))
    return SceneTensors.build([perceived.height_map], [perceived.keypoints[0]])


def network_of(config, seed=0):
    """A network whose logits are far from 0, so that mistakes show."""
    torch.manual_seed(seed)
    network = QNetwork(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)
    return network


def random_grasps(count, seed, reach=0.2):
    rng = np.random.default_rng(seed)
    low, high = (-reach, -reach, 0.0, -np.pi / 2, 0.004), (reach, reach, 0.1, np.pi / 2, 0.085)
    return rng.uniform(low, high, (count, 5)).astype(np.float32)


def expected(network, scene, grasps, gripper=GRIPPER):
    index = torch.zeros(len(grasps), dtype=torch.long)
    with torch.no_grad():
        return network(featurise(scene, index, torch.from_numpy(grasps), gripper)).numpy()


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 70),
    sizes=st.tuples(st.integers(1, 48), st.integers(1, 16), st.integers(1, 32), st.integers(1, 192)),
    seed=st.integers(0, 1000),
)
def test_any_network_and_batch_gives_the_networks_values(scene, count, sizes, seed):
    width, first, second, hidden = sizes
    network = network_of(NetworkConfig(width, (first, second), hidden), seed)
    grasps = random_grasps(count, seed)
    found = action_logits([FastNetwork(network)], ObjectView(scene, GRIPPER), grasps)
    wanted = expected(network, scene, grasps)
    np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-5)


def test_the_shipped_network_gives_its_values_on_the_object(scene):
    network, _ = load_network(default_weights())
    grasps = random_grasps(300, 1, reach=0.06)
    found = action_logits([FastNetwork(network)], ObjectView(scene, GRIPPER), grasps)
    wanted = expected(network, scene, grasps)
    assert np.ptp(wanted) > 1
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_grasps_on_the_borders_between_cells_see_the_same_cells(scene):
    network = network_of(NetworkConfig(8, (4, 8), 16))
    grasps = random_grasps(64, 2, reach=0.06)
    cell, origin = scene.cell, scene.origin.numpy()
    grasps[:, :2] = np.rint((grasps[:, :2] - origin) / cell) * cell + origin
    grasps[:32, :2] += np.float32(cell / 2)
    grasps[:, 3] = np.tile(np.array([0.0, np.pi / 2, -np.pi / 4, np.pi / 4], np.float32), 16)
    found = action_logits([FastNetwork(network)], ObjectView(scene, GRIPPER), grasps)
    np.testing.assert_allclose(found, expected(network, scene, grasps), atol=1e-4, rtol=1e-5)


def test_other_grippers_and_few_or_no_keypoints_are_seen(scene):
    network = network_of(NetworkConfig(8, (4, 8), 16))
    gripper = dataclasses.replace(GRIPPER, pad_width=0.03, pad_thickness=0.02, pad_height=0.05, max_opening=0.1)
    grasps = random_grasps(5, 3, reach=0.06)
    for used in (0, 1, 100):
        mask = torch.arange(scene.mask.shape[1])[None] < used
        some = dataclasses.replace(scene, mask=mask)
        found = action_logits([FastNetwork(network)], ObjectView(some, gripper), grasps)
        np.testing.assert_allclose(found, expected(network, some, grasps, gripper), atol=1e-4, rtol=1e-5)


def test_several_networks_give_their_mean(scene):
    networks = [FastNetwork(network_of(NetworkConfig(8, (4, 8), 16), seed)) for seed in range(3)]
    view, grasps = ObjectView(scene, GRIPPER), random_grasps(40, 4)
    each = [action_logits([network], view, grasps) for network in networks]
    np.testing.assert_allclose(action_logits(networks, view, grasps), np.mean(each, axis=0), atol=1e-5)


def test_no_grasps_give_no_values(scene):
    network = FastNetwork(network_of(NetworkConfig(4, (2, 4), 8)))
    assert action_logits([network], ObjectView(scene, GRIPPER), np.zeros((0, 5), np.float32)).shape == (0, ACTIONS)


def test_threads_dont_share_buffers(scene):
    """Buffers that are reused must not be written by another thread meanwhile."""
    network, view = FastNetwork(network_of(NetworkConfig())), ObjectView(scene, GRIPPER)
    batches = [random_grasps(64, seed) for seed in range(4)]
    wanted = [action_logits([network], view, grasps) for grasps in batches]
    found = [None] * len(batches)

    def ask(which):
        found[which] = [action_logits([network], view, batches[which]) for _ in range(10)]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answers, right in zip(found, wanted, strict=True):
        for answer in answers:
            np.testing.assert_array_equal(answer, right)
