"""What a run of trials is asked to do, and the scenes that follow from it."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import keygrasp
from keygrasp.configuration import check_ranges
from keygrasp.curriculum import SCHEDULERS
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.objects import Catalog, Rule, Source, split
from keygrasp.protocol import PROTOCOL, RobotName, SceneSpec
from keygrasp.trials.planners import PlannerSpec, planner_spec

#: Most scenes of a run, which takes a second or more for each: they are all listed before it begins.
_MOST_SCENES = 1_000_000
SplitName = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class TrialsConfig:
    """One run: every planner acts on the same images of the same scenes.

    Attributes:
        planners: Who is tried; ``reference`` is added where it is missing, since it defines ``tail`` and ``kept``.
        objects: How many objects; a part of a split is drawn evenly and is the same for every seed.
        rule: Scaling rule of KG-1.
        split: Which objects, where the source is ``embedded``.
        source: Where objects come from; other sources than ``embedded`` have no splits.
        names: Objects by name instead of by split.
        robot: Which robot executes.
        seed: Evaluation seed: poses, noise and the planners' randomness follow from it.
        poses: Scenes with each object; where a scheduler decides, at most.
        scheduler: Who decides which objects are tried how often: ``all`` tries every scene; else a name of
            ``keygrasp.curriculum.make_scheduler``, which spends ``budget`` scenes where they tell most.
        budget: Scenes in all where a scheduler decides.
        tail: Scenes of the tail to collect; 0 tries all planners on every scene. Else they all act on the first pose of
            each object, and on further poses only where the reference fails, until so many of its failures are there.
        ceiling: Whether the oracle searches where every planner failed in all its attempts.
        up_to: Most attempts in the up-to trials; 1 leaves them out.
        robust: Whether each grasp is also executed ten times with perturbations.
        workers: Worker processes; 0 means one a core.
        timeout_s: A scene that takes longer in seconds counts as hung.
    """

    planners: tuple[PlannerSpec, ...] = (planner_spec("reference"),)
    objects: int = 300
    rule: Rule = "E"
    split: SplitName = "test"
    source: Source = "embedded"
    names: tuple[str, ...] = ()
    robot: RobotName = "gripper"
    seed: int = 0
    poses: int = 1
    scheduler: str = "all"
    budget: int = 0
    tail: int = 0
    ceiling: bool = False
    up_to: int = PROTOCOL.attempts
    robust: bool = True
    workers: int = 0
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for name, least in (("objects", 1), ("poses", 1), ("up_to", 1), ("workers", 0), ("seed", 0), ("tail", 0)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"trials: {name} must be at least {least}, not {getattr(self, name)}")
        check_ranges(self, "trials", {"up_to": (1, 100), "workers": (0, 1024), "budget": (0, _MOST_SCENES)})
        objects = len(self.names) or self.objects
        if objects * self.poses > _MOST_SCENES:
            raise ConfigurationError(
                f"trials: {objects:,} objects in {self.poses:,} poses are too many scenes",
                f"Ask for {_MOST_SCENES:,} in all at most",
            )
        self._check_scheduler()
        if not self.timeout_s > 0:
            raise ConfigurationError(f"trials: timeout_s must be positive, not {self.timeout_s}")
        for name, allowed in (("rule", Rule), ("split", SplitName), ("source", Source), ("robot", RobotName)):
            if getattr(self, name) not in get_args(allowed):
                known = ", ".join(get_args(allowed))
                raise ConfigurationError(f"trials: {name} is {getattr(self, name)!r}", f"Choose one of {known}")
        if all(spec.name != "reference" for spec in self.planners):
            object.__setattr__(self, "planners", (planner_spec("reference"), *self.planners))
        labels = [spec.name for spec in self.planners]
        if len(set(labels)) < len(labels):
            raise ConfigurationError(f"trials: planner names must differ: {', '.join(labels)}", "Rename one of them")
        reference = next(spec for spec in self.planners if spec.name == "reference")
        if reference != planner_spec("reference"):
            raise ConfigurationError("trials: 'reference' is frozen and takes no options", "Give the other a new name")
        self._check_tail()

    def _check_tail(self) -> None:
        if self.tail and self.scheduler != "all":
            raise ConfigurationError("trials: no scheduler takes part in collecting the tail", "Leave out one of both")
        if self.tail and self.planners[0].name != "reference":
            raise ConfigurationError("trials: the tail is what 'reference' fails on", "Name it first of all planners")
        if self.ceiling and any(spec.name == "oracle" for spec in self.planners):
            raise ConfigurationError("trials: the oracle is a planner and the ceiling", "Leave out one of both")

    def _check_scheduler(self) -> None:
        known = ("all", *SCHEDULERS)
        if self.scheduler not in known:
            raise ConfigurationError(f"trials: scheduler is {self.scheduler!r}", f"Choose one of {', '.join(known)}")
        if (self.scheduler == "all") != (self.budget == 0) or self.budget < 0:
            raise ConfigurationError(
                f"trials: scheduler '{self.scheduler}' with a budget of {self.budget} scenes",
                "A scheduler needs a budget of at least 1 scene; 'all' takes none",
            )

    @property
    def processes(self) -> int:
        """Worker processes that will be started."""
        return self.workers or len(os.sched_getaffinity(0))

    def identity(self) -> dict[str, Any]:
        """All that results depend on, JSON-ready: equal identities give equal results."""
        data = dataclasses.asdict(self)
        for name in ("workers", "timeout_s"):
            del data[name]
        if self.scheduler == "all":  # as runs without a scheduler have always been named
            del data["scheduler"], data["budget"]
        for name in ("tail", "ceiling"):  # and without these
            if not data[name]:
                del data[name]
        data["planners"] = [spec.fingerprint() for spec in self.planners]
        data["names"] = list(self.names)
        return {"protocol": PROTOCOL.name, "version": keygrasp.__version__, **data}

    def scenes(self) -> tuple[SceneSpec, ...]:
        """The scenes, in the order of their indices.

        Raises:
            InputError: If there are fewer objects than asked for.
        """
        names = self.names or (split(self.split) if self.source == "embedded" else Catalog().names(self.source))
        if self.names:
            chosen = list(self.names)
        else:
            if self.objects > len(names):
                where = f"split '{self.split}'" if self.source == "embedded" else f"source '{self.source}'"
                raise InputError(
                    f"{self.objects} objects were asked for, but {where} has {len(names)}",
                    "Ask for fewer objects, or for several poses of each",
                )
            chosen = sorted(sorted(names, key=_digest)[: self.objects])
        return tuple(
            SceneSpec(name, self.rule, scene_seed(self.seed, name, pose), self.source)
            for pose in range(self.poses)
            for name in chosen
        )

    def only_tail(self, index: int) -> bool:
        """Whether a scene of that index matters only where the reference fails."""
        return self.tail > 0 and index >= (len(self.names) or self.objects)

    def expected_scenes(self) -> int:
        """How many of :meth:`scenes` a run tries (with ``tail``: at most)."""
        return min(self.budget, len(self.scenes())) if self.budget else len(self.scenes())


def judged_planner(names: Sequence[str]) -> str:
    """The planner whose trials are scheduled and told of first: the first beside the reference."""
    return next((name for name in names if name != "reference"), names[0])


def scene_seed(seed: int, name: str, pose: int) -> int:
    """Seed (48 bits) of one scene: the same on every machine and in every process."""
    return int(_digest(f"{seed}/{name}/{pose}")[:12], 16)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
