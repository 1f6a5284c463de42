"""A language model's progress score as a potential: cached for good, so that it stays a function of the state.

The guarantee of shaping needs no good scores, only fixed ones. So a state is quantised, its first valid score is
stored for good, and a state that got none (time-out, invalid answer, budget used up) is given the rule-based score,
for good as well. Extra ``llm``.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keygrasp.geometry.poses import Array
from keygrasp.scene.symbols import check_rows, dequantise, quantise
from keygrasp.shaping.llm_cache import ScoreStore, cache_key
from keygrasp.shaping.llm_client import URL_VARIABLES, Counters, LLMConfig, ScoreClient
from keygrasp.shaping.llm_prompt import PROMPT_VERSION, messages
from keygrasp.shaping.potential import Potential, Stationarity
from keygrasp.shaping.rules import RulePotential

_LOG = logging.getLogger(__name__)
#: States whose scores are stored together: a stop loses at most so many answers, and those under way.
_STORED_AT_ONCE = 64
#: States that wait for a thread at the same time, at most.
_SUBMITTED_AT_ONCE = 4096


def language_model_potential(config: LLMConfig | None = None) -> Potential:
    """The language model's potential, or the rule-based one, said once in the log, where no endpoint is named."""
    config = config or LLMConfig()
    if config.endpoint():
        return LLMPotential(config)
    _say_once(f"no language model endpoint (base_url, or {' or '.join(URL_VARIABLES)}): rule-based progress is used")
    return RulePotential()


class LLMPotential(Potential):
    """Scores in [0, 1] of an OpenAI-compatible chat endpoint. Use as a context manager, or call :meth:`close`.

    Args:
        config: Endpoint, budget and cache.

    Raises:
        MissingExtraError: If the extra ``llm`` is not installed.
        StorageError: If the cache can't be used.
    """

    name = "llm"
    stationarity = Stationarity.STATIC

    def __init__(self, config: LLMConfig) -> None:
        self.config = config
        self.counters = Counters()
        self._client = ScoreClient(config, self.counters)
        self._store = ScoreStore(config.cache) if config.cache is not None else None
        self._fallback = RulePotential()
        self._known: dict[Hashable, dict[bytes, float]] = {}
        self._lock = threading.Lock()
        self._without_answer = 0

    def __enter__(self) -> LLMPotential:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and the cache's file."""
        self._client.close()
        if self._store is not None:
            self._store.close()

    def evaluate(self, states: Array, goal: Hashable) -> Array:
        """Scores (N,) of rows (N, D); states that were never scored are asked about, several at the same time."""
        steps = np.ascontiguousarray(quantise(check_rows(states)))
        keys: list[bytes] = steps.view(np.dtype((np.void, steps.shape[1] * steps.itemsize)))[:, 0].tolist()
        with self._lock:
            known = self._known.setdefault(goal, {})
            scores = list(map(known.get, keys))
            missing = list(dict.fromkeys(key for key, score in zip(keys, scores, strict=True) if score is None))
            self.counters.cached += len(keys) - scores.count(None)
            if missing:
                found = self._find(missing, goal)
                self._keep(known, found)
                found.update(self._unasked([key for key in missing if key not in found], goal))
                scores = [found[key] if score is None else score for key, score in zip(keys, scores, strict=True)]
        return np.array(scores, dtype=float)

    def explain(self, state: Array, goal: Hashable) -> str:
        """The score, and the rules' view of the same state."""
        score = self.values(state[None], goal)[0]
        return f"language model {score:.2f} ({self._fallback.explain(state, goal)})"

    def _find(self, missing: Sequence[bytes], goal: Hashable) -> dict[bytes, float]:
        """Scores of states that are not in memory: from the file, else from the model, else the fallback.

        States for which there is no room are left out.
        """
        names = {key: cache_key(self.config.model, PROMPT_VERSION, key, repr(goal)) for key in missing}
        stored = self._store.read(list(names.values())) if self._store is not None else {}
        found = {key: stored[name] for key, name in names.items() if name in stored}
        self.counters.cached += len(found)
        unknown = [key for key in missing if key not in found]
        unknown = unknown[: self._room()]
        names = {key: names[key] for key in unknown}
        with ThreadPoolExecutor(min(self.config.concurrency, len(unknown) or 1)) as pool, _cancelled_on_error(pool):
            for first in range(0, len(unknown), _SUBMITTED_AT_ONCE):
                answered = self._ask(pool, unknown[first : first + _SUBMITTED_AT_ONCE], goal)
                while portion := dict(itertools.islice(answered, _STORED_AT_ONCE)):  # meanwhile the rest is asked about
                    found.update(self._stored(portion, names))
        return found

    def _stored(self, scores: dict[bytes, tuple[float, str]], names: Mapping[bytes, str]) -> dict[bytes, float]:
        """What counts from now on, by state: what was in the file first."""
        if self._store is None:
            return {key: score for key, (score, _) in scores.items()}
        kept = self._store.add({names[key]: score for key, score in scores.items()})
        return {key: kept[names[key]] for key in scores}

    def _unasked(self, keys: Sequence[bytes], goal: Hashable) -> dict[bytes, float]:
        """Fallbacks of states for which there is no room; they get the same again the next time."""
        self.counters.fallbacks += len(keys)
        return dict(zip(keys, self._fallback.values(_rows(keys), goal).tolist(), strict=True)) if keys else {}

    def _ask(
        self, pool: ThreadPoolExecutor, keys: Sequence[bytes], goal: Hashable
    ) -> Iterator[tuple[bytes, tuple[float, str]]]:
        """Each state with its score and source, in their order, as the answers come.

        The fallback is made from the same quantised row, so it is fixed as well.
        """
        rows = _rows(keys)
        fallbacks = self._fallback.values(rows, goal).tolist()
        answers = pool.map(lambda row: self._answer(row, goal), rows)
        for key, answer, fallback in zip(keys, answers, fallbacks, strict=True):
            self._without_answer = 0 if answer is not None else self._without_answer + 1
            self.counters.fallbacks += answer is None
            if self._without_answer == self.config.give_up_after:
                _say_once(
                    f"the language model gave no answer for {self.config.give_up_after} states in a row: given up"
                )
            yield key, (fallback, "fallback") if answer is None else (answer, "model")

    def _answer(self, row: Array, goal: Hashable) -> float | None:
        given_up = self._without_answer >= self.config.give_up_after
        return None if given_up else self._client.score(messages(row, goal))

    def _keep(self, known: dict[bytes, float], found: Mapping[bytes, float]) -> None:
        """Remember scores within the bound; with a file, the oldest ones make room, for they can be read again."""
        known.update(found)
        excess = sum(map(len, self._known.values())) - self.config.remembered
        for scores in self._known.values():
            for key in list(itertools.islice(scores, max(excess, 0))):
                del scores[key]
                excess -= 1

    def _room(self) -> int:
        """States that may still be asked about; without a file, one that can't be remembered must not be asked."""
        if self._store is not None:
            return sys.maxsize
        return max(0, self.config.remembered - sum(map(len, self._known.values())))


@contextlib.contextmanager
def _cancelled_on_error(pool: ThreadPoolExecutor) -> Iterator[None]:
    """Don't ask the rest after an error or Ctrl-C."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _rows(keys: Sequence[bytes]) -> Array:
    """The rows (N, D) that stand for quantised states."""
    return dequantise(np.frombuffer(b"".join(keys), np.int32).reshape(len(keys), -1))


_SAID: set[str] = set()


def _say_once(text: str) -> None:
    if text not in _SAID:
        _SAID.add(text)
        _LOG.warning(text)
