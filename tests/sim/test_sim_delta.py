"""The Delta's twin: closed loops that hold, limits that are kept, and flaws that do what they say."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from keygrasp.errors import InputError, RobotError
from keygrasp.geometry.cameras import Intrinsics, overhead_pose
from keygrasp.geometry.poses import make_pose, rotation_z
from keygrasp.grasps import grasps_from_array
from keygrasp.robots import Robot, Unreachable
from keygrasp.robots.delta_x import MODELS, ToolConfig
from keygrasp.scene import Outcome, PlanarGrasp, Stage
from keygrasp.sim import DeltaTwin, Flaws
from keygrasp.sim.delta_description import kg1_tool
from keygrasp.sim.delta_flaws import Transmission

GOOD = PlanarGrasp(0.01, 0.02, 0.065, 0.2, 0.06)


@pytest.fixture
def stood(world, box):
    """An upright box of 0.5 kg, the heaviest of KG-1, in the middle."""
    handle = world.add_object(box(0.04, 0.06, 0.10, 0.5), (0.01, 0.02, 0.0501))
    assert world.settle(handle)
    return handle


@pytest.fixture
def twin(world, stood) -> DeltaTwin:
    return DeltaTwin(world)


def test_it_is_a_robot_with_named_joints(twin):
    as_robot: Robot = twin
    assert as_robot.name == "delta"
    assert twin.joint_names[3] == "tool_turn"
    assert twin.joint_positions()[4:] == pytest.approx([0.0425, 0.0425], abs=1e-6)


def test_parked_it_is_outside_the_view(world, stood):
    camera = Intrinsics(128, 128, 256, 256, 63.5, 63.5)
    alone = world.render_depth(camera, overhead_pose(0.70))
    DeltaTwin(world)
    assert np.array_equal(alone, world.render_depth(camera, overhead_pose(0.70)))


@pytest.mark.parametrize("detailed", [False, True])
def test_loops_hold_and_the_platform_stays_level_through_a_whole_trial(world, stood, detailed):
    twin = DeltaTwin(world, detailed=detailed)
    gaps, tilts, away = [], [], []

    steps = itertools.count()

    def record(stage):
        if next(steps) % 4:
            return
        gaps.append(twin.loop_errors().max())
        tilts.append(math.degrees(math.acos(min(1.0, twin.platform_pose()[2, 2]))))
        if stage is Stage.SHAKE:
            away.append(twin.tool() - [GOOD.x, GOOD.y, GOOD.z + 0.15, GOOD.yaw])

    twin.on_step = record
    outcome = twin.execute(GOOD)
    assert outcome.outcome is Outcome.SUCCESS, outcome.message
    assert outcome.rise == pytest.approx(0.15, abs=0.004)
    assert len(gaps) > 200
    assert len(twin.loop_errors()) == (5 if detailed else 3)
    assert max(gaps) < 0.3e-3  # KG-1's bound is 1 mm
    assert max(tilts) < 0.1
    assert np.abs(away).max(axis=0)[[0, 1, 3]] == pytest.approx([0.025, 0.025, 0.2], abs=1e-3)
    assert np.abs(away).max(axis=0)[2] < 0.5e-3


def test_the_drop_zone_is_within_reach(twin):
    for x, y, yaw, z in itertools.product((-0.14, 0, 0.14), (-0.14, 0, 0.14), (-1.57, 0, 1.57), (0.0, 0.15)):
        assert twin.unreachable_reason(PlanarGrasp(x, y, z, yaw, 0.05)) is None, (x, y, z, yaw)


@pytest.mark.parametrize(
    ("grasp", "reason"),
    [
        (GOOD.replace(x=0.34), "too far from the axis"),
        (GOOD.replace(z=0.30), "above its home position"),
        (GOOD.replace(width=0.09), "outside the gripper's"),
    ],
)
def test_what_it_cannot_do_it_refuses_and_says_why(twin, grasp, reason):
    outcome = twin.execute(grasp)
    assert outcome.outcome is Outcome.UNREACHABLE
    assert reason in outcome.message


def test_a_tool_that_turns_less_refuses_what_it_cannot_turn_to(world, stood):
    twin = DeltaTwin(world, tool=dataclasses.replace(kg1_tool(DeltaTwin(world).gripper), turn_limits=(60.0, 160.0)))
    assert "can't turn" in twin.unreachable_reason(GOOD.replace(yaw=1.3))
    assert twin.unreachable_reason(GOOD) is None


def test_too_fast_is_refused(twin):
    with pytest.raises(Unreachable, match=r"above its limit of 0\.85"):
        twin.plan(np.array([[0.0, 0.0, 0.1, 0.0], [0.01, 0.0, 0.1, 0.0]]))


def test_the_filter_for_planners_agrees_with_the_robot(twin):
    rng = np.random.default_rng(0)
    rows = rng.uniform([-0.34, -0.34, 0.0, -1.57, 0.05], [0.34, 0.34, 0.25, 1.57, 0.05], (150, 5))
    one_by_one = [twin.unreachable_reason(grasp) is None for grasp in grasps_from_array(rows, np.zeros(len(rows)))]
    assert 30 < sum(one_by_one) < 120
    assert np.mean(twin.reach(rows) == one_by_one) > 0.97


def test_weak_motors_are_a_fault_not_a_success(twin):
    twin._efforts = [*twin._efforts[:3], 1e-3]
    outcome = twin.execute(GOOD)
    assert outcome.outcome is Outcome.ROBOT_FAULT
    assert "off its target" in outcome.message


def test_same_grasp_after_restore_ends_the_same(world, twin):
    snapshot = world.save()
    ends = []
    beside = GOOD.replace(x=GOOD.x + 0.06, yaw=-0.6)
    for grasp in (GOOD, beside, GOOD):
        world.restore(snapshot)
        ends.append(twin.execute(grasp))
    assert ends[0] == ends[2] != ends[1]


def test_it_puts_down_what_it_holds_and_stops_when_cancelled(world, twin, stood):
    world.set_mass(stood, 0.2)
    assert twin.execute(GOOD).success
    assert twin.place(PlanarGrasp(0.10, -0.12, GOOD.z + 0.002, 0.9, 0.06)).success
    assert world.object_pose(stood)[:3, 3] == pytest.approx([0.10, -0.12, 0.05], abs=0.005)
    calls = itertools.count()
    outcome = twin.execute(GOOD.replace(x=0.10, y=-0.12), cancelled=lambda: next(calls) > 8)
    assert outcome.outcome is Outcome.CANCELLED
    before = twin.joint_positions()
    world.step(24)
    assert twin.joint_positions() == pytest.approx(before, abs=1e-3)


def test_an_x1_cannot_carry_the_gripper_of_kg1(world):
    with pytest.raises(RobotError, match="too heavy for X1"):
        DeltaTwin(world, model=MODELS["X1"])
    with pytest.raises(InputError, match="too short"):
        DeltaTwin(world, tool=ToolConfig(length=0.05))


def test_a_wrong_calibration_moves_the_tool_but_not_what_the_robot_believes(twin):
    twin.flaws = Flaws(mount=make_pose((0.004, 0.0, 0.003), rotation_z(0.05)))
    command = twin.plan(np.array([[0.05, 0.0, 0.2, 0.1]]))[0]
    twin.approach(command, 0.05, lambda: None)
    assert twin.tool() == pytest.approx([0.05, 0.0, 0.2, 0.1], abs=1e-5)
    true = twin.platform_pose()
    assert true[:2, 3] == pytest.approx([0.004 + 0.05 * math.cos(0.05), 0.05 * math.sin(0.05)], abs=1e-5)
    assert true[2, 3] == pytest.approx(0.2 + 0.17 + 0.003, abs=1e-5)


@pytest.mark.parametrize("flaws", [Flaws(latency=0.1), Flaws(backlash=0.01, turn_backlash=0.02)], ids=["late", "play"])
def test_late_and_loose_it_believes_to_follow_but_does_not(world, twin, flaws):
    twin.flaws = flaws
    gaps = []

    def record(stage):
        if stage is Stage.LIFT:
            gaps.append(abs(twin.platform_pose()[2, 3] - 0.17 - twin.tool()[2]))

    twin.on_step = record
    assert twin.execute(GOOD).success
    assert max(gaps) > 1e-3


def test_play_is_taken_up_before_the_arm_follows_and_late_commands_arrive_late():
    start = np.zeros(4)
    loose = Transmission(Flaws(backlash=0.2, turn_backlash=0.4), start, 0.01)
    assert loose.send(np.full(4, 0.05)) == pytest.approx([0, 0, 0, 0])
    assert loose.send(np.full(4, 0.5)) == pytest.approx([0.4, 0.4, 0.4, 0.3])
    assert loose.send(np.full(4, 0.45)) == pytest.approx([0.4, 0.4, 0.4, 0.3])
    late = Transmission(Flaws(latency=0.02), start, 0.01)
    assert [late.send(np.full(4, float(k)))[0] for k in range(1, 5)] == [0, 0, 1, 2]
    assert late.command[0] == 4


@pytest.mark.parametrize("wrong", [{"latency": -1.0}, {"backlash": math.nan}, {"mount": np.eye(3)}])
def test_impossible_flaws_are_refused(wrong):
    with pytest.raises(InputError, match="flaws"):
        Flaws(**wrong)


def test_a_heavier_object_is_heavier(world, stood):
    world.set_mass(stood, 2.0)
    assert world.bullet.getDynamicsInfo(stood.body, -1, physicsClientId=world.client)[0] == pytest.approx(1.0)
    world.set_mass(stood)
    mass, _, inertia = world.bullet.getDynamicsInfo(stood.body, -1, physicsClientId=world.client)[:3]
    assert mass == pytest.approx(0.5)
    assert inertia == pytest.approx(stood.prepared.inertia)
    with pytest.raises(InputError, match="multiplied by 0"):
        world.set_mass(stood, 0)
