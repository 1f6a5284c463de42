"""The state doesn't depend on where the object lies, and mirrors as the physics does."""

import math

import numpy as np
import pytest
import torch

from keygrasp.refine.state import GRID_ACROSS, GRID_ALONG, SceneTensors, featurise
from keygrasp.scene import ROWS, TOTAL_ROWS, GripperSpec, HeightMap, KeypointKind, Keypoints

GRIPPER = GripperSpec()
ZERO = torch.zeros(1, dtype=torch.long)


def box_scene(x=0.0, y=0.0, yaw=0.0, size=(0.04, 0.08), height=0.05):
    """A box on the table as a height map with four contour keypoints and one skeleton circle."""
    cell, count = 0.0025, 144
    origin = np.array([-(count - 1) / 2 * cell] * 2)
    rows, columns = np.mgrid[:count, :count]
    points = np.stack([columns, rows], axis=-1) * cell + origin - (x, y)
    rotation = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
    local = points @ rotation
    inside = (np.abs(local[..., 0]) <= size[0] / 2) & (np.abs(local[..., 1]) <= size[1] / 2)
    heights = np.where(inside, height, 0.0).astype(np.float32)
    normals = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=float)
    fields = {
        "position": np.zeros((TOTAL_ROWS, 3), np.float32),
        "normal": np.zeros((TOTAL_ROWS, 2), np.float32),
        "radius": np.zeros(TOTAL_ROWS, np.float32),
        "contacts": np.zeros((TOTAL_ROWS, 2, 2), np.float32),
        "kind": np.repeat(np.array(list(ROWS), np.int8), list(ROWS.values())),
        "mask": np.zeros(TOTAL_ROWS, bool),
    }
    fields["position"][:4, :2] = (normals * np.array(size) / 2) @ rotation.T + (x, y)
    fields["position"][:4, 2] = height
    fields["normal"][:4] = normals @ rotation.T
    fields["mask"][:4] = True
    circle = ROWS[KeypointKind.CONTOUR]
    fields["position"][circle] = (x, y, height)
    fields["radius"][circle] = size[0] / 2
    fields["mask"][circle] = True
    return SceneTensors.build([HeightMap(heights, np.ones_like(inside), origin, cell)], [Keypoints(**fields)])


def features_of(scene, grasp, flip=None):
    flip = None if flip is None else torch.tensor([flip], dtype=torch.float32)
    return featurise(scene, ZERO, torch.tensor([grasp], dtype=torch.float32), GRIPPER, flip)


@pytest.mark.parametrize("move", [(0.05, -0.03, 0.0), (-0.02, 0.06, math.pi / 2), (0.01, 0.01, math.pi / 6)])
def test_moving_object_and_grasp_together_changes_nothing(move):
    x, y, yaw = move
    here = features_of(box_scene(), (0.0, 0.0, 0.02, 0.0, 0.06))
    there = features_of(box_scene(x, y, yaw), (x, y, 0.02, yaw, 0.06))
    assert torch.allclose(here.keypoints[here.mask], there.keypoints[there.mask], atol=1e-4)
    assert torch.allclose(here.scalars, there.scalars, atol=1e-5)
    # Heights are looked up on a grid: a turned edge may fall into the neighbouring cell, but only there.
    differ = (here.heights - there.heights).abs() > 0.05
    assert differ.float().mean() < 0.05


def test_height_samples_are_relative_to_the_fingertips():
    features = features_of(box_scene(height=0.05), (0.0, 0.0, 0.02, 0.0, 0.06))
    middle = features.heights[0, 0, GRID_ACROSS // 2, GRID_ALONG // 2]
    assert float(middle) == pytest.approx((0.05 - 0.02) / 0.04, abs=1e-4)


def test_pads_are_marked_where_they_stand():
    pads = features_of(box_scene(), (0.0, 0.0, 0.02, 0.0, 0.06)).heights[0, 2]
    columns = torch.nonzero(pads.sum(dim=0)).flatten().tolist()
    u = [(c - (GRID_ALONG - 1) / 2) * 0.00375 for c in columns]
    assert all(0.03 <= abs(value) <= 0.04 + 1e-9 for value in u)
    assert min(u) < 0 < max(u)


def test_both_mirrors_leave_a_symmetric_scene_alone_and_turn_an_asymmetric_one():
    grasp = (0.0, 0.0, 0.02, 0.0, 0.06)
    centred = features_of(box_scene(), grasp)
    off = features_of(box_scene(x=0.01), grasp)
    for flip in ((-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)):
        assert torch.allclose(features_of(box_scene(), grasp, flip).heights, centred.heights)
    assert torch.allclose(features_of(box_scene(x=-0.01), grasp).heights, off.heights.flip(-1))
    mirrored = features_of(box_scene(x=0.01), grasp, (-1.0, 1.0))
    assert torch.allclose(mirrored.heights, off.heights.flip(-1))
    assert not torch.allclose(mirrored.heights, off.heights)


def test_outside_the_map_is_the_table():
    features = features_of(box_scene(), (0.17, 0.17, 0.02, 0.0, 0.06))
    assert torch.allclose(features.heights[0, 1], torch.zeros(GRID_ACROSS, GRID_ALONG))
