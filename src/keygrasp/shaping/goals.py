"""MDPs whose states carry the goal that holds in them, as exact certificates need them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from keygrasp.shaping.mdp import FiniteMDP, Transition

#: Base states that act, actions, and the two base states in which episodes end.
_BASE, _ACTIONS, _ENDS = 5, 3, 2
_GAMMA = Fraction(9, 10)
#: The base state whose visit is the first goal; the second is to end well.
_SUBGOAL = 0


@dataclass(frozen=True)
class GoalMDP:
    """An MDP over pairs of base state and goal.

    Attributes:
        mdp: The MDP over the pairs.
        old_goal: ``old_goal[state][next]`` is the pair of the next base state with the goal of ``state``: where they
            differ, the transition changes the goal.
        terminal: Pairs in which episodes end.
    """

    mdp: FiniteMDP
    old_goal: tuple[dict[int, int], ...]
    terminal: frozenset[int] = frozenset()


def random_goal_mdp(seed: int) -> GoalMDP:
    """A random episodic MDP with two goals, one after the other, and mostly with ties.

    Five base states act with three actions, which lead to one or two states with probabilities of quarters; two end
    the episode. Rewards are whole numbers of tenths in [-1, 1]; ending is worth more once the subgoal was visited. In
    about half of the states an action is the copy of another one. The discount is 9/10.
    """
    rng = random.Random(seed)
    pairs = 2 * _BASE + 2 * _ENDS
    rows: list[tuple[tuple[Transition, ...], ...]] = [()] * pairs
    old_goal: list[dict[int, int]] = [{} for _ in range(pairs)]
    base = [_base_actions(rng) for _ in range(_BASE)]
    for place in range(_BASE):
        for goal in range(2):
            state = 2 * place + goal
            rows[state] = tuple(tuple(_outcome(o, goal) for o in outcomes) for outcomes in base[place])
            for outcomes in rows[state]:
                for outcome in outcomes:
                    old_goal[state][outcome.state] = outcome.state // 2 * 2 + goal
    terminal = frozenset(range(2 * _BASE, pairs))
    names = [f"base state {i // 2} with goal {i % 2 + 1}" for i in range(pairs)]
    return GoalMDP(FiniteMDP(tuple(rows), _GAMMA, start=2, state_names=tuple(names)), tuple(old_goal), terminal)


#: Probability, base state, reward.
_Outcome = tuple[Fraction, int, Fraction]


def _base_actions(rng: random.Random) -> list[list[_Outcome]]:
    actions: list[list[_Outcome]] = []
    for _ in range(_ACTIONS):
        share = Fraction(rng.choice((4, 4, 2, 1)), 4)
        targets = rng.sample(range(_BASE + _ENDS), 2)
        split = ((share, targets[0]), (1 - share, targets[1]))
        actions.append([(p, to, Fraction(rng.randint(-3, 3), 10)) for p, to in split if p])
    if rng.random() < 0.5:
        actions[-1] = list(actions[0])
    return actions


def _outcome(outcome: _Outcome, goal: int) -> Transition:
    """The outcome over pairs: visiting the subgoal changes the goal, and ending is worth more after that."""
    probability, place, reward = outcome
    if place >= _BASE:
        worth = Fraction(1 if place == _BASE else -1, 1 if goal else 2)
        return Transition(probability, 2 * place + goal, worth, terminated=True)
    return Transition(probability, 2 * place + (1 if place == _SUBGOAL else goal), reward)
