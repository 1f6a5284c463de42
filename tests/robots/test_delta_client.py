"""The robot maker's own client from PyPI works against the emulator, unchanged."""

import pytest
from delta_setup import emulator

deltax = pytest.importorskip("deltax")
pytestmark = pytest.mark.hardware


@pytest.fixture
def pair():
    with emulator() as robot:
        client = deltax.DeltaX(port=robot.path, model=deltax.DeltaX.DeltaX_V2)
        assert client.connect()
        yield robot, client
        client.disconnect()


def done(client):
    return client.wait_for_robot_response()


def test_the_makers_client_drives_the_emulator(pair):
    robot, client = pair
    client.homing()
    assert done(client) == client.DONE
    client.moveL([10, -20, -300], velocity=200)
    assert done(client) == client.DONE
    client.syncPosition()
    assert done(client) == client.DONE
    assert client.position()[:3] == [10.0, -20.0, -300.0]
    client.moveC(client.CW, [-10, 20], [10, -20], velocity=200)
    assert done(client) == client.DONE
    assert robot.firmware.machine.target.tolist() == [10.0, -20.0, -300.0]


def test_the_makers_client_drives_the_tool_and_the_limits(pair):
    robot, client = pair
    client.setEndEffector(client.Gripper)
    client.controlEndEffector(value=50)
    assert done(client) == client.DONE
    assert robot.firmware.machine.grip == pytest.approx(0.5)
    client.controlEndEffector(value=client.OFF)
    client.setAcceleration(1500)
    client.setStartingAndEndingSpeeds(20)
    client.sleep(100)
    assert done(client) == client.DONE
    assert robot.firmware.machine.grip == 0
    assert robot.firmware.machine.acceleration == 1500


def test_a_rejection_leaves_the_makers_client_waiting_as_with_the_real_robot(pair):
    """It looks for another spelling; the emulator must not be kinder than the robot."""
    robot, client = pair
    client.timeout = 1
    client.homing()
    assert done(client) == client.DONE
    client.moveL([200, 0, -300])
    assert done(client) == client.NO_REPLY
    assert client.robot_response() == "Unknown"
