"""The certificate at large: random MDPs times potentials, done right and done wrong in the four common ways."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction

from keygrasp.errors import ConfigurationError, WorkerError
from keygrasp.scene.tasks import Task
from keygrasp.shaping.certify import Certificate, Shaping, Table, certify, potential_based, potential_table
from keygrasp.shaping.exact import Solution, solve
from keygrasp.shaping.goals import GoalMDP, random_goal_mdp
from keygrasp.shaping.grasp_mdp import grasp_mdp
from keygrasp.shaping.mdp import FiniteMDP, Transition
from keygrasp.shaping.rules import ADVERSARIAL_SCALE, RulePotential

#: Potentials that the campaign tries.
POTENTIALS = ("accurate", "noisy", "constant", "adversarial")
#: Told how many MDPs are done, of how many.
Progress = Callable[[int, int], None]


def _raw_terminal(mdp: FiniteMDP, phi: Table, state: int, outcome: Transition) -> Fraction:
    return outcome.reward + mdp.gamma * phi[outcome.state] - phi[state]


def _undiscounted(mdp: FiniteMDP, phi: Table, state: int, outcome: Transition) -> Fraction:
    return outcome.reward + (0 if outcome.terminated else phi[outcome.state]) - phi[state]


def _score_as_reward(mdp: FiniteMDP, phi: Table, state: int, outcome: Transition) -> Fraction:
    return outcome.reward + phi[outcome.state]


def _old_goal(problem: GoalMDP) -> Shaping:
    def shape(mdp: FiniteMDP, phi: Table, state: int, outcome: Transition) -> Fraction:
        following = 0 if outcome.terminated else phi[problem.old_goal[state].get(outcome.state, outcome.state)]
        return outcome.reward + mdp.gamma * following - phi[state]

    return shape


#: Ways to shape: the right one first, then the four common mistakes.
WAYS = {
    "correct": "γΦ(s′, g′) − Φ(s, g), Φ(terminal) = 0",
    "raw Φ at terminal states": "Φ(terminal) is what the scorer says",
    "γ = 1 in the shaping": "Φ(s′) − Φ(s) for a learner that discounts",
    "score as reward": "r + Φ(s′)",
    "old goal": "γΦ(s′, g) − Φ(s, g) after a change of goal",
}


def shaping_of(way: str, problem: GoalMDP) -> Shaping:
    """How rewards are shaped in one of :data:`WAYS`."""
    fixed: dict[str, Shaping] = {
        "correct": potential_based,
        "raw Φ at terminal states": _raw_terminal,
        "γ = 1 in the shaping": _undiscounted,
        "score as reward": _score_as_reward,
    }
    return fixed[way] if way in fixed else _old_goal(problem)


@dataclass
class Tally:
    """Counts of MDPs whose optimal policies were all preserved.

    Attributes:
        mdps: MDPs tried.
        with_ties: MDPs in which some state has several optimal actions.
        preserved: Preserved MDPs by way and potential.
        shifted: By potential, MDPs where the correct way gave V*′ = V* − Φ exactly.
        examples: One counterexample in words by way, of the first MDP that has one.
    """

    mdps: int = 0
    with_ties: int = 0
    preserved: dict[str, dict[str, int]] = field(
        default_factory=lambda: {way: dict.fromkeys(POTENTIALS, 0) for way in WAYS}
    )
    shifted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(POTENTIALS, 0))
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add the counts of other MDPs."""
        self.mdps += other.mdps
        self.with_ties += other.with_ties
        for way, counts in other.preserved.items():
            for potential, count in counts.items():
                self.preserved[way][potential] += count
        for potential, count in other.shifted.items():
            self.shifted[potential] += count
        for way, text in other.examples.items():
            self.examples.setdefault(way, text)

    @property
    def holds(self) -> bool:
        """Whether the correct way preserved every MDP under every potential."""
        return all(count == self.mdps for count in self.preserved["correct"].values())


def potentials_for(problem: GoalMDP, solution: Solution, seed: int) -> dict[str, list[Fraction]]:
    """The four potentials of one MDP, in hundredths.

    ``accurate`` is V* itself, ``noisy`` adds up to ± half the largest reward, ``constant`` is one score everywhere,
    and ``adversarial`` falls with V*, :data:`ADVERSARIAL_SCALE` times the largest reward from worst to best state, with
    any value at terminal states.
    """
    rng = random.Random(seed ^ 0x5EED)
    largest = max(
        (abs(o.reward) for actions in problem.mdp.transitions for outcomes in actions for o in outcomes),
        default=Fraction(1),
    )
    values = [_hundredths(value) for value in solution.values]
    low, span = min(values), max(max(values) - min(values), Fraction(1, 100))
    size = ADVERSARIAL_SCALE * largest
    adversarial = [_hundredths(size * (low - value) / span) for value in values]
    for state in sorted(problem.terminal):
        adversarial[state] = Fraction(rng.randint(-100, 100), 100) * size
    return {
        "accurate": values,
        "noisy": [value + largest * Fraction(rng.randint(-50, 50), 100) for value in values],
        "constant": [Fraction(rng.randint(10, 100), 100)] * len(values),
        "adversarial": adversarial,
    }


def certify_problem(problem: GoalMDP, seed: int, ways: Iterable[str] = tuple(WAYS)) -> Tally:
    """Every way with every potential on one MDP."""
    solution = solve(problem.mdp)
    ways = list(ways)
    counts = {way: dict.fromkeys(POTENTIALS, 0) for way in ways}
    tally = Tally(mdps=1, preserved=counts, with_ties=int(any(len(actions) > 1 for actions in solution.optimal)))
    for name, phi in potentials_for(problem, solution, seed).items():
        for way in ways:
            certificate = certify(problem.mdp, phi, shaping=shaping_of(way, problem), unshaped=solution)
            tally.preserved[way][name] += certificate.preserved
            if way == "correct":
                tally.shifted[name] += certificate.shifted
            if certificate.counterexample is not None:
                tally.examples.setdefault(way, f"{name} potential, MDP {seed}: {certificate.counterexample.text()}")
    return tally


def certify_grasp() -> Tally:
    """Every way that its single goal allows, with every potential, on the symbolic grasp MDP."""
    mdp = grasp_mdp().mdp
    terminal = frozenset(state for state in range(mdp.states) if not mdp.actions(state))
    problem = GoalMDP(mdp, tuple({} for _ in range(mdp.states)), terminal)
    return certify_problem(problem, 0, [way for way in WAYS if way != "old goal"])


def certify_rules() -> Certificate:
    """The certificate of the rule-based potential on the symbolic grasp MDP."""
    grasp = grasp_mdp()
    return certify(grasp.mdp, potential_table(RulePotential(), grasp.rows, [Task()] * grasp.mdp.states))


def run_campaign(count: int, *, seed: int = 0, workers: int = 0, on_progress: Progress | None = None) -> Tally:
    """Certify ``count`` random MDPs on many cores.

    Args:
        count: Number of MDPs.
        seed: Seed of the first one; the others follow.
        workers: Processes; 0 is one a core.
        on_progress: Told how far it is.

    Raises:
        ConfigurationError: If a number is out of range.
        WorkerError: If a process died.
    """
    if count < 1 or workers < 0:
        raise ConfigurationError(f"{count} MDPs on {workers} workers", "Give at least 1 MDP, and 0 or more workers")
    workers = min(workers or len(os.sched_getaffinity(0)), count)
    seeds = range(seed, seed + count)
    total = Tally()

    def collect(tallies: Iterable[Tally]) -> None:
        for tally in tallies:
            total.add(tally)
            if on_progress is not None:
                on_progress(total.mdps, count)

    if workers == 1:
        collect(map(_certify_seed, seeds))
        return total
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            collect(pool.map(_certify_seed, seeds, chunksize=4))
        except OSError as error:
            raise WorkerError(f"a worker process failed ({error})", "Try again with fewer workers") from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return total


def _certify_seed(seed: int) -> Tally:
    return certify_problem(random_goal_mdp(seed), seed)


def _hundredths(value: Fraction) -> Fraction:
    return Fraction(round(value * 100), 100)
