"""The Delta as a robot that grasps and places: stages, verdicts, frames and cancelling."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from delta_setup import config, emulator

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.geometry.poses import make_pose, rotation_z
from keygrasp.robots import Robot
from keygrasp.robots.delta_x import (
    Calibration,
    DeltaRobot,
    DeltaX,
    State,
    load_delta_config,
    load_model,
    save_calibration,
    table_below,
)
from keygrasp.scene import Outcome, PlanarGrasp, Stage

pytest.importorskip("serial")
pytestmark = pytest.mark.hardware

TABLE = table_below(-0.44)
GRASP = PlanarGrasp(0.03, -0.02, 0.005, 0.4, 0.03)
PLACE = PlanarGrasp(-0.04, 0.03, 0.005, 0.0, 0.03)


@pytest.fixture
def robot():
    with emulator() as running:
        yield running


def connected(robot, **changes):
    return DeltaX(config(robot.path, motion={"speed": 0.5, "stop_latency": 0.5}, **changes))


def moves(robot):
    return [line for line in robot.lines if line.startswith("G1 ")]


def test_it_is_a_robot_and_its_properties_work_while_disconnected():
    delta = DeltaRobot(DeltaX(config("/nowhere")), TABLE)
    checked: Robot = delta
    assert checked.name == "delta"
    assert checked.gripper.max_opening == pytest.approx(0.04)
    assert checked.unreachable_reason(GRASP) is None
    outcome = checked.execute(GRASP)
    assert outcome.outcome is Outcome.ROBOT_FAULT
    assert "Connect first" in outcome.message


def test_a_grasp_goes_through_the_stages_and_the_tip_reaches_it(robot):
    stages = []
    with connected(robot) as driver:
        delta = DeltaRobot(driver, TABLE, holding=lambda: True)
        outcome = delta.execute(GRASP, on_stage=stages.append)
    assert outcome.success, outcome
    assert outcome.rise == pytest.approx(0.06)
    assert stages == [Stage.APPROACH, Stage.DESCEND, Stage.CLOSE, Stage.LIFT, Stage.HOLD]
    lines = robot.lines
    closed = lines.index("M03 S100")
    # The last move before closing: tips 60 mm below the platform, 5 mm above a table at -440 mm; W = 85° + yaw.
    lowest = [line for line in lines[:closed] if line.startswith("G1 ")][-1]
    assert lowest == "G1 X30 Y-20 Z-375 W107.92 F100" or lowest == "G1 X30 Y-20 Z-375 F100"
    assert any("W107.92" in line for line in lines)
    assert lines[closed + 2].startswith("G1 X30 Y-20 Z-315")


def test_picking_and_placing(robot):
    with connected(robot) as driver:
        delta = DeltaRobot(driver, TABLE, holding=lambda: True)
        assert delta.execute(GRASP).success
        stages = []
        outcome = delta.place(PLACE, on_stage=stages.append)
        assert (outcome.outcome, outcome.message) == (Outcome.SUCCESS, "put down")
        assert stages == [Stage.PLACE]
        assert robot.firmware.machine.grip == 0
        assert any("X-40 Y30 Z-375" in line for line in moves(robot))
        assert delta.place(PLACE).outcome is Outcome.EMPTY
        assert delta.home()


def test_shaking(robot):
    with DeltaX(config(robot.path, motion={"shake": True})) as driver:
        stages = []
        assert DeltaRobot(driver, TABLE, holding=lambda: True).execute(GRASP, on_stage=stages.append).success
        assert Stage.SHAKE in stages


@pytest.mark.parametrize("asked", [[False], [True, False]])
def test_touching_is_not_counted_as_grasping(robot, asked):
    """The fingers closed on something; what counts is whether it hangs in them after lifting, and still at the end."""
    answers = iter(asked)
    with connected(robot) as driver:
        outcome = DeltaRobot(driver, TABLE, holding=lambda: next(answers)).execute(GRASP)
    assert not outcome.success
    assert outcome.outcome is (Outcome.SLIPPED if len(asked) == 1 else Outcome.SHAKEN)


def test_without_a_check_nothing_counts_as_grasped_unless_that_is_configured(robot):
    with connected(robot) as driver:
        outcome = DeltaRobot(driver, TABLE).execute(GRASP)
        assert outcome.outcome is Outcome.EMPTY
        assert "nothing tells" in outcome.message
        assert "give a check, or set assume_held" in outcome.message
        told = DeltaRobot(driver, TABLE, remedy="type --holding assumed").execute(GRASP)
        assert "(type --holding assumed)" in told.message
    with connected(robot, assume_held=True) as driver:
        assert DeltaRobot(driver, TABLE).execute(GRASP).success


@pytest.mark.parametrize(
    ("grasp", "needle"),
    [
        (PlanarGrasp(0.3, 0, 0.01, 0, 0.03), "too far"),
        (PlanarGrasp(0, 0, -0.01, 0, 0.03), "below the table"),
        (PlanarGrasp(0, 0, 0.01, 0, 0.09), "opening"),
        (PlanarGrasp(0, 0, 0.15, 0, 0.03), "home"),
        # In a camera's frame a table lies at z = 0.6: executed as if it were the workspace's it must be refused.
        (PlanarGrasp(0.02, 0.01, 0.6, 0, 0.03), "legs"),
    ],
)
def test_what_cannot_be_executed_is_refused_before_anything_moves(robot, grasp, needle):
    with connected(robot) as driver:
        delta = DeltaRobot(driver, TABLE, holding=lambda: True)
        reason = delta.unreachable_reason(grasp)
        assert reason is not None
        assert re.search(needle, reason), reason
        assert delta.execute(grasp).outcome is Outcome.UNREACHABLE
    assert moves(robot) == []


def test_a_turned_and_shifted_table(robot):
    pose = make_pose((0.02, -0.01, -0.44), rotation_z(math.pi / 2))
    with connected(robot) as driver:
        delta = DeltaRobot(driver, Calibration("workspace", pose, np.empty(0)), holding=lambda: True)
        assert delta.execute(PlanarGrasp(0.03, 0.02, 0.005, 0.0, 0.03)).success
    # x of the table is the robot's y: (0.02 - 0.02, -0.01 + 0.03); W = 85 + 90 degrees.
    assert any(line.startswith("G1 X0 Y20 Z-375") for line in moves(robot))
    assert any("W175" in line for line in moves(robot))


def test_where_the_table_is_must_be_known(tmp_path):
    with pytest.raises(InputError, match="keygrasp delta calibrate"):
        DeltaRobot(DeltaX(config("/nowhere")))
    camera = Calibration("camera_optical", make_pose((0, 0, -0.1)), np.empty(0))
    with pytest.raises(InputError, match="table"):
        DeltaRobot(DeltaX(config("/nowhere")), camera)


def test_a_calibration_of_the_wrong_frame_is_refused(tmp_path):
    path = tmp_path / "camera.yaml"
    save_calibration(path, Calibration("camera_optical", make_pose((0, 0, -0.1)), np.empty(0)))
    with pytest.raises(ConfigurationError, match="'camera_optical', but 'workspace'"):
        DeltaRobot(DeltaX(config("/nowhere", calibration=path)))
    path.write_text(path.read_text().replace("delta_base", "world").replace("camera_optical", "workspace"))
    with pytest.raises(ConfigurationError, match="delta_base"):
        DeltaRobot(DeltaX(config("/nowhere", calibration=path)))


@pytest.mark.parametrize("stage", [Stage.APPROACH, Stage.DESCEND, Stage.LIFT])
def test_cancelling_stops_in_each_stage(robot, stage):
    seen = []
    with connected(robot) as driver:
        outcome = DeltaRobot(driver, TABLE, holding=lambda: True).execute(
            GRASP, on_stage=seen.append, cancelled=lambda: bool(seen) and seen[-1] is stage
        )
        assert outcome.outcome is Outcome.CANCELLED
        assert f"'{stage}'" in outcome.message
        assert ("closed" if stage is Stage.LIFT else "open") in outcome.message
        assert robot.firmware.idle
        assert driver.state is State.READY
    assert seen[-1] is stage


def test_a_robot_that_was_lost_is_connected_again_by_the_next_execution(tmp_path):
    with emulator("unplug@9", link=tmp_path / "port", unplug_seconds=0.3) as robot:
        driver = connected(robot)
        driver.connect()
        delta = DeltaRobot(driver, TABLE, holding=lambda: True)
        first = delta.execute(GRASP)
        assert first.outcome is Outcome.ROBOT_FAULT
        assert delta.execute(GRASP).success
        driver.close()


def test_an_emergency_stop_ends_an_execution_as_a_fault(robot):
    with connected(robot) as driver:
        delta = DeltaRobot(driver, TABLE, holding=lambda: True)
        outcome = delta.execute(GRASP, on_stage=lambda stage: stage is Stage.LIFT and driver.emergency_stop())
        assert outcome.outcome is Outcome.ROBOT_FAULT
        assert delta.execute(GRASP).outcome is Outcome.ROBOT_FAULT, "it stays stopped until it is reset"
        driver.reset()
        assert delta.execute(GRASP).success


@pytest.mark.slow
def test_picks_in_a_row_lose_no_acknowledgement_and_do_not_drift(robot, caplog):
    """The short form of benchmarks/delta.py."""
    rng = np.random.default_rng(0)
    with connected(robot) as driver:
        delta = DeltaRobot(driver, TABLE, holding=lambda: True)
        for _ in range(15):
            x, y, yaw = rng.uniform(-0.05, 0.05, 3) * [1, 1, 20]
            assert delta.execute(PlanarGrasp(x, y, 0.01, yaw, 0.03)).success
            assert delta.place(PlanarGrasp(y, x, 0.01, -yaw, 0.03)).success
            off = driver.position - robot.firmware.machine.target * 1e-3
            assert np.abs(off).max() < 1.1e-5
    assert not [record for record in caplog.records if "acknowledgement" in record.message]


def test_the_example_of_the_documentation_runs(robot, capsys):
    page = (Path(__file__).parents[2] / "docs" / "real-robot.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    code, count = re.subn(r'port="[^"]*"', f'port="{robot.path}", boot_seconds=0.1', code)
    assert count == 1
    exec(code, {})  # noqa: S102 - the project's own page
    assert "Outcome.SUCCESS" in capsys.readouterr().out


def test_the_models_of_the_documentation_are_read(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "real-robot.md").read_text(encoding="utf-8")
    set_up, model, points = (block.split("```")[0] for block in page.split("```yaml\n")[1:4])
    (tmp_path / "model.yaml").write_text(model)
    assert load_model(str(tmp_path / "model.yaml")).geometry == load_model("X1").geometry
    (tmp_path / "delta.yaml").write_text(set_up)
    assert load_delta_config(tmp_path / "delta.yaml").tool.turn_zero == 85
    assert len(yaml.safe_load(points)["points"]) == 5
