from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import trimesh

from keygrasp.scene import GripperSpec, Outcome, PlanarGrasp, Stage
from keygrasp.sim import FreeGripper, MotionProfile, World

#: A good grasp of the fixture's box, 4 cm along x, 6 cm along y, 10 cm tall.
GOOD = PlanarGrasp(0.01, 0.02, 0.065, 0.0, 0.06)


def _stand(world, prepared, xy=(0.01, 0.02)):
    """Put an object with its own axes along the workspace's onto the table."""
    height = -prepared.hulls[0][:, 2].min()
    handle = world.add_object(prepared, (*xy, height + 1e-4))
    assert world.settle(handle)
    return handle


@pytest.fixture
def robot(world):
    return FreeGripper(world)


@pytest.mark.parametrize("mass", [0.02, 0.5])
def test_good_grasp_succeeds(world, robot, box, mass):
    handle = _stand(world, box(0.04, 0.06, 0.10, mass))
    stages = []
    outcome = robot.execute(GOOD, on_stage=stages.append)
    assert outcome.outcome is Outcome.SUCCESS, outcome.message
    assert outcome.success
    assert outcome.rise == pytest.approx(0.15, abs=0.003)
    assert outcome.opening == pytest.approx(0.04, abs=5e-4)
    assert outcome.contact_force == 0.0
    assert stages == [Stage.APPROACH, Stage.DESCEND, Stage.CLOSE, Stage.LIFT, Stage.SHAKE, Stage.HOLD]
    assert world.height_of(handle) > 0.19
    assert 3.0 < outcome.seconds < 4.0


def test_pads_press_with_the_set_force_and_move_as_one(world, robot, box):
    handle = _stand(world, box(0.04, 0.06, 0.10, 0.02), xy=(0.016, 0.02))
    differences, forces = [], []

    def record(stage):
        left, right = robot.fingers.positions
        differences.append(abs(left - right))
        if stage is Stage.HOLD:
            forces.append(
                [
                    sum(
                        point[9]
                        for point in world.bullet.getContactPoints(robot.body, handle.body, link, -1, world.client)
                    )
                    for link in robot.fingers.links
                ]
            )

    robot.on_step = record
    assert robot.execute(GOOD).success
    assert max(differences) < 3e-4
    assert np.mean(forces, axis=0) == pytest.approx([40.0, 40.0], rel=0.1)
    # The gripper is stiff: the object was pushed to its middle.
    assert world.object_pose(handle)[0, 3] == pytest.approx(0.01, abs=1e-3)


def test_closing_on_nothing_is_empty(world, robot, box):
    _stand(world, box(0.04, 0.06, 0.10))
    outcome = robot.execute(GOOD.replace(x=0.2))
    assert outcome.outcome is Outcome.EMPTY
    assert outcome.opening == pytest.approx(0.0, abs=5e-4)


def test_empty_table_is_empty(robot):
    assert robot.execute(PlanarGrasp(0, 0, 0.01, 0, 0.05)).outcome is Outcome.EMPTY


@pytest.mark.parametrize(
    "grasp",
    [
        GOOD.replace(width=0.03),  # the pads land on the object
        GOOD.replace(z=0.02),  # the palm does
    ],
)
def test_landing_on_the_object_is_contact_too_early(world, robot, box, grasp):
    handle = _stand(world, box(0.04, 0.06, 0.10))
    outcome = robot.execute(grasp)
    assert outcome.outcome is Outcome.CONTACT_TOO_EARLY
    assert outcome.contact_force > 15
    assert world.height_of(handle) == pytest.approx(0.05, abs=0.005)


def test_touching_the_table_is_no_collision(world, robot, box):
    _stand(world, box(0.04, 0.06, 0.03))
    outcome = robot.execute(PlanarGrasp(0.01, 0.02, 0.0, 0.0, 0.06))
    assert outcome.success, outcome.message


def test_slope_steeper_than_friction_slips(world, robot, shape):
    _stand(world, shape(trimesh.creation.icosphere(4, 0.04), mass=0.2))
    held = PlanarGrasp(0.01, 0.02, 0.042, 0.0, 0.085)
    assert robot.unreachable_reason(held) is None
    snapshot = world.save()
    assert robot.execute(held).success
    world.restore(snapshot)
    # The tips end 4 cm · sin 50° above the centre, where the surface leans by 50°: tan 40° > 0.5.
    outcome = robot.execute(held.replace(z=0.04 + 0.04 * np.sin(np.radians(50)) - 0.002, width=0.06))
    assert outcome.outcome in (Outcome.SLIPPED, Outcome.EMPTY)
    assert not outcome.success
    assert outcome.rise < 0.12


def test_heavy_object_held_at_its_end_by_little_friction_is_lost(box):
    with World(friction=0.05) as world:
        robot = FreeGripper(world)
        _stand(world, box(0.04, 0.06, 0.10, 0.5))
        outcome = robot.execute(GOOD)
        assert outcome.outcome is Outcome.SLIPPED
        assert "slipped" in outcome.message
        assert outcome.seconds < 1.5


def test_lost_while_shaking_is_shaken(box):
    with World(friction=0.09) as world:
        robot = FreeGripper(world, profile=MotionProfile(shake_translation=0.05))
        _stand(world, box(0.04, 0.06, 0.10, 0.5))
        outcome = robot.execute(GOOD)
        assert outcome.outcome is Outcome.SHAKEN, (outcome.outcome, outcome.rise)


@pytest.mark.parametrize(
    ("grasp", "reason"),
    [
        (GOOD.replace(width=0.09), "opening of 90.0 mm"),
        (GOOD.replace(z=-0.001), "below the table"),
        (GOOD.replace(x=0.7), "outside the table"),
    ],
)
def test_what_it_cannot_do_is_unreachable(world, robot, box, grasp, reason):
    handle = _stand(world, box(0.04, 0.06, 0.10))
    assert reason in robot.unreachable_reason(grasp)
    outcome = robot.execute(grasp)
    assert outcome.outcome is Outcome.UNREACHABLE
    assert reason in outcome.message
    assert outcome.seconds == 0
    assert world.height_of(handle) == pytest.approx(0.05, abs=1e-3)


@pytest.mark.parametrize(
    ("stage", "state"), [(Stage.DESCEND, "is empty"), (Stage.LIFT, "holds"), (Stage.SHAKE, "holds")]
)
def test_cancelling_stops_at_once(world, robot, box, stage, state):
    _stand(world, box(0.04, 0.06, 0.10))
    reached = []
    outcome = robot.execute(GOOD, on_stage=reached.append, cancelled=lambda: stage in reached)
    assert outcome.outcome is Outcome.CANCELLED
    assert state in outcome.message
    assert stage in outcome.message
    before = robot.tool()
    world.step(24)
    assert robot.tool() == pytest.approx(before, abs=1e-5)


def test_same_grasp_after_restore_ends_the_same(world, robot, box):
    _stand(world, box(0.04, 0.06, 0.10))
    snapshot = world.save()
    ends = []
    for grasp in (GOOD, GOOD.replace(yaw=0.7, width=0.08), GOOD, GOOD.replace(width=0.03), GOOD):
        world.restore(snapshot)
        ends.append((grasp, robot.execute(grasp)))
    goods = [outcome for grasp, outcome in ends if grasp is GOOD]
    # World time differs by nothing either: it is part of the snapshot.
    assert goods[0] == goods[1] == goods[2]


_PROGRAM = """
import numpy as np, trimesh
from keygrasp.objects import PreparedObject
from keygrasp.scene import PlanarGrasp
from keygrasp.sim import FreeGripper, World
mesh = trimesh.creation.icosphere(2, 0.03)
ball = PreparedObject("b", "file", "b", np.array(mesh.vertices), np.array(mesh.faces), (np.array(mesh.vertices),),
                      0.1, np.full(3, 3.6e-5), 1.1e-4, np.full(3, 0.06))
with World() as world:
    handle = world.add_object(ball, (0, 0, 0.05), (0.1, 0.2, 0.3, 0.9))
    world.settle(handle)
    outcome = FreeGripper(world).execute(PlanarGrasp(0.002, 0.001, 0.024, 0.3, 0.08))
    print(repr((outcome.outcome.value, outcome.rise, outcome.opening, world.object_pose(handle).tolist())))
"""


def test_other_processes_see_the_same():
    outputs = {
        subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1
    assert "success" in outputs.pop()


def test_parked_it_is_out_of_sight_and_lets_go(world, robot, box):
    handle = _stand(world, box(0.04, 0.06, 0.10))
    assert robot.execute(GOOD).success
    world.park_robots()
    assert robot.tool()[2] > 1.0
    assert world.settle(handle)
    assert world.height_of(handle) < 0.06


def test_put_down_where_asked(world, robot, box):
    handle = _stand(world, box(0.04, 0.06, 0.10))
    assert robot.execute(GOOD).success
    outcome = robot.place(PlanarGrasp(0.15, -0.10, GOOD.z + 0.002, 0.6, GOOD.width))
    assert outcome.success, outcome.message
    assert world.object_pose(handle)[:3, 3] == pytest.approx([0.15, -0.10, 0.05], abs=0.004)
    assert robot.tool()[2] > GOOD.z + 0.09
    assert robot.place(GOOD).outcome is Outcome.EMPTY


def test_without_shaking_it_ends_after_the_lift(world, box):
    robot = FreeGripper(world, profile=MotionProfile(shake=False))
    _stand(world, box(0.04, 0.06, 0.10))
    stages = []
    outcome = robot.execute(GOOD, on_stage=stages.append)
    assert outcome.success
    assert stages[-1] is Stage.LIFT
    assert outcome.seconds < 1.5


def test_other_gripper_is_built_as_specified(world, box):
    robot = FreeGripper(world, GripperSpec(max_opening=0.12, force=15.0))
    handle = _stand(world, box(0.10, 0.04, 0.10, 0.05))
    assert robot.execute(GOOD.replace(width=0.115)).success
    force = sum(
        p[9] for p in world.bullet.getContactPoints(robot.body, handle.body, robot.fingers.links[0], -1, world.client)
    )
    assert force == pytest.approx(15.0, rel=0.15)
