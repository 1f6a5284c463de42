import numpy as np
import pytest

from keygrasp.errors import InputError
from keygrasp.grasps import check_grasps, footprint_clear, grasp_array, grasps_from_array
from keygrasp.scene import GripperSpec, HeightMap, PlanarGrasp

GRIPPER = GripperSpec()


def flat_map(heights=None):
    heights = np.zeros((144, 144), np.float32) if heights is None else heights
    return HeightMap(heights, np.ones((144, 144), bool), np.full(2, -0.17875), 0.0025)


def block_map(x_low, x_high, y_low, y_high, height):
    base = flat_map()
    axis = base.xy_of(np.column_stack([np.arange(144.0)] * 2))[:, 0]
    heights = np.zeros((144, 144), np.float32)
    rows = (axis > y_low) & (axis < y_high)
    columns = (axis > x_low) & (axis < x_high)
    heights[np.ix_(rows, columns)] = height
    return flat_map(heights)


def clear(height_map, *grasp, clearance=0.003):
    return bool(footprint_clear(height_map, np.array([grasp]), GRIPPER, clearance=clearance)[0])


def test_an_empty_table_is_clear_down_to_the_table_and_not_below():
    assert clear(flat_map(), 0, 0, 0.0, 0, 0.06)
    assert not clear(flat_map(), 0, 0, -0.001, 0, 0.06)


def test_beyond_the_map_things_go_on_as_at_its_edge():
    block = block_map(0.13, 0.2, -0.02, 0.02, 0.05)
    assert not clear(
        block, 0.16, 0, 0.03, 0, 0.085
    )  # one finger would come down beyond the map, where the block may be
    assert clear(block, 0.16, 0, 0.03, np.pi / 2, 0.056)
    assert clear(flat_map(), 0.16, 0, 0.0, 0, 0.085)
    assert clear(flat_map(), 1.0, 1.0, 0.005, 0, 0.05)


def test_fingers_beside_a_block_are_clear_and_on_it_are_not():
    block = block_map(-0.02, 0.02, -0.05, 0.05, 0.03)
    assert clear(block, 0, 0, 0.005, 0, 0.056)
    assert not clear(block, 0, 0, 0.005, 0, 0.036)
    assert not clear(block, 0, 0, 0.005, np.pi / 2, 0.056)
    assert clear(block, 0, 0, 0.036, np.pi / 2, 0.056)


def test_full_aperture_hits_the_neighbour_and_a_narrow_one_does_not():
    grasped = block_map(-0.015, 0.015, -0.05, 0.05, 0.03)
    neighbour = block_map(0.038, 0.08, -0.05, 0.05, 0.03)
    scene = flat_map(np.maximum(grasped.heights, neighbour.heights))
    assert not clear(scene, 0, 0, 0.005, 0, 0.085)
    assert clear(scene, -0.001, 0, 0.005, 0, 0.040)


def test_the_palm_meets_what_is_higher_than_the_pads():
    block = block_map(-0.02, 0.02, -0.05, 0.05, 0.06)
    assert not clear(block, 0, 0, 0.020, 0, 0.06)
    assert clear(block, 0, 0, 0.026, 0, 0.06)


def test_the_palm_also_meets_what_stands_beyond_the_fingers():
    far = block_map(0.052, 0.10, -0.05, 0.05, 0.08)
    assert not clear(far, 0, 0, 0.020, 0, 0.04)
    assert clear(far, 0, 0, 0.020, np.pi / 2, 0.04)


def test_yaw_turns_counter_clockwise():
    corner = block_map(0.015, 0.05, 0.015, 0.05, 0.04)
    assert not clear(corner, 0, 0, 0.01, np.pi / 4, 0.05)
    assert clear(corner, 0, 0, 0.01, -np.pi / 4, 0.05)


def test_noise_of_the_table_stops_no_finger():
    heights = np.random.default_rng(0).normal(0, 0.0018, (144, 144)).astype(np.float32)
    rng = np.random.default_rng(1)
    grasps = np.column_stack(
        [rng.uniform(-0.1, 0.1, (200, 2)), np.full(200, 0.003), rng.uniform(-1.5, 1.5, 200), np.full(200, 0.05)]
    )
    assert footprint_clear(flat_map(heights), grasps, GRIPPER).mean() > 0.95


def test_a_fine_wall_anywhere_beneath_the_gripper_is_seen():
    """The coarse sampling must not step over a wall of one cell, wherever it stands."""
    for x in np.arange(-0.055, 0.056, 0.0025):
        wall = block_map(x - 0.0026, x + 0.0026, -0.015, 0.015, 0.09)
        assert not clear(wall, 0, 0, 0.03, 0, 0.04), x


def test_many_grasps_at_once_agree_with_one_by_one():
    block = block_map(-0.02, 0.02, -0.05, 0.05, 0.03)
    rng = np.random.default_rng(2)
    grasps = np.column_stack(
        [rng.uniform(-0.06, 0.06, (300, 2)), rng.uniform(0, 0.05, 300), rng.uniform(-1.5, 1.5, 300), np.full(300, 0.05)]
    )
    together = footprint_clear(block, grasps, GRIPPER)
    assert 0 < together.sum() < 300
    assert np.array_equal(together, [clear(block, *g) for g in grasps])


def test_no_grasps_is_an_empty_answer():
    assert footprint_clear(flat_map(), np.zeros((0, 5)), GRIPPER).shape == (0,)


def test_more_clearance_never_clears_more():
    block = block_map(-0.02, 0.02, -0.05, 0.05, 0.03)
    rng = np.random.default_rng(3)
    grasps = np.column_stack(
        [rng.uniform(-0.06, 0.06, (300, 2)), rng.uniform(0, 0.05, 300), rng.uniform(-1.5, 1.5, 300), np.full(300, 0.05)]
    )
    assert not np.any(
        footprint_clear(block, grasps, GRIPPER, clearance=0.006) & ~footprint_clear(block, grasps, GRIPPER, 0.002)
    )


@pytest.mark.parametrize("bad", [np.zeros(5), np.zeros((3, 4)), np.full((1, 5), np.nan)])
def test_arrays_of_another_form_are_refused(bad):
    with pytest.raises(InputError):
        check_grasps(bad)


def test_arrays_round_trip():
    grasps = (PlanarGrasp(0.01, 0.02, 0.03, 0.4, 0.05, 0.7), PlanarGrasp(0, 0, 0.01, -1.0, 0.02, 0.1))
    array = grasp_array(grasps)
    assert array.shape == (2, 5)
    assert grasps_from_array(array, np.array([0.7, 0.1])) == grasps
    assert grasp_array(()).shape == (0, 5)
    with pytest.raises(InputError, match="2 grasps need as many scores"):
        grasps_from_array(array, np.zeros(3))
