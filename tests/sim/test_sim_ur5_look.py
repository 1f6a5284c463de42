"""The arm is seen in its colours, not as a black shape."""

import numpy as np
import pytest

from keygrasp.errors import RobotError
from keygrasp.scene import GripperSpec
from keygrasp.sim import UR5, World, look_at
from keygrasp.sim.ur5_look import with_coarse_look


def test_the_arm_is_grey_and_blue_not_black():
    with World() as world:
        UR5(world, GripperSpec())
        picture = world.render_rgb(160, 120, look_at((0.9, -0.9, 0.6), (-0.2, 0, 0.25))).astype(int)
    red, blue = picture[..., 0], picture[..., 2]
    assert np.mean(picture.max(axis=-1) < 20) < 0.003
    assert np.count_nonzero((blue - red > 25) & (blue < 200)) > 30  # the floor's blue is lighter


def test_a_mesh_that_is_no_stl_is_named(tmp_path):
    mesh = tmp_path / "wrist1.stl"
    mesh.write_bytes(b"solid wrist1")
    urdf = f'<visual><geometry><mesh filename="{mesh}"/></geometry></visual>'
    with pytest.raises(RobotError, match=r"wrist1\.stl is no binary STL"):
        with_coarse_look(urdf)
