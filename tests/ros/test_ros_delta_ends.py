"""Every end of the Delta's node, in each phase: the robot is left at rest, with an open tool, and free for the next."""

import signal
import time

import pytest
from delta_bench import DeltaBench, goal
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.waiting import wait_until
from ros_calls import never

from keygrasp.errors import KeygraspError
from keygrasp.robots.delta_x import DeltaConfig, DeltaX, State

pytest.importorskip("serial")
pytestmark = [pytest.mark.ros, pytest.mark.hardware, pytest.mark.slow]


@pytest.fixture(scope="module")
def bench(own_corner, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(free_domain()))
        bench = DeltaBench(tmp_path_factory.mktemp("delta"), "holding:=topic")
        yield bench
    bench.close()


def homing(bench):
    """Connecting: it homes."""
    count = len(bench.emulator.lines("G28"))
    bench.start()
    wait_until(lambda: len(bench.emulator.lines("G28")) > count, "no homing", 60.0, never)


def idle(bench):
    bench.start().wait_ready()


def moving(bench):
    idle(bench)
    bench.begun(goal(), "approach")


def closing(bench):
    idle(bench)
    bench.begun(goal(), "close")


def carrying(bench):
    idle(bench)
    bench.begun(goal(), "lift")


def left_safe_and_free(bench):
    """The tool was opened last, nothing moves, and the next program can connect."""
    wait_until(lambda: bench.emulator.lines()[-1] == "M05", "the tool is closed", 20.0, never)
    assert bench.emulator.is_still()
    deadline = time.monotonic() + 20.0
    while True:
        try:
            with DeltaX(DeltaConfig(port=str(bench.emulator.link), boot_seconds=0.1, guardian=False)) as other:
                assert other.state is State.READY
                return
        except KeygraspError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.parametrize("phase", [homing, idle, moving, closing, carrying], ids=lambda phase: phase.__name__)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_end_of_the_node_leaves_the_robot_safe(bench, number, phase):
    phase(bench)
    bench.process.send_signal(number)
    status = bench.process.wait(30)
    assert status == (0 if number == signal.SIGTERM else -number), bench.log.read_text()
    left_safe_and_free(bench)
    assert "Traceback" not in bench.log.read_text()


def test_ctrl_c_in_motion_leaves_the_robot_safe(bench):
    moving(bench)
    bench.process.send_signal(signal.SIGINT)
    assert bench.process.wait(30) == 0
    left_safe_and_free(bench)


def test_a_port_that_does_not_exist_ends_the_node_with_the_reason(bench, tmp_path):
    bench.start(f"port:={tmp_path / 'nowhere'}")
    assert bench.process.wait(60) != 0
    text = bench.log.read_text()
    assert f"there is no port {tmp_path / 'nowhere'}" in text
    assert "Traceback" not in text
