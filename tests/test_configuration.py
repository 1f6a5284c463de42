"""YAML files that fill dataclasses: numbers as people write them, keys once, ranges by name."""

import math
from dataclasses import dataclass

import pytest

from keygrasp.configuration import check_ranges, load_config, parse_yaml
from keygrasp.errors import ConfigurationError


@dataclass(frozen=True)
class Settings:
    rate: float = 0.1
    scenes: int = 1
    most: int | None = None
    spread: tuple[float, float] = (0.0, 0.0)
    name: str = ""

    def __post_init__(self):
        check_ranges(self, "try", {"rate": (0, 1), "scenes": (1, 2000), "spread": (0, 1)})


def read(tmp_path, text):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return load_config(path, Settings)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("rate: 1e-3", Settings(rate=0.001)),
        ("rate: 2.5e-1", Settings(rate=0.25)),
        ("rate: .5E0", Settings(rate=0.5)),
        ("scenes: 1e3", Settings(scenes=1000)),
        ("most: 2e3", Settings(most=2000)),
        ("spread: [1e-2, 1]", Settings(spread=(0.01, 1.0))),
        ("name: 1e3", Settings(name="1e3")),
        ("", Settings()),
    ],
)
def test_numbers_are_read_as_people_write_them(text, settings, tmp_path):
    assert read(tmp_path, text) == settings


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("scenes: 1.5e0", "must be of type int"),
        ("scenes: 1e300", "must be of type int"),
        ("scenes: 1.0e+3", "Write 1000"),
        ("scenes: '12'", "must be of type int"),
        ("rate: fast", "must be of type float"),
        ("rate: 1e999", "rate is inf"),
        ("rate: .nan", "rate is nan. Give 0 to 1"),
        ("scenes: 3000", "Give 1 to 2,000"),
        ("spread: [0.5, .inf]", "spread is (0.5, inf)"),
        ("rate: 0.1\nscenes: 3\nrate: 0.2", "'rate' is given twice"),
        ("[" * 5000, "not valid YAML"),
    ],
)
def test_what_can_not_be_meant_is_refused(text, needle, tmp_path):
    with pytest.raises(ConfigurationError) as raised:
        read(tmp_path, text)
    assert needle in str(raised.value)


def test_keys_of_different_mappings_and_merged_ones_may_be_alike(tmp_path):
    data = parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: {x: 4}")
    assert data == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 4}}


def test_nan_lies_in_no_range():
    with pytest.raises(ConfigurationError, match="rate is nan"):
        Settings(rate=math.nan)
