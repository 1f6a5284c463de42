"""Planners by name: what a worker process needs to build one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from keygrasp.errors import ConfigurationError, suggestion
from keygrasp.protocol import CentroidPlanner, OracleConfig, RandomPlanner, ReferencePlanner, Scene, oracle
from keygrasp.scene import GraspPlan, Planner
from keygrasp.trials.factories import load_factory


@dataclass(frozen=True)
class PlannerSpec:
    """A planner by name.

    Attributes:
        name: Name under which its results are reported.
        factory: ``"module:function"`` under ``keygrasp.``; called with ``name`` and the options, returns the planner.
        options: Keyword arguments of the factory, JSON-ready (numbers, texts, paths as texts).
    """

    name: str
    factory: str
    options: dict[str, Any] = field(default_factory=dict)

    def fingerprint(self) -> dict[str, Any]:
        """JSON-ready identity: an option that names a file stands for the file's content too."""
        contents = {}
        for key, value in self.options.items():
            if isinstance(value, (str, Path)) and value and Path(value).is_file():
                contents[key] = hashlib.sha256(Path(value).read_bytes()).hexdigest()[:16]
        options = {key: str(value) if isinstance(value, Path) else value for key, value in self.options.items()}
        return {"name": self.name, "factory": self.factory, "options": options, "files": contents}


@runtime_checkable
class ScenePlanner(Protocol):
    """A planner that may look behind the image, at the simulated scene itself: an upper bound, not a competitor."""

    @property
    def name(self) -> str:
        """Name under which results are reported."""
        ...

    def plan_in_scene(self, scene: Scene, *, rng: np.random.Generator) -> GraspPlan:
        """Plan with the true scene; leaves it as it was."""
        ...


class OraclePlanner:
    """:func:`keygrasp.protocol.oracle` as a planner."""

    name = "oracle"

    def __init__(self, config: OracleConfig) -> None:
        self._config = config

    def plan_in_scene(self, scene: Scene, *, rng: np.random.Generator) -> GraspPlan:
        """Search with the physics; see :class:`ScenePlanner`."""
        return oracle(scene, self._config, rng)


def build_builtin(name: str, **options: Any) -> Planner | ScenePlanner:
    """Factory of the planners that need no network."""
    if name == "oracle":
        return OraclePlanner(OracleConfig(**options))
    if name == "reference":
        return ReferencePlanner(**options)
    if name == "reference-lenient":
        return ReferencePlanner(lenient=True, **options)
    if name == "geometric":
        from keygrasp.grasps import GeneratorConfig, GeometricPlanner

        return GeometricPlanner(GeneratorConfig(**options))
    controls: dict[str, type[Planner]] = {"centroid": CentroidPlanner, "random": RandomPlanner}
    return controls[name](**options)


_BUILTIN = "keygrasp.trials.planners:build_builtin"
_REFINE = "keygrasp.refine.planners:build"

#: Factory of each planner that comes with the library.
FACTORIES = {
    "reference": _BUILTIN,
    "reference-lenient": _BUILTIN,
    "geometric": _BUILTIN,
    "refined": _REFINE,
    "argmax": _REFINE,
    "cem": _REFINE,
    "climb": _REFINE,
    "centroid": _BUILTIN,
    "random": _BUILTIN,
    "oracle": _BUILTIN,
}


def planner_spec(name: str, **options: Any) -> PlannerSpec:
    """Specification of a planner that comes with the library.

    Raises:
        ConfigurationError: If there is none of that name; the message names a near one, or all.
    """
    if name not in FACTORIES:
        raise ConfigurationError(f"unknown planner '{name}'", suggestion(name, FACTORIES))
    return PlannerSpec(name, FACTORIES[name], options)


def stream_of(planner: Planner | ScenePlanner) -> str:
    """Name of the random numbers that a planner draws in a trial: those of its ``kind``, where it says one."""
    return str(getattr(planner, "kind", planner.name))


def build_planner(spec: PlannerSpec) -> Planner | ScenePlanner:
    """Build the planner that ``spec`` names.

    Raises:
        ConfigurationError: If the factory is unknown or doesn't take the options.
    """
    factory = load_factory(spec.factory)
    try:
        planner: Planner | ScenePlanner = factory(spec.name, **spec.options)
    except TypeError as error:
        raise ConfigurationError(f"planner '{spec.name}' can't be built: {error}", "Check its options") from error
    return planner
