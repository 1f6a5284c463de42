"""The Delta's description: its loops close, engines read it as it is meant, and what can't be is refused."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pybullet
import pytest
import trimesh

from keygrasp.errors import InputError
from keygrasp.geometry.poses import transform_points
from keygrasp.robots.delta_x import MODELS, ToolConfig, reachable
from keygrasp.robots.delta_x.description import BASE, FINGER_JOINTS, PALM, PLATFORM, TURN_JOINT, describe


def points_within(model, count=300):
    low, high = (-model.radius, -model.radius, model.floor), (model.radius, model.radius, model.home_z)
    points = np.random.default_rng(0).uniform(low, high, (count, 3))
    return points[reachable(model, points)]


@pytest.mark.parametrize("name", MODELS)
def test_all_loops_close_and_the_platform_is_level_wherever_it_can_be(name):
    model, tool = MODELS[name], ToolConfig()
    description = describe(model, tool)
    points = points_within(model)
    assert len(points) > 100
    for point in points:
        poses = description.robot.poses(description.joint_positions(point, yaw=0.3, opening=0.02))
        np.testing.assert_allclose(poses[PLATFORM][:3, 3], point, atol=1e-12)
        np.testing.assert_allclose(poses[PLATFORM][:3, :3], np.eye(3), atol=1e-12)
        for closure in description.closures:
            end = transform_points(poses[closure.rod], np.array(closure.rod_point))
            hinge = transform_points(poses[closure.platform], np.array(closure.platform_point))
            np.testing.assert_allclose(end, hinge, atol=1e-12)
    tip = poses[PALM]
    np.testing.assert_allclose(tip[:3, 3], points[-1] - (0, 0, tool.length), atol=1e-12)
    assert np.arctan2(tip[1, 0], tip[0, 0]) == pytest.approx(0.3)
    gap = np.linalg.norm(poses["left_finger"][:3, 3] - poses["right_finger"][:3, 3])
    assert gap == pytest.approx(0.02)


def test_five_of_six_rods_are_loops_and_all_joints_are_named_once():
    description = describe(MODELS["X1"], ToolConfig())
    assert len(description.closures) == 5
    positions = description.joint_positions(np.array([0.0, 0.0, -0.3]))
    assert set(positions) == {joint.name for joint in description.robot.moving}
    names = [link.name for link in description.robot.links]
    assert len(set(names)) == len(names)
    assert [joint.child for joint in description.robot.joints if joint.parent == PLATFORM] == [PALM]


def test_a_physics_engine_puts_every_link_where_the_description_does(tmp_path):
    description = describe(MODELS["X1"], ToolConfig())
    description.robot.write_meshes(tmp_path)
    (tmp_path / "delta.urdf").write_text(description.robot.urdf(str(tmp_path)))
    positions = description.joint_positions(np.array([0.05, -0.04, -0.33]), yaw=-0.4, opening=0.03)
    expected = description.robot.poses(positions)
    client = pybullet.connect(pybullet.DIRECT)
    try:
        body = pybullet.loadURDF(
            str(tmp_path / "delta.urdf"),
            useFixedBase=True,
            flags=pybullet.URDF_USE_INERTIA_FROM_FILE,
            physicsClientId=client,
        )
        infos = [pybullet.getJointInfo(body, index, client) for index in range(pybullet.getNumJoints(body, client))]
        for info in infos:
            if info[1].decode() in positions:
                pybullet.resetJointState(body, info[0], positions[info[1].decode()], physicsClientId=client)
        assert {info[12].decode() for info in infos} | {BASE} == set(expected)
        for info in infos:
            name = info[12].decode()
            state = pybullet.getLinkState(body, info[0], computeForwardKinematics=True, physicsClientId=client)
            np.testing.assert_allclose(state[4], expected[name][:3, 3], atol=1e-6, err_msg=name)
            mass = next(link.mass for link in description.robot.links if link.name == name)
            assert pybullet.getDynamicsInfo(body, info[0], client)[0] == pytest.approx(mass, rel=1e-4)
    finally:
        pybullet.disconnect(client)


def test_meshes_are_closed_and_outside_out(tmp_path):
    description = describe(MODELS["V2"], ToolConfig())
    description.robot.write_meshes(tmp_path)
    urdf = ElementTree.fromstring(description.robot.urdf("package://somewhere/meshes/"))  # noqa: S314 - our own text
    named = {mesh.get("filename") for mesh in urdf.iter("mesh")}
    assert named == {f"package://somewhere/meshes/{path.name}" for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        mesh = trimesh.load(path)
        assert mesh.is_watertight, path.name
        assert mesh.volume > 0, path.name


def test_driven_joints_have_the_robots_limits():
    model, tool = MODELS["X1"], ToolConfig(turn_limits=(0.0, 180.0), turn_zero=85.0)
    urdf = ElementTree.fromstring(describe(model, tool).robot.urdf("m"))  # noqa: S314 - our own text
    limits = {joint.get("name"): joint.find("limit") for joint in urdf.iter("joint")}
    assert float(limits["arm_2_joint"].get("lower")) == pytest.approx(model.home_angle)
    assert float(limits["arm_2_joint"].get("upper")) == pytest.approx(model.max_angle)
    assert float(limits[TURN_JOINT].get("lower")) == pytest.approx(np.radians(-85))
    assert float(limits[FINGER_JOINTS[0]].get("upper")) == pytest.approx(tool.table[-1][0] / 2)


def test_a_vacuum_cup_has_no_fingers():
    description = describe(MODELS["X1"], ToolConfig(kind="vacuum", length=0.05))
    positions = description.joint_positions(np.array([0.0, 0.0, -0.3]), opening=0.01)
    assert not set(FINGER_JOINTS) & set(positions)
    assert description.robot.poses(positions)[PALM][2, 3] == pytest.approx(-0.35)


def test_what_cannot_be_is_refused_with_a_reason():
    description = describe(MODELS["X1"], ToolConfig())
    with pytest.raises(InputError, match="out of the legs' reach"):
        description.joint_positions(np.array([0.4, 0.0, -0.3]))
    with pytest.raises(InputError, match=r"too short for fingers of 30 mm.*pad_height"):
        describe(MODELS["X1"], ToolConfig(length=0.03))
    with pytest.raises(InputError, match="wrist_swing"):
        description.robot.poses(
            {name: 0.0 for name in description.joint_positions(MODELS["X1"].home) if "wrist" not in name}
        )
