"""Shaping around Gymnasium environments, single and batched: the reward that a learner sees is r + F.

Where the symbols come from is a function of observation and info; without one, ``info["symbols"]`` holds a row (D,),
or rows (N, D) of a batch. The goal is one for all, or a function of info.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keygrasp.errors import InputError
from keygrasp.extras import require
from keygrasp.geometry.poses import Array
from keygrasp.scene.tasks import Task
from keygrasp.shaping.conditions import EpisodeEndError
from keygrasp.shaping.term import ShapingStep, ShapingTerm

if TYPE_CHECKING:
    import gymnasium
    from gymnasium import vector
else:
    gymnasium = require("gymnasium", "grasp")
    vector = require("gymnasium.vector", "grasp")

Info = dict[str, Any]
#: Rows of the states that an observation and its info show.
Symbols = Callable[[Any, Info], Array]
#: The goal or, of a batch, the goals that an info names.
Goal = Callable[[Info], Any]


def symbols_in_info(observation: Any, info: Info) -> Array:
    """The row or rows under ``info["symbols"]``.

    Raises:
        InputError: If there are none.
    """
    if "symbols" not in info:
        raise InputError("the environment's info has no 'symbols'", "Give the wrapper a function that reads the state")
    return np.asarray(info["symbols"], dtype=float)


class ShapedReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds the shaping term to one environment's reward.

    ``info`` gets ``reward_terms`` (``task`` and ``shaping``, whose sum is the reward), ``potential`` and
    ``next_potential``.

    Args:
        env: The environment.
        term: Shaping of one environment, with the learner's discount.
        symbols: State row (D,) of observation and info.
        goal: The goal, or a function of info that names it; a goal that changes at run time takes effect from s′ on.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        term: ShapingTerm,
        *,
        symbols: Symbols = symbols_in_info,
        goal: Hashable | Goal = None,
    ) -> None:
        super().__init__(env)
        if term.count != 1:
            raise InputError(f"the shaping term is for {term.count} environments", "Give one with count=1")
        self.term, self._symbols = term, symbols
        self._goal = _goal_function(goal)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        potential = self.term.reset(self._symbols(observation, info)[None], [self._goal(info)])
        return observation, {**info, "potential": float(potential[0])}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Step, with the shaping in the reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        rows = self._symbols(observation, info)[None]
        shaped = self.term.step(rows, [terminated], [truncated], [self._goal(info)])
        added = float(shaped.shaping[0])
        info = {
            **info,
            "reward_terms": {"task": float(reward), "shaping": added},
            "potential": float(shaped.potential[0]),
            "next_potential": float(shaped.next_potential[0]),
        }
        return observation, float(reward) + added, bool(terminated), bool(truncated), info


class ShapedVectorReward(vector.VectorWrapper):
    """Adds the shaping term to the rewards of batched environments; knows all of Gymnasium's ways to reset.

    With reset at the next step, the step that only resets earns no shaping. With reset in the same step, the last
    observation comes from ``infos["final_obs"]``. Infos get the same entries as in :class:`ShapedReward`, as arrays.

    Args:
        env: The environments.
        term: Shaping of as many environments.
        symbols: State rows (N, D) of batched observation and info.
        goal: The goal of all, or a function of info that names N goals.
    """

    def __init__(
        self, env: vector.VectorEnv, term: ShapingTerm, *, symbols: Symbols = symbols_in_info,
        goal: Hashable | Goal = None,
    ) -> None:  # fmt: skip
        super().__init__(env)
        if term.count != env.num_envs:
            raise InputError(f"the shaping term is for {term.count} environments, there are {env.num_envs}")
        self.term, self._symbols = term, symbols
        named = _goal_function(goal)
        self._goals: Callable[[Info], Sequence[Hashable]] = (
            named if callable(goal) else lambda info: [named(info)] * term.count
        )
        self._mode = env.metadata.get("autoreset_mode", vector.AutoresetMode.NEXT_STEP)
        self._ended = np.zeros(term.count, dtype=bool)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin episodes, of the environments in ``options["reset_mask"]`` alone where that is given."""
        # Read first: Gymnasium takes the mask out of the options.
        mask = np.array((options or {}).get("reset_mask", np.ones(self.term.count, dtype=bool)))
        observation, infos = self.env.reset(seed=seed, options=options)  # type: ignore[arg-type]
        potential = self.term.reset(self._symbols(observation, infos), self._goals(infos), mask)
        self._ended = self._ended & ~mask
        return observation, {**infos, "potential": potential}

    def step(self, actions: Any) -> tuple[Any, Array, Any, Any, Info]:
        """Step, with the shaping in the rewards."""
        observation, rewards, terminated, truncated, infos = self.env.step(actions)
        before, self._ended = self._ended, np.asarray(terminated | truncated, dtype=bool)
        goals = self._goals(infos)
        if self._mode == vector.AutoresetMode.SAME_STEP:
            shaped = self.term.step(self._last_rows(observation, infos), terminated, truncated, goals)
            if self._ended.any():
                self.term.reset(self._symbols(observation, infos), goals, self._ended)
        else:
            rows = self._symbols(observation, infos)
            resets = before if self._mode == vector.AutoresetMode.NEXT_STEP else np.zeros_like(before)
            shaped = self.term.step(rows, terminated, truncated, goals, where=~resets)
            if resets.any():
                self.term.reset(rows, goals, resets)
        return observation, rewards + shaped.shaping, terminated, truncated, _with_terms(infos, rewards, shaped)

    def _last_rows(self, observation: Any, infos: Info) -> Array:
        """Rows (N, D) of s′, from the kept last observations where episodes ended."""
        if not self._ended.any():
            return self._symbols(observation, infos)
        if "final_obs" not in infos:
            raise EpisodeEndError(
                "episodes ended, but infos has no 'final_obs': the last observation is lost",
                "Use an environment that keeps it, or AutoresetMode.NEXT_STEP",
            )
        final, ended = infos["final_obs"], self._ended
        final_info = infos.get("final_info", {})
        rows = np.array(self._symbols(observation, infos), dtype=float)
        last = _stacked([final[i] for i in np.flatnonzero(ended)])
        picked = {name: np.asarray(v)[ended] for name, v in final_info.items() if np.shape(v)[:1] == ended.shape}
        rows[ended] = self._symbols(last, picked)
        return rows


def _with_terms(infos: Info, rewards: Array, shaped: ShapingStep) -> Info:
    return {
        **infos,
        "reward_terms": {"task": np.asarray(rewards, dtype=float), "shaping": shaped.shaping},
        "potential": shaped.potential,
        "next_potential": shaped.next_potential,
    }


def _goal_function(goal: Hashable | Goal) -> Goal:
    if callable(goal):
        return goal
    fixed = Task() if goal is None else goal
    return lambda info: fixed


def _stacked(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {name: _stacked([o[name] for o in observations]) for name in observations[0]}
    return np.stack([np.asarray(o) for o in observations])
