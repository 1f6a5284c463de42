"""The driver against the emulator over a real pseudo-terminal."""

import dataclasses
import sys
import threading
import time

import numpy as np
import pytest
from delta_setup import config, emulator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keygrasp.errors import ConfigurationError, InputError, MissingExtraError, RobotError
from keygrasp.robots import Unreachable
from keygrasp.robots.delta_x import (
    MODELS,
    CommandRejectedError,
    DeltaX,
    Dialect,
    HaltedError,
    NoAnswerError,
    State,
    inverse,
)
from keygrasp.robots.delta_x.ramps import Ramp
from keygrasp.robots.serial_port import find_port, is_plugged_in

pytest.importorskip("serial")
pytestmark = pytest.mark.hardware

DOWN = np.array([[0.0, 0.0, -0.3]])


def moves(robot):
    return [line for line in robot.lines if line.startswith("G1 ")]


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


@pytest.fixture
def robot():
    with emulator() as running:
        yield running


@pytest.fixture
def driver(robot):
    with DeltaX(config(robot.path)) as connected:
        yield connected


@pytest.fixture
def impatient(robot):
    with DeltaX(config(robot.path, margin_seconds=0.2)) as connected:
        yield connected


def test_connecting_homes_and_sets_limits(robot, driver):
    assert driver.state is State.READY
    np.testing.assert_allclose(driver.position, driver.model.home, atol=1e-5)
    assert robot.lines.count("G28") <= 1
    assert {"G90", "M203 S850", "M204 A2000", "M360 E1"} <= set(robot.lines)


def test_moves_arrive_and_the_robot_confirms_where(robot, driver):
    path = np.array([[0, 0, -0.3], [0.05, -0.03, -0.32], [-0.0505, 0.0402, -0.3501]])
    driver.move(path)
    np.testing.assert_allclose(driver.position, path[-1], atol=1e-5)
    np.testing.assert_allclose(robot.firmware.machine.target, path[-1] * 1e3, atol=1e-3)
    np.testing.assert_allclose(driver.whereabouts.position, driver.position, atol=1e-9)


def test_every_move_names_all_axes_and_its_speed(robot, driver):
    driver.move(DOWN, speed=0.2)
    assert all(line.split()[1][0] == "X" and "Y" in line and "Z" in line and "F200" in line for line in moves(robot))


def test_a_path_with_a_bad_point_is_refused_before_anything_is_sent(robot, driver):
    with pytest.raises(Unreachable, match="move 3"):
        driver.move(np.array([[0, 0, -0.3], [0.1, 0, -0.3], [0.1, 0, -0.42]]))
    assert moves(robot) == []
    assert driver.state is State.READY


@pytest.mark.parametrize("speed", [0.0, -1.0, 0.9, float("nan")])
def test_speeds_beyond_the_model_are_refused(robot, driver, speed):
    with pytest.raises(InputError, match="speed"):
        driver.move(DOWN, speed=speed)
    assert moves(robot) == []


def test_a_move_shorter_than_the_robot_makes_is_left_out(robot, driver):
    driver.move(DOWN)
    count = len(moves(robot))
    driver.move(DOWN + np.array([1e-4, 0, 0]))
    assert len(moves(robot)) == count
    np.testing.assert_allclose(driver.position, DOWN[0], atol=1e-5)


def test_the_gripper_follows_its_table(robot, driver):
    driver.grip(0.021)
    assert robot.firmware.machine.grip == pytest.approx(0.5)
    driver.grasp()
    assert robot.firmware.machine.grip == pytest.approx(1.0)
    driver.release()
    assert robot.firmware.machine.grip == 0
    with pytest.raises(ConfigurationError, match="calibration table"):
        driver.grip(0.1)


def test_vacuum(robot):
    with DeltaX(config(robot.path, tool={"kind": "vacuum"})) as driver:
        assert robot.firmware.machine.effector == 0
        driver.grasp()
        assert robot.firmware.machine.grip == 1.0
    assert robot.firmware.machine.grip == 0.0


@pytest.mark.parametrize("dialect", [Dialect.X2, Dialect.XS])
def test_other_dialects(dialect):
    model = dataclasses.replace(MODELS["X1"], dialect=dialect)
    with emulator(model=model) as robot:
        driver = DeltaX(config(robot.path), model)
        with driver:
            driver.move(np.array([[0, 0, -0.3], [0.05, -0.03, -0.32]]))
            np.testing.assert_allclose(driver.position, [0.05, -0.03, -0.32], atol=1e-5)
            driver.grasp()
            assert robot.firmware.machine.grip == pytest.approx(1.0)
        assert robot.firmware.machine.grip == 0.0


@pytest.mark.parametrize("dialect", [Dialect.X1, Dialect.XS])
def test_a_refused_command_is_an_error_at_once_in_both_spellings(dialect):
    model = dataclasses.replace(MODELS["X1"], dialect=dialect)
    with emulator(model=model) as robot:
        driver = DeltaX(config(robot.path), model)
        with driver:
            session = driver._ready()
            began = time.monotonic()
            with pytest.raises(CommandRejectedError, match="M99"):
                session.command("M99", 15.0)
            assert time.monotonic() - began < 5
            driver.move(DOWN)  # and the conversation goes on in step


def test_nothing_answers_on_a_port_without_a_robot():
    import os
    import pty

    master, slave = pty.openpty()
    try:
        with pytest.raises(NoAnswerError, match="nothing that speaks"):
            DeltaX(config(os.ttyname(slave), handshake_seconds=0.3)).connect()
        assert b"M05" not in os.read(master, 4096), "nothing but the question is sent to what may be no robot"
    finally:
        os.close(master)
        os.close(slave)


def test_a_port_that_does_not_exist():
    with pytest.raises(RobotError, match="no port /dev/nowhere"):
        DeltaX(config("/dev/nowhere")).connect()


def test_motion_before_connecting_is_refused():
    with pytest.raises(RobotError, match="Connect first"):
        DeltaX(config("/dev/nowhere")).move(DOWN)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_robot_that_has_just_booted_is_not_homed_again(dialect):
    model = dataclasses.replace(MODELS["X1"], dialect=dialect)
    running = emulator(model=model, boot_seconds=0.4, scale=3)
    with running as robot, DeltaX(config(robot.path, boot_seconds=5.0), model) as driver:
        assert "G28" not in robot.lines
        np.testing.assert_allclose(driver.position, driver.model.home, atol=1e-5)
        driver.move(DOWN, speed=0.5)


def test_an_unfinished_line_of_a_dead_client_is_never_executed(robot):
    import serial

    with serial.Serial(robot.path, 115200) as dead:
        dead.write(b"G1 X50 Y0 Z-3")
    time.sleep(0.1)
    with DeltaX(config(robot.path)):
        assert moves(robot) == []


def test_an_emergency_stop_reaches_the_wire_at_once_and_holds():
    model = dataclasses.replace(MODELS["X1"], dialect=Dialect.X2, home_speed=20.0)
    with emulator(model=model, scale=1) as robot:
        driver = DeltaX(config(robot.path), model)
        with driver:
            thread_error = []

            def work():
                try:
                    driver.move(np.array([[0, 0, -0.3], [0.1, 0, -0.3], [-0.1, 0, -0.3]]), speed=0.05)
                except RobotError as error:
                    thread_error.append(error)

            worker = threading.Thread(target=work)
            worker.start()
            wait_until(lambda: moves(robot))
            began = time.monotonic()
            driver.emergency_stop()
            wait_until(lambda: any(name == "stop" for name, _ in robot.events))
            assert time.monotonic() - began < 1.0
            worker.join(10)
            assert isinstance(thread_error[0], HaltedError)
            assert driver.state is State.STOPPED
            with pytest.raises(RobotError, match="Reset"):
                driver.move(DOWN)
            with pytest.raises(HaltedError):  # whatever another thread was about to send
                driver._connection.session.link.send("G28")
            count = len(moves(robot))
            driver.reset()
            assert driver.state is State.READY
            assert len(moves(robot)) == count
            driver.move(DOWN, speed=0.5)


def test_x1_has_no_stop_so_its_port_is_closed_and_the_gripper_opens():
    with emulator(scale=2) as robot:
        driver = DeltaX(config(robot.path))
        driver.connect()
        driver.grasp()
        errors = []

        def work():
            try:
                driver.move(np.array([[0, 0, -0.39]]), speed=0.05)
            except RobotError as error:
                errors.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        wait_until(lambda: moves(robot))
        driver.emergency_stop()
        worker.join(10)
        sent = len(moves(robot))
        assert errors
        assert driver.state is State.STOPPED
        wait_until(lambda: robot.firmware.machine.grip == 0)
        assert len(moves(robot)) == sent
        assert robot.firmware.machine.target[2] > -300, "the rest of the way was never sent"
        driver.reset()
        assert driver.state is State.READY
        driver.close()


def test_a_stop_without_a_connection_holds_until_it_is_reset(robot):
    driver = DeltaX(config(robot.path))
    driver.emergency_stop()
    with pytest.raises(HaltedError, match="emergency stop"):
        driver.connect()
    assert robot.lines == [], "the robot was homed after a stop"
    driver.reset()
    assert driver.state is State.READY
    driver.close()


@pytest.mark.parametrize("dialect", [Dialect.X1, Dialect.X2])
def test_a_stop_while_the_robot_homes_ends_connecting(dialect):
    model = dataclasses.replace(MODELS["X1"], dialect=dialect)
    with emulator(model=model, scale=2) as robot:
        wait_until(lambda: robot.firmware.idle)
        driver = DeltaX(config(robot.path), model)
        stopper = threading.Thread(target=lambda: (wait_until(lambda: "G28" in robot.lines), driver.emergency_stop()))
        stopper.start()
        with pytest.raises(RobotError):
            driver.connect()
        stopper.join()
        assert moves(robot) == []
        assert driver.state is State.DISCONNECTED


def test_a_stop_while_a_vanished_port_is_waited_for_is_not_forgotten(robot, tmp_path):
    driver = DeltaX(config(tmp_path / "away"))
    stopper = threading.Timer(0.3, driver.emergency_stop)
    stopper.start()
    with pytest.raises(HaltedError):
        driver.reconnect()
    assert driver.state is State.STOPPED


def test_a_stop_in_the_middle_of_a_reset_is_not_undone(monkeypatch):
    """It comes when commands are let through again: nothing after it may home the robot."""
    model = dataclasses.replace(MODELS["X1"], dialect=Dialect.X2)
    with emulator(model=model) as robot, DeltaX(config(robot.path), model) as driver:
        driver.emergency_stop()
        homings = robot.lines.count("G28")
        allow, stoppers = driver._connection.allow, []

        def stop_and_allow():
            stoppers.append(threading.Thread(target=driver.emergency_stop))
            stoppers[0].start()
            time.sleep(0.05)
            allow()

        monkeypatch.setattr(driver._connection, "allow", stop_and_allow)
        rest = driver._connection.come_to_rest
        monkeypatch.setattr(driver._connection, "come_to_rest", lambda: (stoppers[0].join(), rest())[1])
        with pytest.raises(HaltedError):
            driver.reset()
        assert driver.state is State.STOPPED
        time.sleep(0.1)
        assert robot.lines.count("G28") == homings


def test_the_driver_tells_how_the_line_does_and_how_well_the_position_is_known(robot, driver):
    assert driver.whereabouts.opening is None
    driver.move(DOWN, turn=1.0)
    driver.grip(0.02)
    where, figures = driver.whereabouts, driver.figures.snapshot()
    assert not where.moving
    assert where.age < 5
    assert where.lag < 1e-5
    assert (where.turn, where.opening) == (1.0, 0.02)
    assert figures["connections"] == 1
    assert figures["commands"] == len([line for line in robot.lines if line != "G93"])
    assert figures["missing"] == figures["restarts"] == 0
    assert 0 < figures["answer_p50_ms"] < 1000
    driver.release()
    assert driver.whereabouts.opening == driver.config.tool.table[-1][0]


@given(st.binary(min_size=1, max_size=120).filter(lambda data: b"Init" not in data))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_noise_from_the_robot_never_crashes_the_driver_nor_moves_it_wrongly(robot, impatient, noise):
    """Random bytes between and inside answers: at worst an error, and never a move that was not asked for."""
    import os

    driver = impatient
    if driver.state is not State.READY:
        driver.reconnect()
    goal = np.array([[0.01, 0.0, -0.3]]) if driver.position[0] < 0.005 else DOWN
    already = len(moves(robot))
    os.write(robot._master, noise)
    try:
        driver.move(goal)
    except RobotError:
        return
    assert len(moves(robot)) - already <= 1
    np.testing.assert_allclose(robot.firmware.machine.target, goal[0] * 1e3, atol=1e-3)
    np.testing.assert_allclose(driver.position, goal[0], atol=1e-5)


def test_the_port_is_found_by_the_adapters_number(monkeypatch):
    from types import SimpleNamespace

    import serial.tools.list_ports as listing

    ports = [
        SimpleNamespace(device="/dev/ttyUSB3", serial_number="123E5"),
        SimpleNamespace(device="b", serial_number=None),
    ]
    monkeypatch.setattr(listing, "comports", lambda: ports)
    assert find_port("123E5") == "/dev/ttyUSB3"
    assert is_plugged_in("/dev/nowhere", "123E5")
    assert not is_plugged_in("/dev/null", "12300000.0")
    assert not is_plugged_in("/dev/nowhere", None)
    with pytest.raises(RobotError, match=r"'12300000\.0'.*123E5 \(/dev/ttyUSB3\)"):
        find_port("12300000.0")


def test_without_pyserial_the_extra_is_named_and_the_kinematics_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(MissingExtraError, match=r"keygrasp\[hardware\]"):
        DeltaX(config("/dev/nowhere")).connect()
    assert np.isfinite(inverse(MODELS["X1"].geometry, MODELS["X1"].home)).all()


def test_the_estimate_follows_the_robot_while_it_moves():
    model = dataclasses.replace(MODELS["X1"], home_speed=20.0)
    setup = {"motion": {"stop_latency": 5.0}}
    with emulator(scale=1, model=model) as robot, DeltaX(config(robot.path, **setup), model) as driver:
        driver.move(DOWN, speed=0.5)
        worker = threading.Thread(target=driver.move, args=(np.array([[0.08, 0, -0.3]]),), kwargs={"speed": 0.05})
        count = len(moves(robot))
        worker.start()
        wait_until(lambda: len(moves(robot)) > count)
        time.sleep(0.4)
        there = robot.firmware.position(robot._now()) * 1e-3
        estimate = driver.whereabouts.position
        assert 0.005 < there[0] < 0.079
        assert np.linalg.norm(estimate - there) < 0.02
        worker.join()
        np.testing.assert_allclose(driver.whereabouts.position, [0.08, 0, -0.3], atol=1e-5)


@given(st.floats(1e-4, 1.0), st.floats(1e-3, 2.0), st.floats(0.01, 50.0))
@settings(deadline=None)
def test_ramps_are_continuous_and_keep_their_limits(distance, speed, acceleration):
    ramp = Ramp(distance, speed, acceleration)
    times = np.linspace(0, ramp.duration, 401)
    way = distance * np.array([ramp.share(t) for t in times])
    step = times[1]
    assert way[0] == 0
    assert way[-1] == pytest.approx(distance)
    assert np.diff(way).max() / step <= speed * (1 + 1e-6)
    assert np.abs(np.diff(way, 2)).max() / step**2 <= acceleration * (1 + 1e-3) + 1e-6 * acceleration
    assert ramp.share(-1.0) == 0
    assert ramp.share(2 * ramp.duration) == 1
