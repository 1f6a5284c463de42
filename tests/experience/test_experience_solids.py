"""True geometry as columns: ways of the pads against what can be said by hand, undercuts, and other frames."""

import numpy as np
import pytest
import torch
import trimesh

from keygrasp.experience.solids import CELL, LAYER, PAD_LAYERS, ROWS, SIDE, SolidScenes, pad_profiles
from keygrasp.geometry.poses import make_pose, rotation_from_quaternion
from keygrasp.objects.prepared import assemble
from keygrasp.scene import GripperSpec

GRIPPER = GripperSpec()


def solid(*boxes, pose=None):
    """One scene of a solid made of boxes ((size), (centre)) in the workspace frame; moved by ``pose``."""
    parts = [trimesh.creation.box(size, make_pose(centre, np.eye(3))) for size, centre in boxes]
    whole = trimesh.util.concatenate(parts)
    prepared = assemble(
        "solid", "file", np.array(whole.vertices), np.array(whole.faces),
        tuple(np.array(p.vertices) for p in parts), rule="none",
    )  # fmt: skip
    # The body frame lies in the centre of mass along the principal axes: put it back by what was the first vertex.
    centre = sum(p.volume * p.center_mass for p in parts) / sum(p.volume for p in parts)
    rest = np.array(whole.vertices) - centre
    u, _, vt = np.linalg.svd(rest.T @ prepared.vertices)
    back = make_pose(centre, u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt)
    assert np.allclose(prepared.vertices @ back[:3, :3].T + centre, whole.vertices, atol=1e-9)
    return SolidScenes.build([prepared], [back if pose is None else pose @ back])


def profiles(scene, *grasps):
    rows = torch.tensor(grasps, dtype=torch.float32)
    return pad_profiles(scene, torch.zeros(len(rows), dtype=torch.long), rows, GRIPPER)


BOX = solid(((0.05, 0.04, 0.03), (0.0, 0.0, 0.015)))


def test_pads_meet_a_box_where_its_sides_are():
    found = profiles(
        BOX, (0.0, 0.0, 0.005, 0.0, 0.08), (0.01, 0.0, 0.005, 0.0, 0.08), (0.0, 0.0, 0.005, np.pi / 2, 0.08)
    )
    way = found.way[..., : int(0.02 / LAYER)]  # layers below the top
    assert way.shape[1:3] == (2, ROWS)
    assert torch.allclose(way[0], torch.tensor(0.015), atol=1.1 * CELL)
    # The second grasp is 10 mm off: the box lies towards its negative pad.
    assert torch.allclose(way[1, 0], torch.tensor(0.025), atol=1.1 * CELL)
    assert torch.allclose(way[1, 1], torch.tensor(0.005), atol=1.1 * CELL)
    assert torch.allclose(way[2], torch.tensor(0.020), atol=1.1 * CELL)


def test_above_the_object_the_way_is_free():
    found = profiles(BOX, (0.0, 0.0, 0.005, 0.0, 0.08), (0.0, 0.0, 0.035, 0.0, 0.08))
    assert torch.all(found.way[0, ..., -1] == 0.08)  # that layer of the pads is 38 mm over the tips
    assert torch.all(found.way[1] == 0.08)


def test_what_lies_beneath_fingers_and_palm():
    found = profiles(BOX, (0.0, 0.0, 0.010, 0.0, 0.08), (0.0, 0.0, 0.010, 0.0, 0.04))
    assert found.fingers[0].tolist() == pytest.approx([-0.010, -0.010])
    assert found.fingers[1].tolist() == pytest.approx([0.020, 0.020], abs=1e-6)
    assert found.palm[0].item() == pytest.approx(0.03 - 0.010 - GRIPPER.pad_height, abs=1e-6)


def test_a_cap_over_a_stem_is_an_undercut_that_no_height_map_has():
    mushroom = solid(((0.02, 0.02, 0.03), (0.0, 0.0, 0.015)), ((0.06, 0.06, 0.02), (0.0, 0.0, 0.04)))
    way = profiles(mushroom, (0.0, 0.0, 0.0, 0.0, 0.08)).way[0]
    stem, cap = way[0, ROWS // 2, 3], way[0, ROWS // 2, 11 - 1]
    assert stem.item() == pytest.approx(0.030, abs=1.1 * CELL)
    assert cap.item() == pytest.approx(0.010, abs=1.1 * CELL)


def test_a_turned_scene_and_a_turned_grasp_are_the_same():
    turn = make_pose((0.03, -0.02, 0.0), rotation_from_quaternion([0, 0, np.sin(0.35), np.cos(0.35)]))
    boxes = (((0.05, 0.03, 0.03), (0.0, 0.0, 0.015)), ((0.02, 0.02, 0.06), (0.01, 0.0, 0.03)))
    here = profiles(solid(*boxes), (0.0, 0.0, 0.01, 0.2, 0.08))
    there = profiles(solid(*boxes, pose=turn), (0.03, -0.02, 0.01, 0.9, 0.08))
    assert (here.way - there.way).abs().mean() < CELL
    assert torch.allclose(here.centre, there.centre, atol=1e-6)


def test_the_centre_of_mass_is_in_the_grippers_frame():
    found = profiles(BOX, (0.01, 0.02, 0.005, np.pi / 2, 0.08))
    assert found.centre[0].tolist() == pytest.approx([-0.02, 0.01, 0.010], abs=1e-6)


def test_what_lies_outside_of_the_grid_is_cut_off_and_what_lies_under_the_table_too():
    far = solid(((0.05, 0.04, 0.5), (SIDE * CELL, 0.0, 0.0)), ((0.02, 0.02, 0.02), (0.0, 0.0, 0.01)))
    assert torch.all(profiles(far, (0.0, 0.0, 0.0, 0.0, 0.08)).way[0, :, ROWS // 2, 1] < 0.08)
    assert far.columns.shape == (1, SIDE, SIDE)


def test_joined_scenes_keep_their_numbers():
    both = SolidScenes.join([BOX, solid(((0.02, 0.02, 0.02), (0.0, 0.0, 0.01)))])
    rows = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.08]] * 2)
    way = pad_profiles(both, torch.tensor([1, 0]), rows, GRIPPER).way[:, :, ROWS // 2, 2]
    assert way[0].tolist() == pytest.approx([0.03, 0.03], abs=1.1 * CELL)
    assert way[1].tolist() == pytest.approx([0.015, 0.015], abs=1.1 * CELL)
    assert abs(PAD_LAYERS * LAYER - GRIPPER.pad_height) < LAYER
