"""Parameters, each declared once: name, default, meaning, unit, range.

``rclpy`` refuses ``rate:=5`` for a double with an exception of its own; here whole numbers pass for doubles, and every
other fault is one clear line. The table in the docs is made from the same declarations.
"""

from __future__ import annotations

import array
import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node

from keygrasp.errors import ConfigurationError, InputError, suggestion
from keygrasp.scene import GripperSpec

Value = bool | int | float | str | tuple[float, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a node.

    Attributes:
        name: Name, dots for groups.
        default: Default, whose type is the parameter's.
        description: Meaning with its unit.
        minimum: Least number that is taken.
        maximum: Largest number that is taken.
        choices: Texts that are taken; empty for any.
        read_only: Whether it can be set only at start.
    """

    name: str
    default: Value
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = True

    def checked(self, value: Any) -> Value:
        """``value`` in this parameter's type.

        Raises:
            ConfigurationError: If type or range don't fit.
        """
        kind = type(self.default)
        if kind is float and type(value) is int:
            value = float(value)
        if kind is tuple and isinstance(value, (list, array.array)):
            value = tuple(value)
        if kind is tuple and isinstance(value, tuple):
            return self._checked_numbers(value)
        if type(value) is not kind:
            raise ConfigurationError(f"parameter {self.name} must be of type {kind.__name__}, not {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigurationError(f"parameter {self.name} is {value}", "Give a finite number")
        if isinstance(value, (int, float)) and not self._in_range(value):
            raise ConfigurationError(f"parameter {self.name} is {value}", f"It must lie in {self.range_text}")
        if value == "" != self.default and "" not in self.choices:
            raise ConfigurationError(f"parameter {self.name} is empty", f"The default is '{self.default}'")
        if self.choices and value not in self.choices:
            raise ConfigurationError(f"parameter {self.name} is {value!r}", f"It must be {self.range_text}")
        return value

    def _checked_numbers(self, values: tuple[Any, ...]) -> tuple[float, ...]:
        if len(values) != len(self.default) or not all(
            isinstance(v, (int, float)) and math.isfinite(v) for v in values
        ):
            raise ConfigurationError(f"parameter {self.name} must be {len(self.default)} numbers, not {values}")
        return tuple(float(v) for v in values)

    def _in_range(self, value: float) -> bool:
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)

    @property
    def range_text(self) -> str:
        """Range or choices in words, empty where any value is taken."""
        if self.choices:
            return " or ".join(self.choices)
        if self.minimum is None and self.maximum is None:
            return ""
        low, high = (_bound(value) for value in (self.minimum, self.maximum))
        return f"[{low or '−∞'}, {high or '∞'}]"

    def descriptor(self) -> ParameterDescriptor:
        """The descriptor that ``ros2 param describe`` shows."""
        # Dynamic typing lets whole numbers reach checked(), which gives them their type.
        descriptor = ParameterDescriptor(name=self.name, description=self.description, dynamic_typing=True)
        descriptor.read_only = self.read_only
        descriptor.additional_constraints = self.range_text
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            if isinstance(self.default, float):
                descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
            elif isinstance(self.default, int):
                descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=1)]
        return descriptor


WORKSPACE_FRAME = Parameter("workspace_frame", "workspace", "Frame of all grasps: centre of the table's surface, z up.")
SEED = Parameter("seed", 0, "Seed of all random draws: the same image and seed give the same answer.", 0, 2**31 - 1)

AUTOSTART = Parameter("autostart", True, "Whether the node configures and activates itself.")


def from_dataclass(prefix: str, kind: type) -> tuple[Parameter, ...]:
    """One parameter a plain field of a configuration of the library, described by the class's own docstring.

    Ranges are the class's own: :func:`fill` builds it, which checks them.
    """
    texts = _attribute_texts(kind)
    return tuple(
        Parameter(f"{prefix}.{field.name}", field.default, texts.get(field.name, ""))
        for field in dataclasses.fields(kind)
        if isinstance(field.default, (bool, int, float, str, tuple))
    )


def fill(read: Callable[[str], Any], prefix: str, kind: type[T]) -> T:
    """The configuration that parameters of :func:`from_dataclass` describe.

    Raises:
        ConfigurationError: If a value is out of range or two don't fit each other.
    """
    try:
        return kind(
            **{parameter.name.split(".")[-1]: read(parameter.name) for parameter in from_dataclass(prefix, kind)}
        )
    except ConfigurationError:
        raise
    except InputError as error:
        raise ConfigurationError(error.problem, error.remedy) from error


def _attribute_texts(kind: type) -> dict[str, str]:
    """Descriptions by field name from the ``Attributes`` section of a Google-style docstring."""
    texts: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(kind.__doc__ or "").partition("Attributes:")[2].splitlines():
        match = re.fullmatch(r" {4}(\w+): (.*)", line)
        if match:
            name = match[1]
            texts[name] = match[2]
        elif name and line.startswith(" " * 8):
            texts[name] += " " + line.strip()
    return texts


#: The gripper, one parameter a field of the library's GripperSpec.
GRIPPER = from_dataclass("gripper", GripperSpec)


def declare(node: Node, parameters: Sequence[Parameter]) -> None:
    """Declare all parameters of a node, check what was given for them, and check what is set later.

    Raises:
        ConfigurationError: If a given value has another type or is out of range, or a given name is unknown.
    """
    _refuse_unknown(node, parameters)
    known = {parameter.name: parameter for parameter in parameters}
    for parameter in parameters:
        try:
            node.declare_parameter(parameter.name, _as_ros(parameter.default), parameter.descriptor())
        except Exception as error:  # rclpy has a dozen types of its own here; all mean: this value can't be taken
            given = _given(node).get(parameter.name)
            value = given.value if given is not None else parameter.default
            parameter.checked(value)
            raise ConfigurationError(f"parameter {parameter.name}: {error}") from error
        parameter.checked(node.get_parameter(parameter.name).value)

    def check(changes: list[Any]) -> SetParametersResult:
        for change in changes:
            try:
                if change.name in known:
                    known[change.name].checked(change.value)
            except ConfigurationError as error:
                return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(check)


def reader(node: Node, parameters: Sequence[Parameter]) -> Callable[[str], Any]:
    """Declare the parameters and return a function that reads one by name, in its declared type."""
    declare(node, parameters)
    known = {parameter.name: parameter for parameter in parameters}
    return lambda name: known[name].checked(node.get_parameter(name).value)


def _bound(value: float | None) -> str:
    """A bound as text, whole numbers in full; empty where there is none."""
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


def _as_ros(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _given(node: Node) -> dict[str, Any]:
    # There is no public way to see overrides that nobody declared; without it a misspelt name would be ignored.
    return getattr(node, "_parameter_overrides", {})


def _refuse_unknown(node: Node, parameters: Sequence[Parameter]) -> None:
    known = [parameter.name for parameter in parameters]
    for name in _given(node):
        if name not in known and name != "use_sim_time" and not name.startswith("qos_overrides."):
            raise ConfigurationError(f"{node.get_name()}: unknown parameter '{name}'", suggestion(name, known))
