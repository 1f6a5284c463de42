"""The learner's faculties for a body that isn't a millirobot: its C core chooses, assesses and models; others move.

A skill of the other body lives in one of the core's slots, whose place in the skill graph and whose 60 bytes of memory
it takes over: two outcomes as affine functions of two inputs, learned by the core's regression; fitness, novelty and
what follows from them by the core's own functions. What a skill does, and what its inputs and outcomes mean, is the
caller's. The core's "body has changed" works as on the robot: a learned skill that fails twice puts all in doubt.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

from keygrasp.errors import ConfigurationError, InputError
from keygrasp.skills.core import (
    MOTIVE_SCALE,
    ONE,
    SKILLS,
    Agent,
    Event,
    Flag,
    RawAgent,
    RawDecision,
    RawSkill,
    SkillState,
    fixed,
    library,
    needs,
)

#: Share of the evidence that is kept with each observation: more than on the robot, whose motors drift.
_REMEMBER = 0.98
#: Variances of weights that begin with a theory, in those of the noise: of constants and of slopes.
_VARIANCE = (1.0, 5.0)


class _RawMotive(ctypes.Structure):
    """``kg_motive``."""

    _fields_ = (
        ("novelty", ctypes.c_int32),
        ("progress", ctypes.c_int32),
        ("difficulty", ctypes.c_int32),
        ("value", ctypes.c_int32),
    )


@dataclass(frozen=True)
class Choice:
    """A skill that was chosen, and why.

    Attributes:
        skill: Its name.
        novelty: First factor of its motivation.
        progress: Second factor.
        difficulty: Third factor.
        motivation: Their product, by which it was chosen.
    """

    skill: str
    novelty: float
    progress: float
    difficulty: float
    motivation: float


class Faculty:
    """Choice, assessment and models for the skills of any body.

    Args:
        slots: The core's slot of each skill, by the skill's name; what a slot is built on must be among them.
        theory: What each skill's model begins with: weights (constant, first input, second input) of both outcomes.
        memory: What another one has learned (:attr:`memory`).

    Raises:
        ConfigurationError: If a slot is unknown, taken twice, or lacks what it is built on.
    """

    def __init__(
        self,
        slots: Mapping[str, str],
        theory: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]],
        memory: bytes | None = None,
    ) -> None:
        used = list(slots.values())
        for name, slot in slots.items():
            if slot not in SKILLS or used.count(slot) > 1 or not set(needs(slot)) <= set(used):
                raise ConfigurationError(f"the skill '{name}' can't take the slot '{slot}'", f"Slots: {SKILLS}")
        self._slots = {name: SKILLS.index(slot) for name, slot in slots.items()}
        self._core = library()
        self._core.kg_motive_of.restype = _RawMotive
        self._core.kg_in_pool.restype = ctypes.c_bool
        self._agent = Agent(memory=memory)
        if memory is None:
            for name, outcomes in theory.items():
                raw = self._skill(name)
                for outcome, weights in enumerate(outcomes):
                    raw.weight[outcome][:] = [fixed(weight) for weight in weights]
                self._open(raw)

    @property
    def memory(self) -> bytes:
        """What was learned, in the block that a robot would keep in flash."""
        return self._agent.memory

    @property
    def states(self) -> tuple[SkillState, ...]:
        """What is known of each skill."""
        known = self._agent.skills
        return tuple(
            SkillState(name, known[slot].fitness, known[slot].runs, known[slot].learned, known[slot].tried)
            for name, slot in self._slots.items()
        )

    def is_learned(self, skill: str) -> bool:
        """Whether a skill has reached the threshold, and hasn't been put in doubt since."""
        return bool(self._skill(skill).flags & Flag.LEARNED)

    def choose(self) -> Choice:
        """The skill with the largest motivation among those whose foundations are learned."""
        raw = self._agent.raw
        pool = [name for name, slot in self._slots.items() if self._core.kg_in_pool(ctypes.byref(raw), slot)]
        choices = [self._motive(name, raw) for name in pool]
        return max(choices, key=lambda choice: choice.motivation)

    def weights(self, skill: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """A skill's model: constant and slopes over both inputs, of both outcomes."""
        first, second = (tuple(weight / ONE for weight in row) for row in self._skill(skill).weight)
        return first, second

    def predict(self, skill: str, first: float, second: float) -> tuple[float, float]:
        """Both outcomes that a skill's model expects of two inputs."""
        inputs = (1.0, first, second)
        one, other = (sum(w * x for w, x in zip(row, inputs, strict=True)) for row in self.weights(skill))
        return one, other

    def inherit(self, skill: str, parent: str) -> None:
        """Let a skill's model begin as another's is now."""
        raw, other = self._skill(skill), self._skill(parent)
        for row, others in zip(raw.weight, other.weight, strict=True):
            row[:] = list(others)
        self._open(raw)

    def learn(self, skill: str, first: float, second: float, outcomes: tuple[float, float]) -> None:
        """Let a skill's model learn from what two inputs led to."""
        raw = self._skill(skill)
        seen = (ctypes.c_int32 * 2)(*(fixed(outcome) for outcome in outcomes))
        self._core.kg_regression_learn(ctypes.byref(raw), fixed(first), fixed(second), seen, fixed(_REMEMBER))

    def assess(self, skill: str, fitness: float) -> Event:
        """Take in how well a run went.

        Returns:
            What that changed: :attr:`Event.NEWLY_LEARNED`, :attr:`Event.LOST`.
        """
        raw, decision = self._agent.raw, RawDecision()
        raw.memory.skill[self._slots[skill]].flags |= Flag.TRIED
        raw.run.skill = self._slots[skill]
        self._core.kg_agent_assess(ctypes.byref(raw), fixed(fitness), ctypes.byref(decision))
        events = Event(decision.events)
        if Event.LOST in events:
            for name in self._slots:
                self._open(self._skill(name))
        return events

    def _motive(self, name: str, raw: RawAgent) -> Choice:
        motive = self._core.kg_motive_of(ctypes.byref(raw), self._slots[name])
        return Choice(
            name,
            motive.novelty / ONE,
            motive.progress / ONE,
            motive.difficulty / ONE,
            motive.value / ONE * MOTIVE_SCALE,
        )

    def _skill(self, name: str) -> RawSkill:
        if name not in self._slots:
            raise InputError(f"there is no skill '{name}'", f"Known: {', '.join(self._slots)}")
        skill: RawSkill = self._agent.raw.memory.skill[self._slots[name]]
        return skill

    def _open(self, raw: RawSkill) -> None:
        """Let a model change as if nothing had confirmed it yet; the core itself opens those of its own patterns."""
        constant, slope = _VARIANCE
        self._core.kg_regression_start(ctypes.byref(raw), fixed(constant), fixed(slope))
