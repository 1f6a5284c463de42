"""constraints.txt pins what the set-up installs, and nothing that torch decides."""

import re
import tomllib
from pathlib import Path

import environment
import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement):
    return normal(re.match(r"[A-Za-z0-9._-]+", requirement).group())


@pytest.fixture(scope="module")
def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert len({normal(name) for name, _ in pairs}) == len(pairs)
    return {normal(name): version for name, version in pairs}


@pytest.mark.parametrize("extra", ["", *PROJECT["optional-dependencies"]])
def test_direct_dependencies_are_pinned(pins, extra):
    requirements = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    assert {name_of(requirement) for requirement in requirements} <= set(pins)


def test_what_torch_decides_is_not_pinned(pins):
    # Builds of one torch version for different CUDA versions ask for different ones of these.
    assert not [name for name in pins if name == "triton" or name.startswith(("nvidia-", "cuda-"))]
    assert pins["torch"] == "2.13.0"


def test_what_is_installed_first_is_pinned(pins):
    assert set(environment.FIRST) <= set(pins)
