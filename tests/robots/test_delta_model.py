"""Models and set-ups from YAML: units and conventions are stated and checked, nothing is changed silently."""

import numpy as np
import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.robots.delta_x import MODELS, DeltaConfig, ToolConfig, load_delta_config, load_model

X1_FILE = {
    "name": "mine", "units": "mm", "convention": "side", "base": 259.04, "effector": 120.0, "upper_arm": 130.0,
    "forearm": 315.0, "home_angle": -38.5, "home_z": -200.31, "floor": -402.0, "radius": 170.0, "max_speed": 850.0,
    "max_acceleration": 30000.0,
}  # fmt: skip
LENGTHS = ("base", "effector", "upper_arm", "forearm", "home_z", "floor", "radius", "max_speed", "max_acceleration")


def model_file(tmp_path, **changes):
    values = {**X1_FILE, **changes}
    path = tmp_path / "model.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in values.items() if value is not None))
    return str(path)


def test_a_file_in_millimetres_is_the_built_in_model(tmp_path):
    assert load_model(model_file(tmp_path)).geometry == MODELS["X1"].geometry


def test_a_file_in_metres_is_the_same(tmp_path):
    metres = {key: X1_FILE[key] / 1e3 for key in LENGTHS}
    model = load_model(model_file(tmp_path, units="m", **metres))
    assert model.home_z == pytest.approx(MODELS["X1"].home_z)
    assert model.max_speed == pytest.approx(0.85)


@pytest.mark.parametrize(("convention", "factor"), [("vertex", 0.5), ("radius", 0.5 / 3**0.5)])
def test_other_conventions_describe_the_same_robot(tmp_path, convention, factor):
    changes = {"convention": convention, "base": 259.04 * factor, "effector": 120 * factor}
    assert load_model(model_file(tmp_path, **changes)).home_z == pytest.approx(MODELS["X1"].home_z)


def test_the_wrong_convention_is_refused_with_the_one_that_fits(tmp_path):
    with pytest.raises(ConfigurationError, match="convention 'side' it fits"):
        load_model(model_file(tmp_path, convention="vertex"))


def test_a_wrong_length_is_refused_with_both_heights(tmp_path):
    with pytest.raises(ConfigurationError, match=r"-200\.31 mm.*four lengths"):
        load_model(model_file(tmp_path, forearm=300.0))


@pytest.mark.parametrize(
    ("changes", "needle"),
    [
        ({"units": "m"}, "Check 'units'"),
        ({"units": None}, "units"),
        ({"convention": None}, "convention"),
        ({"convention": "sides"}, "side"),
        ({"forearm": 50.0}, "no assembled robot"),
        ({"floor": 402.0}, "z points up"),
        ({"max_angle": -50.0}, "home_angle"),
        ({"home_angle": 95.0}, "four lengths"),
        ({"radius": -170.0}, "radius"),
        ({"upper_arm": ".nan"}, "upper arm"),
        ({"dialect": "x9"}, "x9"),
        ({"rf": 130.0}, "unknown key 'rf'.*Known: .*forearm"),
    ],
)
def test_contradictions_are_refused(tmp_path, changes, needle):
    with pytest.raises(ConfigurationError, match=needle):
        load_model(model_file(tmp_path, **changes))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigurationError, match="X1, V2"):
        load_model("X7")


@pytest.mark.parametrize("text", ["12345", "1.23E+5", "0123", "0x1F"])
def test_a_serial_number_that_yaml_takes_for_a_number_is_refused_not_changed(tmp_path, text):
    path = tmp_path / "delta.yaml"
    path.write_text(f"serial_number: {text}\n")
    with pytest.raises(ConfigurationError, match="quotes"):
        load_delta_config(path)


@pytest.mark.parametrize("text", ["'123E5'", "123E5", "1e3", '"00123"', "A50285BI"])
def test_a_serial_number_reaches_the_port_search_as_it_was_written(tmp_path, text):
    path = tmp_path / "delta.yaml"
    path.write_text(f"serial_number: {text}\n")
    assert load_delta_config(path).serial_number == text.strip("'\"")


def test_a_whole_set_up_is_read(tmp_path):
    path = tmp_path / "delta.yaml"
    path.write_text(
        "port: /dev/ttyACM0\nmodel: V2\ntool:\n  kind: vacuum\n  length: 0.05\n"
        "motion:\n  speed: 0.1\ncalibration: table.yaml\n"
    )
    config = load_delta_config(path)
    assert (config.port, config.model, config.tool.kind, config.motion.speed) == ("/dev/ttyACM0", "V2", "vacuum", 0.1)


@pytest.mark.parametrize(
    "text", ["prot: a", "tool: {table: [[0.04, 0], [0.0, 100]]}", "tool: {table: []}", "motion: {speed: -1.0}",
             "tool: {turn_limits: [90, 0]}", "margin_factor: 0.5", "tool: {length: .inf}", "motion: {speed: fast}"],
)  # fmt: skip
def test_a_wrong_set_up_is_refused(tmp_path, text):
    path = tmp_path / "delta.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError):
        load_delta_config(path)


@pytest.mark.parametrize(
    ("text", "needle"),
    [("{length: 60.0}", "length of 60 .*Give metres"), ("{pad_width: 12.0}", "pad_width of 12 .*Give metres"),
     ("{table: [[2.0, 100.0], [40.0, 0.0]]}", "table of 40 .*Give metres"),
     ("{turn_zero: 1.0e+300}", "turn_zero of 1e"), ("{turn_limits: [0.0, .inf]}", "turn_limits of inf")],
)  # fmt: skip
def test_millimetres_for_metres_and_turns_that_are_none_are_refused(tmp_path, text, needle):
    path = tmp_path / "delta.yaml"
    path.write_text(f"tool: {text}")
    with pytest.raises(ConfigurationError, match=needle):
        load_delta_config(path)


def test_the_gripper_table_is_interpolated_and_is_the_range():
    tool = ToolConfig(table=((0.0, 100.0), (0.01, 80.0), (0.05, 0.0)))
    assert tool.share(0.03) == pytest.approx(0.4)
    assert tool.share(0.005) == pytest.approx(0.9)
    assert tool.gripper.max_opening == pytest.approx(0.05)
    with pytest.raises(ConfigurationError, match="51"):
        tool.share(0.051)


def test_turns_are_taken_half_a_turn_over_where_that_is_in_range():
    tool = ToolConfig(turn_zero=85.0, turn_limits=(0.0, 180.0))
    for yaw in np.radians(np.arange(-90.0, 90.0)):
        turn = tool.turn(yaw)
        assert turn is not None
        assert 0 <= turn <= np.pi
        off = (turn - np.radians(85) - yaw + np.pi / 2) % np.pi - np.pi / 2
        assert abs(off) < 1e-9
    narrow = ToolConfig(turn_zero=85.0, turn_limits=(40.0, 130.0))
    assert narrow.turn(np.radians(60)) is None
    fixed = ToolConfig(turn_limits=(85.0, 85.0))
    assert fixed.turn(0.0) == pytest.approx(np.radians(85))
    assert fixed.turn(0.3) is None
    for tool in (ToolConfig(), ToolConfig(turn_sign=-1, turn_zero=20.0)):
        assert abs(np.sin(tool.yaw(tool.turn(0.4)) - 0.4)) < 1e-9


def test_properties_work_while_disconnected():
    from keygrasp.robots.delta_x import DeltaX, State

    driver = DeltaX(DeltaConfig(port="/nowhere"))
    assert driver.state is State.DISCONNECTED
    np.testing.assert_allclose(driver.position, driver.model.home)
    assert driver.whereabouts.age == np.inf
    assert driver.close() == ()
