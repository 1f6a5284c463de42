"""The reference planner is frozen: its answers on synthetic views are stored here.

If a stored digest fails, the planner has changed, and with it every tail that was ever reported: undo the change, or
give the new planner a new name. (A new version of OpenCV or SciPy may also do it; then compare success rates first.)
"""

import hashlib
import inspect

import numpy as np
import pytest

from keygrasp.geometry.cameras import overhead_pose
from keygrasp.protocol import PROTOCOL, ReferencePlanner, camera_noise
from keygrasp.protocol import reference as module
from keygrasp.scene import GripperSpec, OverheadView

_CAMERA = PROTOCOL.intrinsics


def _view(*boxes, noise=None):
    """Upright boxes (x, y, yaw, along, across, height) as an exact pinhole camera sees their tops."""
    rows, columns = np.indices((_CAMERA.height, _CAMERA.width))
    depth = np.full(rows.shape, PROTOCOL.camera_height)
    for x, y, yaw, along, across, height in boxes:
        top = PROTOCOL.camera_height - height
        dx = (columns - _CAMERA.cx) / _CAMERA.fx * top - x
        dy = -(rows - _CAMERA.cy) / _CAMERA.fy * top - y
        u, v = dx * np.cos(yaw) + dy * np.sin(yaw), dy * np.cos(yaw) - dx * np.sin(yaw)
        depth[(np.abs(u) <= along / 2) & (np.abs(v) <= across / 2)] = top
    if noise is not None:
        depth = camera_noise(depth, np.random.default_rng(noise))
    return OverheadView(depth.astype(np.float32), _CAMERA, overhead_pose(PROTOCOL.camera_height))


def _plan(view, lenient=False):
    return ReferencePlanner(lenient).plan(view, GripperSpec(), rng=np.random.default_rng(0))


_BOX = (0.02, -0.03, 0.5, 0.05, 0.12, 0.06)
_VIEWS = {
    "box": lambda: _view(_BOX),
    "noisy box": lambda: _view(_BOX, noise=1),
    "plate": lambda: _view((0.0, 0.0, 0.3, 0.06, 0.2, 0.015), noise=2),
    "cross": lambda: _view((0, 0, 0.2, 0.03, 0.16, 0.04), (0, 0, 0.2, 0.16, 0.03, 0.04), noise=3),
    "step": lambda: _view((-0.02, 0.04, -0.7, 0.09, 0.05, 0.03), (0.01, 0.04, -0.7, 0.03, 0.05, 0.09), noise=4),
}
_DIGESTS = {
    ("box", False): "15ef1be7d7875aed",
    ("noisy box", False): "490b8c91a0182d7d",
    ("plate", False): "3e27aee5526afa52",
    ("cross", False): "40d683c04ad5eff7",
    ("step", False): "131ef01564a2399c",
    ("box", True): "cee0386181681a89",
    ("noisy box", True): "443a5edf7767fa86",
    ("plate", True): "2e3213e3f09ddd4e",
    ("cross", True): "d53530cd4441e424",
    ("step", True): "2f8ff7ebbb45160a",
}


def _digest(plan):
    """Hash of all candidates to 0.1 mm and 0.001 rad, and of the rejections."""
    rows = [(round(g.x, 4), round(g.y, 4), round(g.z, 4), round(g.yaw, 3), round(g.width, 4)) for g in plan.candidates]
    rows = [tuple(value + 0.0 for value in row) for row in rows]  # no negative zeros
    return hashlib.sha256(repr((rows, sorted(plan.rejections.items()))).encode()).hexdigest()[:16]


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("name", _VIEWS)
def test_answers_are_the_stored_ones(name, lenient):
    assert _digest(_plan(_VIEWS[name](), lenient)) == _DIGESTS[name, lenient]


def test_a_box_is_grasped_across_its_short_side_at_the_centroid():
    grasp = _plan(_view(_BOX)).grasp
    assert (grasp.x, grasp.y) == pytest.approx((0.02, -0.03), abs=0.004)
    assert grasp.yaw == pytest.approx(0.5, abs=0.08)
    assert grasp.width == pytest.approx(0.05 + 0.016, abs=0.004)
    assert grasp.z == pytest.approx(0.06 - 0.020, abs=0.001)


def test_tips_keep_5_mm_from_the_table_and_the_lenient_ones_3():
    plate = _view((0.0, 0.0, 0.3, 0.05, 0.2, 0.015))
    assert _plan(plate).grasp.z == 0.005
    assert _plan(plate, lenient=True).grasp.z == 0.003


def test_what_is_too_wide_has_no_candidate_and_says_so():
    plan = _plan(_view((0.0, 0.0, 0.0, 0.1, 0.1, 0.05)))
    assert plan.grasp is None
    assert plan.reason == "wider than the gripper opens"
    assert plan.rejections["wider than the gripper opens"] > 0


def test_fingers_do_not_go_where_something_stands():
    # A slot of 10 mm between box and walls takes the 10 mm pads only without padding: the walls are as high as it.
    walls = [(side * 0.055, 0.0, 0.0, 0.02, 0.2, 0.06) for side in (-1, 1)]
    bridge = (0.0, 0.095, 0.0, 0.13, 0.012, 0.06)
    plan = _plan(_view((0.0, 0.0, 0.0, 0.05, 0.2, 0.06), *walls, bridge))
    free = _plan(_view((0.0, 0.0, 0.0, 0.05, 0.2, 0.06)))
    assert abs(free.grasp.y) < 0.01
    assert plan.rejections["the gripper would collide"] > 0
    assert plan.grasp is None or abs(plan.grasp.yaw) > 0.5


def test_the_palm_does_not_meet_a_higher_part():
    low, tower = (0.0, 0.0, 0.0, 0.12, 0.05, 0.02), (0.075, 0.0, 0.0, 0.03, 0.05, 0.09)
    plan = _plan(_view(low, tower))
    # Tips at 5 mm put the palm at 45 mm: it must stay 20 mm (half its width) away from the tower, which begins at 60.
    for grasp in plan.candidates:
        assert grasp.z > 0.04 or grasp.x < 0.06 - 0.020 + 0.006


def test_an_empty_table_is_an_answer():
    plan = _plan(_view(noise=7))
    assert plan.grasp is None
    assert plan.reason == "nothing stands on the table"


def test_it_stands_apart_from_the_product():
    source = inspect.getsource(module)
    assert "keygrasp.perception" not in source
    assert "keygrasp.grasps" not in source
