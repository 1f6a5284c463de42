"""Each fault that users of such robots have reported, and each that the emulator can inject, over a real port."""

import dataclasses
import time

import numpy as np
import pytest
from delta_setup import config, emulator

from keygrasp.errors import RobotError
from keygrasp.robots.delta_x import (
    MODELS,
    ConnectionLostError,
    DeltaX,
    Dialect,
    HaltedError,
    NoAnswerError,
    PortBusyError,
    PositionError,
    RestartedError,
    State,
)
from keygrasp.robots.delta_x.connection import Connection
from keygrasp.robots.serial_port import SerialPort

pytest.importorskip("serial")
pytestmark = pytest.mark.hardware

DOWN = np.array([[0.0, 0.0, -0.3]])
LOW = np.array([[0.03, 0.0, -0.33]])
#: G28, G93, G90, M203, M204, M360: what connecting sends, so the first move is the command after it.
FIRST_MOVE = 7


def count(robot, start):
    return sum(line.startswith(start) for line in robot.lines)


def test_port_unplugged_during_a_move_is_an_error_and_reconnects(tmp_path):
    with emulator(f"unplug@{FIRST_MOVE}", link=tmp_path / "port", unplug_seconds=0.4, scale=10) as robot:
        driver = DeltaX(config(robot.path))
        driver.connect()
        with pytest.raises(ConnectionLostError):
            driver.move(DOWN)
        assert driver.state is State.LOST
        with pytest.raises(RobotError, match="Reconnect"):
            driver.move(DOWN)
        driver.reconnect()
        assert driver.state is State.READY
        driver.move(LOW)
        np.testing.assert_allclose(robot.firmware.machine.target, LOW[0] * 1e3, atol=1e-3)
        driver.close()


def test_a_port_that_stays_away_is_said_and_can_be_tried_again(tmp_path):
    with emulator(f"unplug@{FIRST_MOVE}", link=tmp_path / "port", unplug_seconds=1.0) as robot:
        driver = DeltaX(config(robot.path, reconnect_seconds=0.2))
        driver.connect()
        with pytest.raises(ConnectionLostError):
            driver.move(DOWN)
        with pytest.raises(ConnectionLostError, match="stayed away"):
            driver.reconnect()
        assert driver.state is State.LOST, "the next execution connects only what is lost"
        time.sleep(1.0)
        driver.reconnect()
        assert driver.close() == ()


def test_slow_homing_is_waited_for_and_not_started_twice():
    # 1.4 s at real speed, with a margin far below that: the time-out follows from the robot's own homing speed.
    with emulator(scale=1) as robot, DeltaX(config(robot.path, margin_seconds=0.3, boot_seconds=0.0)) as driver:
        assert count(robot, "G28") == 1
        assert driver.state is State.READY


def test_homing_that_never_ends_is_an_error_and_not_started_twice():
    model = dataclasses.replace(MODELS["X1"], home_speed=20.0)  # so that waiting for it is short
    with emulator("end-stop@2", model=model) as robot:
        with pytest.raises(NoAnswerError, match="end stops"):
            DeltaX(config(robot.path, margin_seconds=0.3), model).connect()
        assert count(robot, "G28") == 1


@pytest.mark.parametrize("dialect", [Dialect.X1, Dialect.XS])
def test_cancel_stops_the_motion(dialect):
    model = dataclasses.replace(MODELS["X1"], dialect=dialect)
    setup = {"motion": {"stop_latency": 0.4}}
    with emulator(model=model, scale=4) as robot, DeltaX(config(robot.path, **setup), model) as driver:
        driver.move(DOWN)
        before = count(robot, "G1 ")
        with pytest.raises(HaltedError):
            driver.move(
                np.array([[0.1, 0, -0.3], [-0.1, 0, -0.3]]),
                speed=0.05,
                cancelled=lambda: count(robot, "G1 ") > before,
            )
        sent, stopped = count(robot, "G1 "), driver.position
        if dialect is Dialect.X1:  # ends the piece of 20 mm that is under way
            assert stopped[0] == pytest.approx(0.02, abs=1e-5)
        else:  # stops within the move
            assert 0 <= stopped[0] < 0.099
        time.sleep(0.2)
        assert count(robot, "G1 ") == sent
        assert robot.firmware.idle
        np.testing.assert_allclose(robot.firmware.machine.target, stopped * 1e3, atol=0.02)
        assert driver.state is State.READY
        driver.move(DOWN)  # and it can go on from there


def test_noise_on_an_acknowledgement_does_not_lose_it():
    with emulator(f"noise@{FIRST_MOVE}") as robot, DeltaX(config(robot.path, margin_seconds=0.5)) as driver:
        driver.move(DOWN)
        driver.move(LOW)
        assert count(robot, "G1 ") == 2
        np.testing.assert_allclose(driver.position, LOW[0], atol=1e-5)


def test_a_lost_acknowledgement_of_a_finished_move_is_not_a_failure():
    """The robot has done what it was told: the client must not report otherwise, nor do it again."""
    with emulator(f"lost-ack@{FIRST_MOVE}") as robot, DeltaX(config(robot.path, margin_seconds=0.5)) as driver:
        driver.move(DOWN)
        assert count(robot, "G1 ") == 1
        assert driver.state is State.READY
        driver.move(LOW)


@pytest.mark.parametrize(("dialect", "first_move"), [(Dialect.X2, 6), (Dialect.XS, 4)])
def test_a_lost_acknowledgement_on_the_other_dialects(dialect, first_move):
    model = dataclasses.replace(MODELS["X1"], dialect=dialect)
    with emulator(f"lost-ack@{first_move}", model=model) as robot:
        with DeltaX(config(robot.path, margin_seconds=0.5), model) as driver:
            driver.move(DOWN)
            driver.move(LOW)
            np.testing.assert_allclose(robot.firmware.machine.target, LOW[0] * 1e3, atol=1e-3)
        assert count(robot, "G1 ") == 2


def test_a_late_acknowledgement_is_not_taken_for_the_next_commands():
    # The move takes 1.4 s, the driver is made to give up after 0.3 s: the Ok comes while it asks where the robot is.
    model = dataclasses.replace(MODELS["X1"], home_speed=20.0)
    with emulator(scale=1, model=model) as robot:
        driver = DeltaX(config(robot.path, motion={"stop_latency": 60.0}), model)
        with driver:
            session = driver._ready()
            with pytest.raises(NoAnswerError):
                session.command("G1 X0 Y0 Z-300 F80", 0.3)
            with pytest.raises(NoAnswerError, match="not been found in step"):
                session.command("G1 X0 Y0 Z-390 F80", 0.3)
            np.testing.assert_allclose(session.position(5.0), DOWN[0], atol=1e-5)
            began = robot.firmware.machine.target.copy()
            session.command("G4 P50", 5.0)
            assert np.array_equal(began, robot.firmware.machine.target)
            assert robot.firmware.idle


def test_a_lost_acknowledgement_of_the_gripper():
    with emulator(f"lost-ack@{FIRST_MOVE}") as robot, DeltaX(config(robot.path, margin_seconds=0.3)) as driver:
        driver.grasp()
        assert robot.firmware.machine.grip == pytest.approx(1.0)
        assert driver.state is State.READY


def test_a_reset_in_mid_move_is_said_and_nothing_is_sent_before_reconnecting():
    with emulator(f"reset@{FIRST_MOVE}", scale=10) as robot, DeltaX(config(robot.path)) as driver:
        with pytest.raises(RestartedError):
            driver.move(np.array([[0, 0, -0.3], [0.05, 0, -0.3]]))
        assert count(robot, "G1 X50") == 0
        assert driver.state is State.LOST
        driver.reconnect()
        driver.move(LOW)


def test_a_stalled_move_ends_in_an_error_that_says_so():
    with emulator(f"stall@{FIRST_MOVE}") as robot:
        driver = DeltaX(config(robot.path, margin_seconds=0.2, motion={"acceleration": 20.0}))
        driver.connect()
        with pytest.raises(NoAnswerError, match="stalled"):
            driver.move(DOWN, speed=0.8)
        assert driver.state is State.LOST
        assert driver.close(), "the shutdown says that it could not come to rest"
        assert robot.lines[-1].startswith(("G1", "G93"))


def test_a_robot_that_is_not_where_it_was_sent_is_not_moved_on():
    """The firmware acknowledges a rejected move with a turn; its own position shows that it did nothing."""
    with emulator() as robot, DeltaX(config(robot.path)) as driver:
        driver.move(DOWN)
        robot.firmware.machine.model = dataclasses.replace(MODELS["X1"], radius=0.02)  # refuses what the host allows
        with pytest.raises(PositionError, match="Connect again"):
            driver.move(LOW, turn=1.0)
        assert driver.state is State.LOST


def test_one_error_does_not_skip_the_rest_of_the_shutdown(monkeypatch):
    def broken(self):
        raise RuntimeError("the first step of the shutdown failed")

    monkeypatch.setattr(Connection, "come_to_rest", broken)
    with emulator(f"stall@{FIRST_MOVE + 4}") as robot:
        driver = DeltaX(config(robot.path, margin_seconds=0.2, guardian=True, motion={"acceleration": 20.0}))
        driver.connect()
        driver.grasp()
        guardian = driver._connection._guardian
        with pytest.raises(NoAnswerError):
            driver.move(np.array([[0, 0, -0.25], [0, 0, -0.3]]), speed=0.8)
        problems = driver.close()
        assert any("first step" in problem for problem in problems)
        assert not guardian.alive
        SerialPort(robot.path).close()  # the port is free again


def test_two_clients_cannot_open_one_port():
    with emulator() as robot, DeltaX(config(robot.path, guardian=True)) as driver:
        with pytest.raises(PortBusyError, match="in use"):
            DeltaX(config(robot.path)).connect()
        driver.move(DOWN)  # the first is not disturbed
        driver.close()
        with DeltaX(config(robot.path)) as second:  # and gives the port up
            second.move(DOWN)


def test_a_wrong_frame_is_told_by_the_height_before_anything_moves():
    from keygrasp.robots import Unreachable

    with emulator() as robot, DeltaX(config(robot.path)) as driver:
        with pytest.raises(Unreachable):  # a point of a camera's frame, z forward
            driver.move(np.array([[0.0, 0.0, 0.3]]))
        with pytest.raises(Unreachable):  # millimetres
            driver.move(np.array([[0.0, 0.0, -300.0]]) * 1e-2)
        assert count(robot, "G1 ") == 0
