"""Tasks whose reward is code over symbols: from YAML files of named terms, or from Python functions.

A file names terms of :mod:`keygrasp.worldmodel.terms` with their scales and arguments; nothing in it is executed::

    name: lift_blue
    text: Lift the blue block and hold it.
    steps: 40
    reward:
      - {term: closeness, object: blue, scale: 0.5}
      - {term: raised, object: blue, scale: 1.0, top: 0.08}
    ends:
      - {when: stable, object: blue, bonus: 10.0}

The reward of a step is the sum of ``scale`` times term, plus the ``bonus`` of a condition that ends the episode there.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import yaml
from torch import Tensor

from keygrasp.configuration import config_from, load_config, parse_yaml
from keygrasp.errors import ConfigurationError, suggestion
from keygrasp.worldmodel.layout import Layout
from keygrasp.worldmodel.terms import CONDITIONS, TERMS, Step

#: Most terms or ends of a task, steps of an episode, and size of a scale or bonus.
_MAX_ENTRIES = 64
_MAX_STEPS = 1000
_MAX_SCALE = 1e6
#: Most characters of a task file's text.
MAX_TEXT = 65536
_SHIPPED = Path(__file__).parents[1] / "tasks"


class RewardTask(Protocol):
    """What planners and learners need of a task; whatever has these can be planned for."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def steps(self) -> int:
        """Decisions after which an episode is cut off."""
        ...

    @property
    def layout(self) -> Layout:
        """Which symbols its rows have."""
        ...

    def reward(self, before: Tensor, actions: Tensor, after: Tensor) -> Tensor:
        """Rewards (B,) of steps from rows (B, D) by actions (B, 5) to rows (B, D)."""
        ...

    def terminated(self, after: Tensor) -> Tensor:
        """Whether rows (B, D) end the episode, booleans (B,)."""
        ...


@dataclass(frozen=True)
class TermUse:
    """A term of a task: its name, what it is multiplied by, and its arguments."""

    term: str
    scale: float
    arguments: tuple[tuple[str, str | float], ...]


@dataclass(frozen=True)
class End:
    """A condition on one object that ends an episode, and the reward for that."""

    when: str
    object: str
    bonus: float = 0.0


@dataclass(frozen=True)
class FileTask:
    """A task of named terms; implements :class:`RewardTask`.

    Attributes:
        name: What it is called.
        text: The task in words.
        steps: Decisions after which an episode is cut off.
        terms: Terms of the reward.
        ends: Conditions that end an episode.
        layout: Which symbols its rows have.
    """

    name: str
    text: str
    steps: int
    terms: tuple[TermUse, ...]
    ends: tuple[End, ...]
    layout: Layout

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects that the task is about, in the layout's order."""
        named = {dict(use.arguments).get("object") for use in self.terms} | {end.object for end in self.ends}
        return tuple(name for name in self.layout.objects if name in named)

    def reward(self, before: Tensor, actions: Tensor, after: Tensor) -> Tensor:
        """Rewards (B,): of the row *after* the action, and of the action."""
        step = Step(self.layout, before, actions, after)
        total = after.new_zeros(after.shape[:-1])
        for use in self.terms:
            total = total + use.scale * TERMS[use.term](step, **dict(use.arguments))
        for end in self.ends:
            if end.bonus:
                total = total + end.bonus * CONDITIONS[end.when](step.scene(end.object)).to(after.dtype)
        return total

    def breakdown(self, before: Tensor, actions: Tensor, after: Tensor) -> dict[str, Tensor]:
        """Each term's share (B,) of the reward, scaled, by ``term`` or ``term(object)``; bonuses are left out."""
        step = Step(self.layout, before, actions, after)
        shares: dict[str, Tensor] = {}
        for use in self.terms:
            arguments = dict(use.arguments)
            name = f"{use.term}({arguments['object']})" if "object" in arguments else use.term
            shares[name] = shares.get(name, 0) + use.scale * TERMS[use.term](step, **arguments)
        return shares

    def terminated(self, after: Tensor) -> Tensor:
        """Whether rows (B, D) satisfy one of the ends, booleans (B,)."""
        ended = torch.zeros(after.shape[:-1], dtype=torch.bool, device=after.device)
        for end in self.ends:
            ended = ended | CONDITIONS[end.when](self.layout.scene_rows(after, end.object))
        return ended


@dataclass(frozen=True)
class CodeTask:
    """A task of two Python functions, for those who script it; implements :class:`RewardTask`.

    Attributes:
        name: What it is called.
        of_step: Gives rewards (B,) of a :class:`keygrasp.worldmodel.terms.Step`.
        layout: Which symbols its rows have.
        steps: Decisions after which an episode is cut off.
        of_end: Gives whether the rows after the step end the episode, booleans (B,); ``None`` for never.
    """

    name: str
    of_step: Callable[[Step], Tensor]
    layout: Layout
    steps: int = 40
    of_end: Callable[[Step], Tensor] | None = None

    def reward(self, before: Tensor, actions: Tensor, after: Tensor) -> Tensor:
        """Rewards (B,)."""
        return self.of_step(Step(self.layout, before, actions, after))

    def terminated(self, after: Tensor) -> Tensor:
        """Whether rows (B, D) end the episode, booleans (B,)."""
        if self.of_end is None:
            return torch.zeros(after.shape[:-1], dtype=torch.bool, device=after.device)
        return self.of_end(Step(self.layout, after, after.new_zeros((*after.shape[:-1], 5)), after))


@dataclass(frozen=True)
class TaskSpec:
    """A task file as it stands there.

    Attributes:
        name: What it is called.
        reward: Terms: ``term``, ``scale`` (1 where none is given) and the term's arguments.
        text: The task in words.
        steps: Decisions after which an episode is cut off.
        ends: Conditions: ``when``, ``object`` and ``bonus``.
    """

    name: str
    reward: tuple[dict[str, Any], ...]
    text: str = ""
    steps: int = 40
    ends: tuple[dict[str, Any], ...] = ()


def load_task(path: Path, layout: Layout | None = None) -> FileTask:
    """Read a task file.

    Raises:
        ConfigurationError: If it can't be read, or names a term, argument, object or condition that doesn't exist;
            the nearest known name is given.
    """
    return task_from(load_config(path, TaskSpec), layout or Layout(), where=str(path))


def task_of_text(text: str, layout: Layout | None = None, *, where: str = "task") -> FileTask:
    """The task that the text of a task file describes; see :func:`load_task`."""
    if len(text) > MAX_TEXT:
        raise ConfigurationError(f"{where} has {len(text)} characters", f"Give at most {MAX_TEXT}")
    try:
        data = parse_yaml(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"{where} is not valid YAML: {error}", "Mend that line") from error
    return task_from(config_from(data, TaskSpec, where=where), layout or Layout(), where=where)


def shipped_tasks() -> tuple[str, ...]:
    """Names of the tasks that come with the library."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.yaml")))


def shipped_task(name: str, layout: Layout | None = None) -> FileTask:
    """A task that comes with the library.

    Raises:
        ConfigurationError: If there is none of that name; the nearest is given.
    """
    return load_task(_SHIPPED / f"{_known(name, shipped_tasks(), 'task')}.yaml", layout)


def task_from(spec: TaskSpec, layout: Layout, *, where: str = "task") -> FileTask:
    """Check what a task file says; see :func:`load_task`."""
    if not spec.name or len(spec.name) > 100:
        raise ConfigurationError(f"{where}: name must have 1 to 100 characters")
    if not 1 <= spec.steps <= _MAX_STEPS:
        raise ConfigurationError(f"{where}: steps is {spec.steps}", f"Give 1 to {_MAX_STEPS}")
    if not 1 <= len(spec.reward) <= _MAX_ENTRIES or len(spec.ends) > _MAX_ENTRIES:
        raise ConfigurationError(f"{where}: reward needs 1 to {_MAX_ENTRIES} terms, ends at most as many")
    return FileTask(
        spec.name,
        spec.text,
        spec.steps,
        tuple(_term(entry, layout, f"{where}: reward[{i}]") for i, entry in enumerate(spec.reward)),
        tuple(_end(entry, layout, f"{where}: ends[{i}]") for i, entry in enumerate(spec.ends)),
        layout,
    )


def _term(entry: Any, layout: Layout, where: str) -> TermUse:
    given = _mapping(entry, "term", where)
    name = _known(given.pop("term"), TERMS, f"{where}: term")
    scale = _number(given.pop("scale", 1.0), f"{where}: scale")
    wanted = {key: p for key, p in inspect.signature(TERMS[name]).parameters.items() if key != "step"}
    arguments: list[tuple[str, str | float]] = []
    for key, value in given.items():
        _known(key, wanted, f"{where}: argument of {name}")
        if key == "object":
            arguments.append((key, _known(value, layout.objects, f"{where}: object")))
        else:
            arguments.append((key, _argument(key, value, f"{where}: {key}")))
    missing = [key for key, p in wanted.items() if p.default is inspect.Parameter.empty and key not in given]
    if missing:
        raise ConfigurationError(f"{where}: {name} needs '{missing[0]}'", f"It takes {', '.join(wanted)}")
    return TermUse(name, scale, tuple(arguments))


def _end(entry: Any, layout: Layout, where: str) -> End:
    given = _mapping(entry, "when", where)
    for key in given:
        _known(key, ("when", "object", "bonus"), f"{where}: key")
    if "object" not in given:
        raise ConfigurationError(f"{where} needs 'object'", f"Name one of {', '.join(layout.objects)}")
    return End(
        _known(given["when"], CONDITIONS, f"{where}: when"),
        _known(given["object"], layout.objects, f"{where}: object"),
        _number(given.get("bonus", 0.0), f"{where}: bonus"),
    )


def _mapping(entry: Any, key: str, where: str) -> dict[str, Any]:
    if not isinstance(entry, dict) or key not in entry:
        raise ConfigurationError(f"{where} must be a mapping with '{key}', not {entry!r}")
    return dict(entry)


def _known(name: Any, names: Iterable[str], where: str) -> str:
    known = list(names)
    if name in known:
        return str(name)
    raise ConfigurationError(f"{where} '{name}' is unknown", suggestion(name, known))


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f"{where} must be a finite number, not {value!r}")
    if abs(value) > _MAX_SCALE:
        raise ConfigurationError(f"{where} is {value}", f"Stay within ±{_MAX_SCALE:g}")
    return float(value)


#: Arguments that may be zero or negative: coordinates and heights.
_SIGNED = ("x", "y", "above")


def _argument(key: str, value: Any, where: str) -> float:
    number = _number(value, where)
    if key not in _SIGNED and number <= 0:
        raise ConfigurationError(f"{where} must be above 0, not {number:g}")
    return number
