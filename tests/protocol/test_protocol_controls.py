"""The controls and the oracle do what their names say."""

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.geometry.cameras import overhead_pose
from keygrasp.geometry.poses import transform_points
from keygrasp.protocol import PROTOCOL, CentroidPlanner, OracleConfig, RandomPlanner, SceneSpec, build_scene, oracle
from keygrasp.protocol.oracle import random_grasps, true_height_map
from keygrasp.scene import GripperSpec, OverheadView


@pytest.fixture(scope="module")
def scene():
    with build_scene(SceneSpec("327", "E", 5)) as built:
        yield built


@pytest.fixture(autouse=True)
def _as_new(scene):
    scene.reset()


def _bar(yaw, height=0.06):
    camera = PROTOCOL.intrinsics
    rows, columns = np.indices((128, 128))
    top = PROTOCOL.camera_height - height
    x, y = (columns - camera.cx) / camera.fx * top, -(rows - camera.cy) / camera.fy * top
    u, v = x * np.cos(yaw) + y * np.sin(yaw), y * np.cos(yaw) - x * np.sin(yaw)
    depth = np.where((np.abs(u) < 0.02) & (np.abs(v) < 0.07), top, PROTOCOL.camera_height).astype(np.float32)
    return OverheadView(depth, camera, overhead_pose(PROTOCOL.camera_height))


@pytest.mark.parametrize("yaw", [-1.2, 0.0, 0.4])
def test_centroid_closes_along_the_short_axis_at_the_middle(yaw):
    plan = CentroidPlanner().plan(_bar(yaw), GripperSpec(), rng=np.random.default_rng(0))
    grasp = plan.grasp
    assert (grasp.x, grasp.y) == pytest.approx((0.0, 0.0), abs=0.003)
    assert grasp.yaw == pytest.approx(yaw, abs=0.03)
    assert grasp.width == pytest.approx(0.04 + 0.016, abs=0.008)
    assert grasp.z == pytest.approx(0.04, abs=0.003)


def test_random_draws_other_grasps_from_other_seeds_only():
    def draw(seed):
        return RandomPlanner().plan(_bar(0.0), GripperSpec(), rng=np.random.default_rng(seed)).grasp

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(5)}) == 5


@pytest.mark.parametrize("planner", [CentroidPlanner(), RandomPlanner()])
def test_an_empty_table_is_an_answer(planner):
    plan = planner.plan(_bar(0.0, height=0.0), GripperSpec(), rng=np.random.default_rng(0))
    assert plan.grasp is None
    assert "nothing stands on the table" in plan.reason


def test_the_true_height_map_is_that_of_the_mesh(scene):
    height_map = true_height_map(scene)
    points = transform_points(scene.object_pose, scene.handle.points)
    assert height_map.heights.max() == pytest.approx(points[:, 2].max(), abs=0.003)
    # Every vertex lies at or below the surface that the rays saw around it.
    cells = np.rint(height_map.cells_of(points[:, :2])).astype(int)
    padded = np.pad(height_map.heights, 2)
    seen = [padded[row : row + 5, column : column + 5].max() for row, column in cells]
    assert np.all(points[:, 2] <= np.array(seen) + 0.004)


def test_random_grasps_of_the_oracle_do_not_collide(scene):
    grasps = random_grasps(scene, 30, np.random.default_rng(0))
    assert len(grasps) == 30
    outcomes = [str(scene.execute(grasp).outcome) for grasp in grasps[:8]]
    assert outcomes.count("contact_too_early") <= 1


@pytest.mark.slow
def test_the_oracle_finds_a_robust_grasp_and_stays_within_its_budget(scene):
    plan = oracle(scene, OracleConfig(samples=60, local_samples=10, executions=150), np.random.default_rng(0))
    assert plan.grasp is not None
    assert 1 <= plan.evaluations <= 150
    assert scene.execute(plan.grasp).success
    # The object lies elsewhere by now: the search must begin where the image shows it.
    again = oracle(scene, OracleConfig(samples=60, local_samples=10, executions=150), np.random.default_rng(0))
    assert again.grasp == plan.grasp
    small = oracle(scene, OracleConfig(samples=60, local_samples=10, executions=3), np.random.default_rng(0))
    assert small.evaluations <= 3


def test_an_oracle_that_finds_nothing_says_how_much_it_tried(scene, monkeypatch):
    monkeypatch.setattr(scene.robot, "profile", type(scene.robot.profile)(required_rise=0.149, lift_height=0.1495))
    plan = oracle(scene, OracleConfig(samples=2, local_samples=1, executions=4), np.random.default_rng(3))
    if plan.grasp is None:
        assert "executions succeeded" in plan.reason
    with pytest.raises(ConfigurationError):
        OracleConfig(executions=0)
