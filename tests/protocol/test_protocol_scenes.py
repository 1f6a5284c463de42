"""Scenes: settled, seen whole, the same in any process, and never marked by what was executed before."""

import dataclasses
import hashlib
import subprocess
import sys

import numpy as np
import pytest

from keygrasp.errors import InputError
from keygrasp.geometry.poses import transform_points
from keygrasp.protocol import PROTOCOL, Perturbation, ReferencePlanner, SceneError, SceneSpec, build_scene, scenes
from keygrasp.scene import Outcome, PlanarGrasp

_SPEC = SceneSpec("327", "E", 5)


def _digest(scene):
    return hashlib.sha256(scene.view.depth.tobytes() + scene.object_pose.tobytes()).hexdigest()


@pytest.fixture(scope="module")
def scene():
    with build_scene(_SPEC) as built:
        yield built


@pytest.fixture(scope="module")
def grasp(scene):
    return ReferencePlanner().plan(scene.view, scene.robot.gripper, rng=np.random.default_rng(0)).grasp


@pytest.fixture(autouse=True)
def _as_new(scene):
    scene.reset()


def test_the_object_lies_still_on_the_table_and_inside_the_image(scene):
    points = transform_points(scene.object_pose, scene.handle.points)
    assert points[:, 2].min() == pytest.approx(0.0, abs=0.002)
    assert scenes.in_view(points)
    before = scene.object_pose
    scene.world.step(120)
    np.testing.assert_allclose(scene.object_pose, before, atol=1e-3)


def test_the_image_shows_the_object_where_it_is(scene):
    camera = scene.view.camera_in_workspace
    assert camera[2, 3] == 0.70
    heights = 0.70 - scene.true_depth
    top = transform_points(scene.object_pose, scene.handle.points)[:, 2].max()
    assert np.nanmax(heights) == pytest.approx(top, abs=0.002)
    error = scene.view.depth - scene.true_depth
    # 1 mm and, between its knots, 1 mm of smooth noise make 1.4 mm; the median of |error| is 0.67 of that.
    assert np.nanmedian(np.abs(error)) == pytest.approx(0.00095, rel=0.2)
    assert 0.002 < np.isnan(scene.view.depth).mean() < 0.05


def test_equal_specifications_give_equal_scenes_in_another_process(scene):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_protocol_scenes import _SPEC, _digest\n"
        "from keygrasp.protocol import build_scene\n"
        "print(_digest(build_scene(_SPEC)))"
    )
    here = str(__import__("pathlib").Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", script, here], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == _digest(scene)
    with build_scene(dataclasses.replace(_SPEC, seed=6)) as other:
        assert _digest(other) != _digest(scene)


def test_executions_do_not_depend_on_each_other(scene, grasp):
    first = scene.execute(grasp)
    assert first.outcome is Outcome.SUCCESS
    scene.execute(PlanarGrasp(0.0, 0.0, 0.001, 0.3, 0.085))
    scene.execute(grasp, Perturbation(x=0.01), friction=0.2)
    assert scene.execute(grasp) == first


def test_perturbations_move_the_grasp_and_friction_decides(scene, grasp):
    moved = Perturbation(0.002, -0.003, -1.0, 0.1, 0.45).apply(grasp)
    assert moved.x == pytest.approx(grasp.x + 0.002)
    assert moved.y == pytest.approx(grasp.y - 0.003)
    assert moved.z == 0.0
    # A closing axis has no sign: half a turn more is the same one.
    assert np.mod(moved.yaw - grasp.yaw, np.pi) == pytest.approx(0.1)
    assert not scene.execute(grasp, Perturbation(x=0.2)).success
    assert not scene.execute(grasp, friction=0.02).success
    assert scene.execute(grasp).success


def test_perturbations_are_drawn_as_kg1_says():
    rng = np.random.default_rng(0)
    drawn = [Perturbation.sample(rng) for _ in range(4000)]
    for name, sigma in (("x", 0.002), ("y", 0.002), ("z", 0.001), ("yaw", np.radians(3))):
        values = [getattr(perturbation, name) for perturbation in drawn]
        assert np.std(values) == pytest.approx(sigma, rel=0.05)
        assert abs(np.mean(values)) < 0.1 * sigma
    frictions = [perturbation.friction for perturbation in drawn]
    assert 0.4 <= min(frictions) < 0.402 < 0.598 < max(frictions) <= 0.6


def test_after_a_failure_there_is_a_new_image_of_where_the_object_lies_now(scene, grasp):
    image, pose = scene.view, scene.object_pose
    # A push, not a grasp: the closed fingers' side meets the object's rim.
    failed = scene.execute(grasp, friction=0.02)
    assert not failed.success
    view = scene.again(np.random.default_rng(1))
    assert view is scene.view
    assert view is not image
    moved = scene.object_pose
    again = scene.execute(grasp)
    scene.execute(grasp, friction=0.02)
    assert scene.execute(grasp) == again
    scene.reset()
    np.testing.assert_array_equal(scene.object_pose, pose)
    assert scene.view is image
    assert np.linalg.norm(moved[:3, 3] - pose[:3, 3]) < 0.3


def test_an_object_out_of_sight_ends_the_trial(scene):
    pose = scene.object_pose
    pose[0, 3] += 0.4
    scene.world.set_object_pose(scene.handle, pose)
    assert scene.again(np.random.default_rng(0)) is None
    assert "left the workspace" in scene.lost_reason
    scene.reset()
    assert scene.lost_reason == ""
    assert scene.again(np.random.default_rng(0)) is not None


def test_an_object_that_never_settles_in_view_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(scenes, "in_view", lambda points: False)
    monkeypatch.setattr(scenes, "PROTOCOL", dataclasses.replace(PROTOCOL, settle_attempts=2))
    with pytest.raises(SceneError, match="'327' did not settle inside the camera's view in 2 poses"):
        build_scene(_SPEC)


def test_unknown_robots_and_objects_are_refused():
    with pytest.raises(InputError, match="unknown robot 'arm'"):
        build_scene(_SPEC, "arm")
    with pytest.raises(InputError, match="nonesuch"):
        build_scene(SceneSpec("nonesuch", "E", 0))
