"""The C core through ctypes: the same decisions as on the robot, from Python."""

from __future__ import annotations

import ctypes
import enum
import functools
import math
from dataclasses import dataclass

from keygrasp.errors import ConfigurationError
from keygrasp.skills.building import BuildError, build_host

#: One in the core's fixed-point numbers.
ONE = 65536
#: The core keeps motivation divided by this.
MOTIVE_SCALE = 16.0
NO_SKILL = 255
#: Fitness from which a skill counts as learned.
THRESHOLD = 0.95
SKILLS = (
    "linear", "angular", "move linear", "move angular", "arc", "square", "circle", "triangle", "hexagon", "slalom",
    "eight", "spiral",
)  # fmt: skip
BASE_SKILLS = SKILLS[:4]
PATTERNS = SKILLS[4:]
STRATEGIES = ("motivated", "random", "fixed", "progress")
LEARNERS = ("regression", "annealing", "frozen")


class Event(enum.IntFlag):
    """What happened in a step; see ``firmware/core/skills.h``."""

    STARTED = 1
    ENDED = 2
    NEWLY_LEARNED = 4
    LOST = 8
    ABANDONED = 16
    MOTOR_STUCK = 32


class Flag(enum.IntFlag):
    """What is known of a skill."""

    LEARNED = 1
    TRIED = 2
    LOW = 4
    POOR = 8


class Settings(ctypes.Structure):
    """``kg_settings``."""

    _fields_ = (
        ("seed", ctypes.c_uint32),
        ("strategy", ctypes.c_uint8),
        ("learner", ctypes.c_uint8),
        ("only", ctypes.c_uint8),
        ("unused", ctypes.c_uint8),
    )


class RawPose(ctypes.Structure):
    """``kg_pose``."""

    _fields_ = (("x", ctypes.c_int32), ("y", ctypes.c_int32), ("heading", ctypes.c_int32))


class RawDecision(ctypes.Structure):
    """``kg_decision``."""

    _fields_ = (
        ("left", ctypes.c_int16),
        ("right", ctypes.c_int16),
        ("milliseconds", ctypes.c_uint16),
        ("skill", ctypes.c_uint8),
        ("ended", ctypes.c_uint8),
        ("events", ctypes.c_uint8),
        ("stuck", ctypes.c_uint8),
        ("unused", ctypes.c_uint16),
        ("fitness", ctypes.c_int32),
        ("motivation", ctypes.c_int32),
        ("novelty", ctypes.c_int32),
        ("progress", ctypes.c_int32),
        ("difficulty", ctypes.c_int32),
    )


class RawSkill(ctypes.Structure):
    """``kg_skill``."""

    _fields_ = (
        ("weight", (ctypes.c_int32 * 3) * 2),
        ("learner", ctypes.c_int32 * 6),
        ("command", ctypes.c_int16 * 2),
        ("novelty", ctypes.c_int32),
        ("fitness", ctypes.c_uint16),
        ("runs", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
    )


class RawBlock(ctypes.Structure):
    """``kg_block``."""

    _fields_ = (
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint16),
        ("size", ctypes.c_uint16),
        ("sequence", ctypes.c_uint32),
        ("check", ctypes.c_uint32),
        ("skill", RawSkill * len(SKILLS)),
        ("unused", ctypes.c_uint8 * 32),
    )


class RawRun(ctypes.Structure):
    """``kg_run``."""

    _fields_ = (
        ("skill", ctypes.c_uint8),
        ("phase", ctypes.c_uint8),
        ("segment", ctypes.c_uint8),
        ("corrections", ctypes.c_uint8),
        ("strikes", ctypes.c_uint8),
        ("stuck", ctypes.c_uint8),
        ("samples", ctypes.c_uint8),
        ("idle", ctypes.c_uint8),
        ("part", ctypes.c_uint8),
        ("unused", ctypes.c_uint8 * 3),
        ("start", RawPose),
        ("last", RawPose),
        ("reference", RawPose),
        ("goal", ctypes.c_int32),
        ("input", ctypes.c_int32 * 2),
        ("seconds", ctypes.c_int32),
        ("expected", ctypes.c_int32 * 2),
        ("surprise", ctypes.c_int32),
        ("squares", ctypes.c_uint64),
    )


class RawAgent(ctypes.Structure):
    """``kg_agent``."""

    _fields_ = (
        ("memory", RawBlock),
        ("run", RawRun),
        ("settings", Settings),
        ("random", ctypes.c_uint32),
    )


class RawEntry(ctypes.Structure):
    """``kg_entry``."""

    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("parent", ctypes.c_uint8),
        ("needs", ctypes.c_uint16),
        ("count", ctypes.c_uint8),
        ("period", ctypes.c_uint8),
        ("shift", ctypes.c_uint8),
        ("length", ctypes.c_int32),
        ("corner", ctypes.c_int32),
        ("radius", ctypes.c_int32),
        ("growth", ctypes.c_int32),
        ("size", ctypes.c_int32),
    )


_STRUCTURES = (Settings, RawPose, RawSkill, RawBlock, RawRun, RawAgent, RawDecision, RawEntry)


@functools.lru_cache(maxsize=4)
def library(extra_flags: str = "") -> ctypes.CDLL:
    """The compiled core.

    Raises:
        BuildError: If it doesn't compile, or its structures aren't those above.
    """
    core = ctypes.CDLL(str(build_host(extra_flags)))
    sizes = (ctypes.c_uint32 * len(_STRUCTURES)).in_dll(core, "KG_SIZES")
    for structure, size in zip(_STRUCTURES, sizes, strict=True):
        if ctypes.sizeof(structure) != size:
            raise BuildError(f"{structure.__name__} has {ctypes.sizeof(structure)} bytes here, {size} in the C core")
    core.kg_agent_start.restype = core.kg_agent_resume.restype = core.kg_agent_step.restype = None
    return core


@dataclass(frozen=True)
class Pose:
    """Where the robot is: x, y in millimetres, heading in radians."""

    x: float
    y: float
    heading: float


@dataclass(frozen=True)
class Decision:
    """One decision of the learner.

    Attributes:
        left: Speed of the left wheel in thousandths of full speed.
        right: Of the right wheel.
        milliseconds: How long both run; 0 stands still.
        skill: Skill that the motion belongs to, or ``None``.
        ended: Skill that was assessed (or abandoned) in this step, or ``None``.
        events: What happened.
        stuck: 1 left motor, 2 right, 3 both.
        fitness: Of the run that ended.
        motivation: Of the skill that was started: novelty · progress · difficulty.
        novelty: Its first factor.
        progress: Its second factor.
        difficulty: Its third factor.
    """

    left: int
    right: int
    milliseconds: int
    skill: str | None
    ended: str | None
    events: Event
    stuck: int
    fitness: float
    motivation: float
    novelty: float
    progress: float
    difficulty: float


@dataclass(frozen=True)
class SkillState:
    """What the learner knows of one skill.

    Attributes:
        name: Its name.
        fitness: Smoothed fitness, 0 to 1.
        runs: Runs so far; counts to 255.
        learned: Whether the threshold was reached, and nothing was lost since.
        tried: Whether it has run at all.
    """

    name: str
    fitness: float
    runs: int
    learned: bool
    tried: bool


def fixed(value: float) -> int:
    """A number in the core's fixed point, saturated.

    Raises:
        ConfigurationError: If it is NaN.
    """
    if math.isnan(value):
        raise ConfigurationError("a pose holds NaN", "Send no pose where it isn't known")
    return int(
        max(-(2**31) + 1, min(2**31 - 1, round(value * ONE) if math.isfinite(value) else math.copysign(2**31, value)))
    )


def entry(skill: str) -> RawEntry:
    """The core's table entry of a skill."""
    table = (RawEntry * len(SKILLS)).in_dll(library(), "KG_TABLE")
    return table[SKILLS.index(skill)]


def needs(skill: str) -> tuple[str, ...]:
    """Skills that a skill is directly built on."""
    mask = entry(skill).needs
    return tuple(name for index, name in enumerate(SKILLS) if mask >> index & 1)


def decision_of(raw: RawDecision) -> Decision:
    """A decision in Python's terms."""
    return Decision(
        left=raw.left,
        right=raw.right,
        milliseconds=raw.milliseconds,
        skill=_name(raw.skill),
        ended=_name(raw.ended),
        events=Event(raw.events),
        stuck=raw.stuck,
        fitness=raw.fitness / ONE,
        motivation=raw.motivation / ONE * MOTIVE_SCALE,
        novelty=raw.novelty / ONE,
        progress=raw.progress / ONE,
        difficulty=raw.difficulty / ONE,
    )


def _name(index: int) -> str | None:
    return None if index == NO_SKILL else SKILLS[index]


class Agent:
    """A developmental learner.

    Args:
        seed: Of its pseudo-random numbers, 1 to 2³²−1.
        strategy: How the next skill is chosen: ``motivated``, or to compare ``random``, ``fixed`` or ``progress``.
        learner: ``regression``, ``annealing``, or ``frozen`` to run without learning.
        only: A skill to run alone, again and again.
        memory: What another agent learned (:attr:`memory`), to go on from.

    Raises:
        ConfigurationError: If a name is unknown or the seed out of range.
    """

    def __init__(
        self,
        seed: int = 1,
        *,
        strategy: str = "motivated",
        learner: str = "regression",
        only: str | None = None,
        memory: bytes | None = None,
    ) -> None:
        if not 0 < seed < 2**32:
            raise ConfigurationError(f"the seed {seed} is not within 1 to 2³²−1")
        self._core = library()
        self.raw = RawAgent()
        settings = Settings(
            seed=seed,
            strategy=_index(strategy, STRATEGIES, "strategy"),
            learner=_index(learner, LEARNERS, "learner"),
            only=NO_SKILL if only is None else _index(only, SKILLS, "skill"),
        )
        self._core.kg_agent_start(ctypes.byref(self.raw), ctypes.byref(settings))
        if memory is not None:
            if len(memory) != ctypes.sizeof(RawBlock):
                raise ConfigurationError(f"a memory has {ctypes.sizeof(RawBlock)} bytes, not {len(memory)}")
            ctypes.memmove(ctypes.byref(self.raw.memory), memory, len(memory))
            self._core.kg_agent_resume(ctypes.byref(self.raw), ctypes.byref(settings))

    @property
    def memory(self) -> bytes:
        """What was learned: the block that a robot keeps in flash, 768 bytes."""
        return bytes(self.raw.memory)

    @property
    def skills(self) -> tuple[SkillState, ...]:
        """The state of all skills."""
        return tuple(
            SkillState(
                name=name,
                fitness=raw.fitness / ONE,
                runs=raw.runs,
                learned=bool(raw.flags & Flag.LEARNED),
                tried=bool(raw.flags & Flag.TRIED),
            )
            for name, raw in zip(SKILLS, self.raw.memory.skill, strict=True)
        )

    def step(self, pose: Pose | None) -> Decision:
        """One decision.

        Args:
            pose: Where the robot is after the last motion, at rest; ``None`` where nobody knows.
        """
        return decision_of(self.decide(pose))

    def decide(self, pose: Pose | None) -> RawDecision:
        """As :meth:`step`, in the core's own numbers, which are those of the serial link."""
        raw = RawDecision()
        seen = None if pose is None else RawPose(fixed(pose.x), fixed(pose.y), fixed(pose.heading))
        self._core.kg_agent_step(
            ctypes.byref(self.raw), None if seen is None else ctypes.byref(seen), ctypes.byref(raw)
        )
        return raw


def _index(name: str, known: tuple[str, ...], what: str) -> int:
    if name not in known:
        raise ConfigurationError(f"unknown {what} '{name}'", f"Known: {', '.join(known)}")
    return known.index(name)
