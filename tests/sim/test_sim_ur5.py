from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.geometry.poses import make_pose, rotation_from_quaternion
from keygrasp.robots import Robot
from keygrasp.robots.ur5_kinematics import forward, inverse
from keygrasp.scene import Outcome, PlanarGrasp, Stage
from keygrasp.sim import UR5, DeltaTwin, FreeGripper, World
from keygrasp.sim import ur5 as ur5_module
from keygrasp.sim.ur5_description import tool_length

GOOD = PlanarGrasp(0.01, 0.02, 0.065, 0.2, 0.06)


def _stand(world, prepared):
    handle = world.add_object(prepared, (0.01, 0.02, 0.0501))
    assert world.settle(handle)
    return handle


@pytest.fixture
def robot(world) -> UR5:
    return UR5(world)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000))
def test_inverse_undoes_forward_on_every_branch(seed):
    pose = forward(np.random.default_rng(seed).uniform(-2.8, 2.8, (20, 6)))
    solved = np.zeros(20, dtype=bool)
    for shoulder, wrist, elbow in itertools.product((1, -1), repeat=3):
        angles, reached = inverse(pose, shoulder=shoulder, wrist=wrist, elbow=elbow)
        assert np.abs(forward(angles[reached]) - pose[reached]).max(initial=0) < 1e-7
        solved |= reached
    assert solved.all()


def test_kinematics_are_those_of_the_model(robot):
    rng = np.random.default_rng(1)
    tip = make_pose((0, 0, tool_length(robot.gripper)), np.diag([1.0, -1.0, -1.0]))
    for angles in rng.uniform(-2, 2, (5, 6)):
        robot._jump(angles)
        state = robot.world.bullet.getLinkState(
            robot.body, robot._palm, computeForwardKinematics=True, physicsClientId=robot.world.client
        )
        expected = robot.paths.base @ forward(angles) @ tip
        assert make_pose(state[4], rotation_from_quaternion(state[5])) == pytest.approx(expected, abs=1e-5)


def test_home_is_outside_the_view(world, box):
    _stand(world, box(0.04, 0.06, 0.10))
    camera = Intrinsics(128, 128, 256, 256, 63.5, 63.5)
    alone = world.render_depth(camera, overhead_pose(0.70))
    UR5(world)
    assert np.array_equal(alone, world.render_depth(camera, overhead_pose(0.70)))


def test_names_and_positions(robot):
    assert robot.joint_names[0] == "shoulder_pan_joint"
    assert robot.joint_positions()[:6] == pytest.approx(ur5_module.HOME, abs=1e-6)
    assert robot.joint_positions()[6:] == pytest.approx([0.0425, 0.0425], abs=1e-6)
    as_robot: Robot = robot
    assert as_robot.name == "ur5"


def test_good_grasp_succeeds_and_the_tool_stays_on_its_path(world, robot, box):
    handle = _stand(world, box(0.04, 0.06, 0.10, 0.5))
    heights, away = [], []

    def record(stage):
        if stage is Stage.SHAKE:
            tool = robot.tool()
            heights.append(tool[2])
            away.append(tool - [GOOD.x, GOOD.y, 0, GOOD.yaw])

    robot.on_step = record
    outcome = robot.execute(GOOD)
    assert outcome.outcome is Outcome.SUCCESS, outcome.message
    # The pads let 0.5 kg creep down by up to 4 mm, more or less by the processor's rounding.
    assert outcome.rise == pytest.approx(0.15, abs=0.005)
    assert np.abs(np.array(heights) - GOOD.z - 0.15).max() < 1e-3
    assert np.abs(away).max(axis=0)[[0, 1, 3]] == pytest.approx([0.025, 0.025, 0.2], abs=2e-3)
    assert world.height_of(handle) > 0.19


def test_whole_drop_zone_is_within_reach(robot):
    for x, y, yaw, z in itertools.product((-0.16, 0, 0.16), (-0.16, 0, 0.16), np.linspace(-1.57, 1.57, 7), (0.0, 0.19)):
        assert robot.unreachable_reason(PlanarGrasp(x, y, z, yaw, 0.05)) is None, (x, y, yaw, z)


def test_what_it_cannot_reach_it_says(world, robot, box):
    _stand(world, box(0.04, 0.06, 0.10))
    outcome = robot.execute(GOOD.replace(x=0.55, y=0.4))
    assert outcome.outcome is Outcome.UNREACHABLE
    assert "can't reach" in outcome.message


def test_joint_speed_limits_hold(robot):
    path = np.array([[0.0, 0.0, 0.1, 0.0], [0.02, 0.0, 0.1, 0.0]])
    with pytest.raises(Exception, match="rad/s, above its limit") as raised:
        robot.plan(path)
    assert type(raised.value).__name__ == "Unreachable"


def test_weak_joints_are_a_fault_not_a_success(world, robot, box):
    _stand(world, box(0.04, 0.06, 0.10))
    robot._efforts = robot._efforts * [1, 1, 1, 1, 1, 0.02]
    outcome = robot.execute(GOOD)
    assert outcome.outcome is Outcome.ROBOT_FAULT
    assert "off its target" in outcome.message


def test_full_motion_begins_at_home_and_returns(world, box):
    robot = UR5(world, full_motion=True)
    handle = _stand(world, box(0.04, 0.06, 0.10))
    speeds, last = [], [robot.joint_positions()[:6]]

    def record(stage):
        now = robot.joint_positions()[:6]
        speeds.append(np.abs(now - last[0]) * 240)
        last[0] = now

    robot.on_step = record
    outcome = robot.execute(GOOD)
    assert outcome.success, outcome.message
    assert outcome.seconds > 4.5
    assert robot.place(PlanarGrasp(0.05, -0.25, GOOD.z + 0.002, 0.9, 0.06)).success
    assert world.object_pose(handle)[:3, 3] == pytest.approx([0.05, -0.25, 0.05], abs=0.005)
    assert robot.home()
    assert robot.joint_positions()[:6] == pytest.approx(ur5_module.HOME, abs=1e-3)
    assert np.max(speeds, axis=0) == pytest.approx(np.minimum(np.max(speeds, axis=0), [3.15] * 3 + [3.2] * 3), abs=0.05)


def test_cancelling_stops_the_arm(world, box):
    robot = UR5(world, full_motion=True)
    _stand(world, box(0.04, 0.06, 0.10))
    calls = itertools.count()
    outcome = robot.execute(GOOD, cancelled=lambda: next(calls) > 100)
    assert outcome.outcome is Outcome.CANCELLED
    assert "is empty" in outcome.message
    before = robot.joint_positions()
    world.step(24)
    assert robot.joint_positions() == pytest.approx(before, abs=1e-4)
    assert not robot.home(cancelled=lambda: True)
    assert robot.home()


def test_same_grasp_after_restore_ends_the_same(world, robot, box):
    _stand(world, box(0.04, 0.06, 0.10))
    snapshot = world.save()
    ends = []
    for grasp in (GOOD, GOOD.replace(yaw=-0.6, width=0.08), GOOD):
        world.restore(snapshot)
        ends.append(robot.execute(grasp))
    assert ends[0] == ends[2]


@pytest.mark.slow
def test_verdict_is_that_of_the_free_gripper(box):
    rng = np.random.default_rng(3)
    grasps = [
        PlanarGrasp(
            *(0.01, 0.02) + rng.normal(size=2) * 0.012, 0.065 + rng.normal() * 0.01, rng.uniform(-0.5, 0.5), 0.08
        )
        for _ in range(12)
    ]
    verdicts = {}
    for kind in (FreeGripper, UR5, DeltaTwin):
        with World() as world:
            robot = kind(world)
            _stand(world, box(0.04, 0.06, 0.10, 0.3))
            snapshot = world.save()
            verdicts[kind] = []
            for grasp in grasps:
                world.restore(snapshot)
                verdicts[kind].append(robot.execute(grasp).success)
    assert 0 < sum(verdicts[FreeGripper]) < len(grasps)
    for kind in (UR5, DeltaTwin):
        agreement = np.mean(np.array(verdicts[FreeGripper]) == np.array(verdicts[kind]))
        assert agreement >= 0.9, kind
