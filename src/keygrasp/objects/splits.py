"""Which embedded objects train, validate and test: by object, drawn once with a seed and written down.

The manifests are JSON files in ``dexnet_data/`` of the repository; the package sees them as
``keygrasp/objects/manifests``, so an installed wheel has them too. ``python -m
keygrasp.objects.write_manifests`` writes them anew.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from keygrasp.errors import InputError
from keygrasp.files import read_json

Split = Literal["train", "validation", "test"]

SPLIT_SEED = 20260
TEST_OBJECTS = 300
VALIDATION_OBJECTS = 100
RULE = (
    "usable embedded objects, sorted by name, permuted by numpy.random.default_rng(seed); "
    f"the first {TEST_OBJECTS} test, the next {VALIDATION_OBJECTS} validate, the others train; each list is sorted"
)


def draw(names: tuple[str, ...], seed: int = SPLIT_SEED) -> dict[Split, tuple[str, ...]]:
    """Divide object names into the three splits; the same names and seed always give the same ones.

    Raises:
        InputError: If there are too few names for a test, a validation and a training split.
    """
    if len(names) <= TEST_OBJECTS + VALIDATION_OBJECTS:
        raise InputError(f"{len(names)} objects are too few to be split", "Is pybullet_data complete?")
    order = np.random.default_rng(seed).permutation(sorted(names)).tolist()
    middle = TEST_OBJECTS + VALIDATION_OBJECTS
    return {
        "train": tuple(sorted(order[middle:])),
        "validation": tuple(sorted(order[TEST_OBJECTS:middle])),
        "test": tuple(sorted(order[:TEST_OBJECTS])),
    }


def manifest(split: Split, objects: tuple[str, ...], seed: int = SPLIT_SEED) -> dict[str, Any]:
    """What a manifest file holds."""
    return {"source": "embedded", "split": split, "seed": seed, "rule": RULE, "objects": list(objects)}


@functools.lru_cache(maxsize=len(get_args(Split)))
def split(name: Split) -> tuple[str, ...]:
    """Object names of the split ``"train"``, ``"validation"`` or ``"test"``, sorted.

    Raises:
        InputError: If there is no such split or its manifest is damaged.
    """
    if name not in get_args(Split):
        raise InputError(f"unknown split {name!r}", f"Choose one of {', '.join(get_args(Split))}")
    path = manifest_directory() / f"{name}.json"
    data = read_json(path)
    objects = data.get("objects") if isinstance(data, dict) else None
    if not isinstance(objects, list) or not all(isinstance(item, str) for item in objects):
        raise InputError(f"{path} is not a split manifest", "Write it anew: python -m keygrasp.objects.write_manifests")
    return tuple(objects)


def manifest_directory() -> Path:
    """Folder with ``train.json``, ``validation.json`` and ``test.json``."""
    return Path(str(files("keygrasp.objects"))) / "manifests"
