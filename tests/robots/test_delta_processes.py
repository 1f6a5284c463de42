"""Programs that drive the robot and are interrupted or killed, in each phase: the robot is left safe and usable."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from delta_setup import config, emulator

from keygrasp.errors import KeygraspError
from keygrasp.robots.delta_x import DeltaX

pytest.importorskip("serial")
pytestmark = [pytest.mark.hardware, pytest.mark.slow]

SUPPORT = Path(__file__).parents[1] / "support"


def wait_until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def began(robot, start):
    return any(line.startswith(start) for line in robot.lines)


def start(robot, *options):
    return subprocess.Popen(
        [sys.executable, str(SUPPORT / "delta_worker.py"), robot.path, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def moves(robot):
    return sum(line.startswith("G1 ") for line in robot.lines)


def safe_and_usable(robot):
    """The gripper is open, nothing more is sent, and the next program can connect and move."""
    wait_until(lambda: robot.firmware.idle and robot.firmware.machine.grip == 0)
    sent = moves(robot)
    time.sleep(0.2)
    assert moves(robot) == sent
    deadline = time.monotonic() + 10
    while True:
        try:
            with DeltaX(config(robot.path)) as driver:
                driver.move(np.array([[0, 0, -0.3]]))
                return
        except KeygraspError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


PHASES = {
    "handshake": lambda robot, worker: worker.stdout.readline() == "handshake\n",
    "homing": lambda robot, worker: began(robot, "G28"),
    "moving": lambda robot, worker: began(robot, "G1 "),
    "gripping": lambda robot, worker: began(robot, "M03"),
    "carrying": lambda robot, worker: began(robot, "G1 X100") or any("X8" in line for line in robot.lines),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_program_leaves_the_robot_safe(phase):
    with emulator(scale=5) as robot:
        worker = start(robot, "--guardian")
        wait_until(lambda: PHASES[phase](robot, worker))
        worker.kill()
        worker.wait()
        safe_and_usable(robot)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_gripper_opens_after_a_signal(number):
    with emulator(scale=5) as robot:
        worker = start(robot)
        wait_until(lambda: PHASES["carrying"](robot, worker))
        worker.send_signal(number)
        assert worker.wait(20) != 0
        assert robot.firmware.machine.grip == 0
        safe_and_usable(robot)


def test_the_gripper_opens_after_an_exception():
    with emulator(scale=5) as robot:
        worker = start(robot, "--fail")
        assert worker.wait(30) != 0
        assert robot.firmware.machine.grip == 0
        assert began(robot, "M03")


def test_the_program_ends_with_its_parent():
    with emulator(scale=5) as robot:
        parent = start(robot, "--as-parent")
        child = int(parent.stdout.readline())
        wait_until(lambda: PHASES["carrying"](robot, parent))
        parent.kill()
        parent.wait()
        wait_until(
            lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]
        )
        safe_and_usable(robot)
