"""What goes wrong on a robot: the pose is lost, a motor is stuck, the flash wears out."""

import ctypes

import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.skills.core import SKILLS, Agent, Event, Pose, RawBlock, library
from keygrasp.skills.development import develop, draw, steps
from keygrasp.skills.millirobot import Body, Millirobot


@pytest.fixture(scope="module")
def learned():
    agent = Agent(3)
    develop(agent, Millirobot(3), 240.0)
    assert all(state.learned for state in agent.skills)
    return agent.memory


def test_a_lost_pose_abandons_the_run_and_counts_for_nothing(learned):
    agent, robot = Agent(3, memory=learned, only="circle"), Millirobot(3)
    for step in steps(agent, robot, 20.0):
        if step.decision.skill == "circle":
            break
    before = agent.memory
    robot.visible = False
    lost = agent.step(robot.look())
    assert lost.events == Event.ABANDONED
    assert (lost.ended, lost.left, lost.right, lost.milliseconds) == ("circle", 0, 0, 0)
    assert agent.step(None).events == Event(0)
    assert agent.memory == before
    robot.visible = True
    assert Event.STARTED in agent.step(robot.look()).events


@pytest.mark.parametrize(("wheels", "bits"), [((0,), 1), ((1,), 2), ((0, 1), 3)])
def test_a_stuck_motor_is_named_and_the_robot_stops_until_it_is_free(learned, wheels, bits):
    agent, robot = Agent(3, memory=learned), Millirobot(3)
    develop(agent, robot, 30.0)
    for wheel in wheels:
        robot.weaken(wheel, 0.0)
    stuck = [s for s in steps(agent, robot, 150.0) if Event.MOTOR_STUCK in s.decision.events]
    assert stuck
    assert {s.decision.stuck for s in stuck} == {bits}
    assert all(s.decision.milliseconds == 0 for s in stuck)
    assert stuck[0].seconds < 90
    robot.gain = Millirobot(3).gain
    runs = develop(agent, robot, robot.clock + 60)
    assert runs  # it lives again


def test_a_motor_stuck_from_the_start_is_found_by_the_first_test():
    agent, robot = Agent(1), Millirobot(1)
    robot.weaken(1, 0.0)
    found = next(s for s in steps(agent, robot, 60.0) if Event.MOTOR_STUCK in s.decision.events)
    assert found.decision.stuck == 2
    assert found.seconds < 5
    with pytest.raises(ConfigurationError, match="0 of 1"):
        draw(agent.memory, robot, "circle", 1)


@pytest.mark.parametrize("wheel", [0, 1])
def test_a_motor_that_gets_stuck_before_anything_is_learned_is_found(wheel):
    agent, robot = Agent(5), Millirobot(5)
    develop(agent, robot, 6.0)
    robot.weaken(wheel, 0.0)
    found = next(s for s in steps(agent, robot, 120.0) if Event.MOTOR_STUCK in s.decision.events)
    assert found.decision.stuck == 1 + wheel


def test_a_changed_body_is_tested_for_a_stuck_motor_at_once(learned):
    agent, robot = Agent(3, memory=learned), Millirobot(3)
    develop(agent, robot, 30.0)
    robot.weaken(0, 0.7)
    lost = None
    for step in steps(agent, robot, 300.0):
        if lost is not None:
            assert (step.decision.skill, step.decision.milliseconds) == (None, 600)
            break
        lost = step if Event.LOST in step.decision.events else None
    assert lost is not None


def test_poses_far_away_saturate_instead_of_wrapping():
    agent = Agent(1)
    for pose in (Pose(1e9, -1e9, 1e9), Pose(0, 0, 0), Pose(-40000, 40000, -1e9)):
        assert abs(agent.step(pose).left) <= 1000
    with pytest.raises(ConfigurationError, match="NaN"):
        agent.step(Pose(float("nan"), 0, 0))


SLOT, WRITE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int), ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)


class Flash(ctypes.Structure):
    """``kg_flash`` on two blocks of memory; a worn slot keeps one bit at 1."""

    _fields_ = (("slot", SLOT), ("write", WRITE))

    def __init__(self):
        size = ctypes.sizeof(RawBlock)
        self.slots = [ctypes.create_string_buffer(b"\xff" * size, size) for _ in range(2)]
        self.worn, self.writes, self.cut = set(), [], None
        super().__init__(SLOT(lambda slot: ctypes.addressof(self.slots[slot])), WRITE(self.program))

    def program(self, slot, block):
        if self.cut == "over":
            return
        data = bytearray(ctypes.string_at(block, ctypes.sizeof(RawBlock)))
        if slot in self.worn:
            data[100] |= 0x10
            data[200] |= 0x01
        if self.cut is not None:
            data[self.cut :] = b"\xff" * (len(data) - self.cut)
            self.cut = "over"  # the power is gone
        self.slots[slot].raw = bytes(data)
        self.writes.append(slot)


def store(agent, flash, worn=None):
    worn = ctypes.c_uint8() if worn is None else worn  # a c_uint8 of 0 counts as false
    return library().kg_store(ctypes.byref(agent.raw), ctypes.byref(flash), ctypes.byref(worn))


def load(flash):
    agent = Agent(9)
    return agent, library().kg_load(ctypes.byref(agent.raw), ctypes.byref(flash))


def test_what_was_learned_survives_in_flash(learned):
    flash, agent = Flash(), Agent(3, memory=learned)
    assert load(flash)[1] == 255
    assert [store(agent, flash) for _ in range(3)] == [0, 1, 0]
    again, slot = load(flash)
    assert slot == 0
    assert again.raw.memory.sequence == 3
    assert again.skills == agent.skills


def test_a_reset_while_writing_loses_only_the_last_write(learned):
    flash, agent = Flash(), Agent(3, memory=learned)
    store(agent, flash)
    flash.cut = 300
    store(agent, flash)
    again, slot = load(flash)
    assert slot == 0
    assert again.skills == agent.skills


def test_a_worn_flash_block_is_left_alone(learned):
    flash, agent, worn = Flash(), Agent(3, memory=learned), ctypes.c_uint8()
    flash.worn = {0}
    assert [store(agent, flash, worn) for _ in range(3)] == [1, 1, 1]
    assert flash.writes == [0, 1, 1, 1]
    assert worn.value == 1
    assert load(flash)[0].skills == agent.skills
    flash.worn = {0, 1}
    assert store(agent, flash, worn) == 255
    assert worn.value == 3


@pytest.mark.parametrize("place", [0, 4, 6, 8, 12, 16, 400, 767])
def test_a_damaged_block_is_not_loaded(learned, place):
    flash = Flash()
    store(Agent(3, memory=learned), flash)
    data = bytearray(flash.slots[0].raw)
    data[place] ^= 1
    flash.slots[0].raw = bytes(data)
    agent, slot = load(flash)
    if 8 <= place < 12:  # the sequence number is no secret: a flipped bit makes another, whole block
        assert slot == 0
    else:
        assert slot == 255
        assert not any(state.learned for state in agent.skills)


def test_bodies_and_loads_out_of_range_are_refused():
    with pytest.raises(ConfigurationError, match="positive"):
        Millirobot(0, Body(track=0.0))
    with pytest.raises(ConfigurationError, match="load"):
        Millirobot(0).load(5.0)
    assert len(SKILLS) == 12
