"""YAML files that fill the same frozen dataclasses as the command line does."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from keygrasp.errors import ConfigurationError, suggestion

T = TypeVar("T")
_MAX_BYTES = 1 << 20
_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d{1,3}", re.ASCII)
#: Beyond it a float doesn't tell whole numbers apart.
_LARGEST_WHOLE = 2**53
#: Largest seed: what all generators of random numbers take, with room for a step's own seed.
MOST_SEED = 2**32 - 1


def load_config(path: Path, kind: type[T]) -> T:
    """Read a YAML file into the dataclass ``kind``.

    Raises:
        ConfigurationError: If the file can't be read, is not a mapping, or has a key or value that
            ``kind`` doesn't take; an unknown key is answered with the nearest known one.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigurationError(f"{path} is larger than {_MAX_BYTES} bytes", "Is it a configuration file?")
        data = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror or error}", "Check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}", "Mend that line") from error
    return config_from(data if data is not None else {}, kind, where=str(path))


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, but a key that is given twice is an error, as YAML has it: the last one doesn't win."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        """See ``yaml.composer.Composer``."""
        node: Any = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                raise yaml.MarkedYAMLError(problem=f"'{key.value}' is given twice", problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return node


def parse_yaml(text: str) -> Any:
    """Plain data of a YAML text.

    Raises:
        yaml.YAMLError: If it is not valid, a key that is given twice included.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader


def config_from(data: Any, kind: type[T], *, where: str) -> T:
    """Fill the dataclass ``kind`` from a mapping; see :func:`load_config`."""
    if not isinstance(data, dict):
        raise ConfigurationError(f"{where} must be a mapping of names to values, not {type(data).__name__}")
    hints = typing.get_type_hints(kind)
    known = {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    values = {}
    for key, value in data.items():
        if key not in known:
            raise ConfigurationError(f"{where}: unknown key '{key}'", suggestion(key, known))
        values[key] = _convert(value, known[key], f"{where}: {key}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ConfigurationError(f"{where}: {error}", "Give every value that has no default") from error


def check_ranges(config: object, where: str, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Check that numbers of a dataclass lie in closed ranges: those of tuples one by one; NaN lies in none.

    Args:
        config: The dataclass.
        where: What it configures; the message begins with it.
        ranges: Least and most of each field.

    Raises:
        ConfigurationError: If one doesn't; names the field and its range.
    """
    for name, (least, most) in ranges.items():
        value = getattr(config, name)
        for number in value if isinstance(value, tuple) else (value,):
            if not least <= number <= most:
                raise ConfigurationError(f"{where}: {name} is {value}", f"Give {least:,} to {most:,}")


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Check ``value`` against a type hint; integers pass for floats, lists for tuples, ``1e-3`` for a number."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return config_from(value, hint, where=where)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(value, arguments, where)
    if origin is typing.Literal:
        if value not in arguments:
            raise ConfigurationError(f"{where} is {value!r}", suggestion(value, arguments))
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigurationError(f"{where} must be a list, not {value!r}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_convert(v, arguments[0], where) for v in value)
        if len(value) != len(arguments):
            raise ConfigurationError(f"{where} must have {len(arguments)} entries, not {len(value)}")
        return tuple(_convert(v, a, where) for v, a in zip(value, arguments, strict=True))
    if hint in (int, float) and isinstance(value, str):
        value = _number(value, hint)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if isinstance(hint, type) and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise ConfigurationError(f"{where} must be of type {hint.__name__}, not {value!r}", _type_remedy(value, hint))
    return value


def _type_remedy(value: Any, hint: type) -> str:
    """How a value of the wrong type would be written."""
    if hint is int and isinstance(value, float) and value.is_integer():
        return f"Write {int(value)}"
    return "Put it in quotes" if hint is str else ""


def _number(text: str, kind: type[int] | type[float]) -> int | float | str:
    """A number that PyYAML takes for text, as YAML 1.1 wants a dot and a sign in ``1e-3``; other text as it is."""
    if not _EXPONENT.fullmatch(text):
        return text
    value = float(text)
    if kind is float:
        return value
    return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE else text


def _convert_union(value: Any, options: tuple[Any, ...], where: str) -> Any:
    if value is None and type(None) in options:
        return None
    errors = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _convert(value, option, where)
        except ConfigurationError as error:
            errors.append(error)
    raise errors[0]
