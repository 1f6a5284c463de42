"""Parameters: whole numbers for doubles, ranges, unknown names, and descriptions for each."""

import contextlib

import pytest
import rclpy
from keygrasp_ros.parameters import GRIPPER, Parameter, fill, from_dataclass, reader
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

from keygrasp.errors import ConfigurationError
from keygrasp.scene import GripperSpec

pytestmark = pytest.mark.ros
PARAMETERS = (
    Parameter("rate", 10.0, "Hertz.", 0.1, 60.0, read_only=False),
    Parameter("count", 3, "How many.", 1, 9),
    Parameter("rule", "E", "Which.", choices=("E", "A")),
    Parameter("range", (0.0, 1.0), "Two numbers."),
)


@contextlib.contextmanager
def node_with(*given):
    context = Context()
    overrides = [item for value in given for item in ("-p", value)]
    rclpy.init(args=["--ros-args", *overrides] if overrides else [], context=context)
    node = Node("some_node", context=context)
    try:
        yield node
    finally:
        node.destroy_node()
        context.try_shutdown()


def test_defaults_and_given_values():
    with node_with("count:=5", "rule:=A", "range:=[0.5, 2.0]") as node:
        read = reader(node, PARAMETERS)
        assert [read(p.name) for p in PARAMETERS] == [10.0, 5, "A", (0.5, 2.0)]


def test_an_int_passes_for_a_double():
    with node_with("rate:=5") as node:
        value = reader(node, PARAMETERS)("rate")
        assert value == 5.0
        assert isinstance(value, float)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("rate:=1000.0", "rate"),
        ("rate:=.nan", "rate"),
        ("rate:=fast", "must be of type float"),
        ("count:=2.5", "must be of type int"),
        ("count:=0", "count"),
        ("rule:=B", "It must be E or A"),
        ("range:=[1.0]", "2 numbers"),
        ("rat:=5.0", "Did you mean 'rate'"),
        ("zoom:=5.0", "Known: rate, count"),
    ],
)
def test_bad_values_are_one_clear_error(given, match):
    with node_with(given) as node, pytest.raises(ConfigurationError, match=match):
        reader(node, PARAMETERS)


def test_setting_later_is_checked_too():
    with node_with() as node:
        read = reader(node, PARAMETERS)
        assert not node.set_parameters([RosParameter("rate", value=100.0)])[0].successful
        assert not node.set_parameters([RosParameter("rate", value="fast")])[0].successful
        assert not node.set_parameters([RosParameter("count", value=5)])[0].successful, "read-only"
        assert node.set_parameters([RosParameter("rate", value=20)])[0].successful
        assert read("rate") == 20.0


def test_a_configuration_becomes_parameters_and_comes_back():
    with node_with("gripper.max_opening:=0.06") as node:
        read = reader(node, GRIPPER)
        assert fill(read, "gripper", GripperSpec) == GripperSpec(max_opening=0.06)
    with node_with("gripper.max_opening:=0.001") as node:
        read = reader(node, GRIPPER)
        with pytest.raises(ConfigurationError, match="min_opening"):
            fill(read, "gripper", GripperSpec)


def test_every_parameter_of_every_node_is_described():
    from keygrasp_ros.reference import parameters_of_nodes

    for node, parameters in parameters_of_nodes().items():
        for parameter in parameters:
            assert parameter.description.endswith("."), f"{node}: {parameter.name}"
    assert [p.name for p in from_dataclass("gripper", GripperSpec)] == [p.name for p in GRIPPER]
