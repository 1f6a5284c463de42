"""Development: an agent and a simulated robot, until a time is over; and what came of it, measured on the true path."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keygrasp.errors import ConfigurationError
from keygrasp.skills.core import BASE_SKILLS, PATTERNS, SKILLS, THRESHOLD, Agent, Decision, Event, Pose
from keygrasp.skills.curves import Array, PathError, path_error
from keygrasp.skills.millirobot import Millirobot

#: Seconds that a robot waits where the learner wants it to stand still.
_IDLE_S = 1.0


@dataclass(frozen=True)
class Step:
    """One decision and when it was made.

    Attributes:
        seconds: Simulated time before the motion.
        seen: Pose that the decision was made from.
        decision: The decision.
    """

    seconds: float
    seen: Pose | None
    decision: Decision


@dataclass(frozen=True)
class Run:
    """One run of a skill that ended.

    Attributes:
        seconds: Simulated time at its end.
        skill: The skill.
        fitness: As the robot saw it.
    """

    seconds: float
    skill: str
    fitness: float


def steps(agent: Agent, robot: Millirobot, seconds: float) -> Iterator[Step]:
    """Let the agent live in the robot until the robot's clock shows ``seconds``; yields before each motion is made."""
    while robot.clock < seconds:
        seen = robot.look()
        decision = agent.step(seen)
        yield Step(robot.clock, seen, decision)
        if decision.milliseconds:
            robot.move(decision.left, decision.right, decision.milliseconds)
        else:
            robot.wait(_IDLE_S)


def develop(agent: Agent, robot: Millirobot, seconds: float) -> list[Run]:
    """As :func:`steps`, but only the runs that ended."""
    return [run for step in steps(agent, robot, seconds) if (run := run_of(step)) is not None]


def run_of(step: Step) -> Run | None:
    """The run that ended in a step."""
    decision = step.decision
    if decision.ended is None or Event.ENDED not in decision.events:
        return None
    return Run(step.seconds, decision.ended, decision.fitness)


def acquisition(runs: Sequence[Run], since: float = 0.0) -> dict[str, float]:
    """Seconds from ``since`` until each skill first reached the threshold; a skill that never did has none."""
    reached: dict[str, float] = {}
    for run in runs:
        if run.seconds >= since and run.fitness >= THRESHOLD:
            reached.setdefault(run.skill, run.seconds - since)
    return reached


def time_to_all(reached: dict[str, float], skills: Sequence[str]) -> float:
    """When the last of these skills was reached; infinite if one never was."""
    return max(reached.get(skill, math.inf) for skill in skills)


def selection_entropy(runs: Sequence[Run]) -> float:
    """Entropy of which skills ran, as a share of the largest possible (all equally often)."""
    counts = np.array(list(Counter(run.skill for run in runs).values()), dtype=float)
    if not len(counts):
        return 0.0
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum() / math.log(len(SKILLS)))


def longest_neglect(runs: Sequence[Run], seconds: float) -> float:
    """The longest time in s for which a skill that had run before did not run again, up to ``seconds``."""
    last: dict[str, float] = {}
    longest = 0.0
    for run in runs:
        longest = max(longest, run.seconds - last.get(run.skill, run.seconds))
        last[run.skill] = run.seconds
    return max([longest, *(seconds - time for time in last.values())])


@dataclass(frozen=True)
class Drawn:
    """One run of a pattern, with the true path.

    Attributes:
        pattern: Its name.
        start: True pose at the start.
        path: (N, 3) true poses, mm and radians.
        error: How far the path is from the curve.
        fitness: As the robot saw it.
    """

    pattern: str
    start: Pose
    path: Array
    error: PathError
    fitness: float


def draw(memory: bytes, robot: Millirobot, pattern: str, runs: int, *, seed: int = 1) -> list[Drawn]:
    """Run a pattern with a memory that is frozen: nothing is learned, everything is measured on the true path.

    Args:
        memory: Of an agent that has learned.
        robot: The robot that it learned on; its clock and its place go on.
        pattern: Name of the pattern.
        runs: How often.
        seed: Of the agent; patterns draw nothing from it.

    Raises:
        ConfigurationError: If the pattern never ends, as where a motor is stuck or the camera is blind.
    """
    agent = Agent(seed, learner="frozen", only=pattern, memory=memory)
    drawn: list[Drawn] = []
    start, pieces = robot.true_pose, [robot.trace[-1:]]
    for step in steps(agent, robot, robot.clock + 60.0 * (runs + 1)):
        # The path so far is complete here: the last motion has been made, the next one hasn't.
        if pieces and step.decision.ended is None:
            pieces.append(robot.trace)
        if Event.ENDED in step.decision.events:
            path = np.concatenate([*pieces, robot.trace])
            drawn.append(Drawn(pattern, start, path, path_error(pattern, path, start), step.decision.fitness))
            if len(drawn) == runs:
                return drawn
        if Event.STARTED in step.decision.events:
            start, pieces = robot.true_pose, [robot.trace[-1:]]
    raise ConfigurationError(f"only {len(drawn)} of {runs} runs of '{pattern}' ended", "Does the robot move at all?")


@dataclass(frozen=True)
class Quality:
    """How well the patterns are drawn, over frozen runs.

    Attributes:
        cross_track_share: Mean of each pattern, as a share of its size.
        closure: Mean of each pattern in mm.
        heading: Mean of each pattern in radians.
    """

    cross_track_share: dict[str, float]
    closure: dict[str, float]
    heading: dict[str, float]


def quality(memory: bytes, robot: Millirobot, runs: int = 5) -> Quality:
    """Draw every pattern several times with a frozen memory, and average; see :func:`draw`."""
    errors = {name: [drawn.error for drawn in draw(memory, robot, name, runs)] for name in PATTERNS}
    return Quality(
        {name: float(np.mean([e.cross_track_share for e in each])) for name, each in errors.items()},
        {name: float(np.mean([e.closure for e in each])) for name, each in errors.items()},
        {name: float(np.mean([e.heading for e in each])) for name, each in errors.items()},
    )


def all_base(reached: dict[str, float]) -> float:
    """When all base skills were learned, in s."""
    return time_to_all(reached, BASE_SKILLS)
