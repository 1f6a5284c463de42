"""Asking an OpenAI-compatible chat endpoint for one score, whatever the server does.

Works with the servers of llama.cpp, vLLM and Ollama. The whole answer has a deadline and a size limit, because a
server may send white space without end; the client's own time-outs only bound the wait for the next byte.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keygrasp.errors import ConfigurationError
from keygrasp.extras import require
from keygrasp.shaping.llm_prompt import SCHEMA, parse_score

#: Environment variables that name the endpoint where the configuration doesn't; the first that is set counts.
URL_VARIABLES = ("KEYGRASP_LLM_URL", "OPENAI_BASE_URL")
KEY_VARIABLE = "OPENAI_API_KEY"
#: Status codes after which the same request may succeed.
_TRANSIENT = frozenset({408, 409, 425, 429})
#: Status codes that no retry and no fallback mends: the configuration is wrong.
_REFUSED = frozenset({401, 403, 404})
#: What an answer must look like.
_FORMAT = {"type": "json_schema", "json_schema": {"name": "progress", "strict": True, "schema": SCHEMA}}
#: Bytes of an answer that are read.
_MAX_BYTES = 65_536
#: Characters a token, for servers that don't count.
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class LLMConfig:
    """The endpoint and how much it may be used.

    Attributes:
        base_url: The endpoint, such as ``http://localhost:8080/v1``; empty takes it from the environment.
        api_key: Its key; empty takes it from the environment. Local servers need none.
        model: The model's name there.
        cache: SQLite file of scores; ``None`` keeps them in memory alone.
        timeout: Seconds that one attempt may take in all.
        attempts: Attempts for one state.
        backoff: Seconds before the second attempt; doubled each time, times a random factor from 0.5 to 1.
        max_backoff: Longest pause in seconds, also where the server asks for more.
        concurrency: Requests under way at the same time. Twice what the server works on at once keeps it busy: the next
            request is there when an answer leaves.
        answer_tokens: Tokens that an answer may have.
        max_calls: Budget of requests; states beyond it get the fallback.
        max_tokens: Budget of tokens, prompts and answers together.
        give_up_after: States in a row without an answer after which no more are asked about.
        remembered: Scores kept in memory.
    """

    base_url: str = ""
    api_key: str = ""
    model: str = "default"
    cache: Path | None = None
    timeout: float = 20.0
    attempts: int = 3
    backoff: float = 0.5
    max_backoff: float = 10.0
    concurrency: int = 8
    answer_tokens: int = 32
    max_calls: int = 100_000
    max_tokens: int = 50_000_000
    give_up_after: int = 50
    remembered: int = 1_000_000

    def __post_init__(self) -> None:
        counts = (self.attempts, self.concurrency, self.answer_tokens, self.give_up_after, self.remembered)
        if min(counts) < 1 or min(self.max_calls, self.max_tokens) < 0:
            raise ConfigurationError("llm: attempts, concurrency, answer_tokens and the other counts must be positive")
        if not (self.timeout > 0 and 0 <= self.backoff <= self.max_backoff):
            raise ConfigurationError("llm: timeout must be positive and backoff at most max_backoff")

    def endpoint(self) -> str:
        """The endpoint's URL, empty where neither configuration nor environment name one."""
        return self.base_url or next((os.environ[name] for name in URL_VARIABLES if os.environ.get(name)), "")


@dataclass
class Counters:
    """What asking has cost and given; read it whenever you like.

    Attributes:
        cached: Scores that were known.
        calls: Requests sent.
        answers: States with a valid answer.
        malformed: Answers that were not one JSON object with a number.
        clipped: Scores outside [0, 1] that were clipped.
        fallbacks: States that got the fallback, for good.
        tokens: Tokens of prompts and answers.
        seconds: Seconds spent on requests, added up over those at the same time.
        failures: Failed attempts by reason.
    """

    cached: int = 0
    calls: int = 0
    answers: int = 0
    malformed: int = 0
    clipped: int = 0
    fallbacks: int = 0
    tokens: int = 0
    seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def malformed_rate(self) -> float:
        """Share of received answers that could not be used."""
        received = self.answers + self.malformed
        return self.malformed / received if received else 0.0


class _Failed(Exception):  # noqa: N818 - control flow within this file
    """An attempt failed: why, whether another one may help, and the pause that the server asks for."""

    def __init__(self, reason: str, *, again: bool, pause: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.again, self.pause = reason, again, pause


class ScoreClient:
    """Asks for scores; may be called from many threads.

    Args:
        config: The endpoint and the budget.
        counters: Where costs are counted.
        rng: Source of the jitter.
    """

    def __init__(self, config: LLMConfig, counters: Counters, rng: random.Random | None = None) -> None:
        openai = require("openai", "llm")
        self._config, self.counters = config, counters
        self._lock = threading.Lock()
        self._rng = rng or random.Random(0)
        self._status_error, self._timeout_error = openai.APIStatusError, openai.APITimeoutError
        self._client: Any = openai.OpenAI(
            base_url=config.endpoint(),
            api_key=config.api_key or os.environ.get(KEY_VARIABLE) or "none",
            timeout=config.timeout,
            max_retries=0,  # every attempt counts against the budget, so they are made here
        )

    def score(self, messages: list[dict[str, str]]) -> float | None:
        """The score in [0, 1] that the model gives, or ``None`` after the last attempt failed.

        Raises:
            ConfigurationError: If the server refuses key, address or model.
        """
        for attempt in range(self._config.attempts):
            if not self._take_call():
                return None
            begin = time.monotonic()
            try:
                return self._accepted(self._ask(messages))
            except _Failed as failed:
                with self._lock:
                    self.counters.failures[failed.reason] += 1
                if not failed.again or attempt + 1 == self._config.attempts:
                    return None
                pause = self._pause(attempt, failed.pause)
            finally:
                with self._lock:
                    self.counters.seconds += time.monotonic() - begin
            time.sleep(pause)
        return None

    def close(self) -> None:
        """Close connections."""
        self._client.close()

    def _take_call(self) -> bool:
        """Take one request from the budget; false where it is used up."""
        with self._lock:
            if self.counters.calls >= self._config.max_calls or self.counters.tokens >= self._config.max_tokens:
                self.counters.failures["budget"] += 1
                return False
            self.counters.calls += 1
            return True

    def _accepted(self, body: bytes) -> float:
        """The score of a chat completion's body, clipped."""
        try:
            answer = json.loads(body)
            content = answer["choices"][0]["message"]["content"]
            usage = answer.get("usage")
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise self._malformed("no chat completion") from None
        self._count_tokens(usage, len(body))
        score = parse_score(content) if isinstance(content, str) else None
        if score is None:
            raise self._malformed("no score")
        with self._lock:
            self.counters.answers += 1
            self.counters.clipped += not 0 <= score <= 1
        return min(max(score, 0.0), 1.0)

    def _malformed(self, reason: str) -> _Failed:
        # At temperature 0 the same question gives the same answer: asking again would only cost.
        with self._lock:
            self.counters.malformed += 1
        return _Failed(reason, again=False)

    def _count_tokens(self, usage: Any, size: int) -> None:
        total = usage.get("total_tokens") if isinstance(usage, dict) else None
        counted = total if isinstance(total, int) and total >= 0 else size // _CHARACTERS_A_TOKEN
        with self._lock:
            self.counters.tokens += counted

    def _ask(self, messages: list[dict[str, str]]) -> bytes:
        """The body of the server's answer.

        Raises:
            ConfigurationError: If the server refuses key, address or model.
        """
        deadline = time.monotonic() + self._config.timeout
        # As an extra body all of it is sent as it stands: walking through its types would cost the client more than
        # the rest of a request.
        body = {
            "messages": messages,
            "temperature": 0,
            "max_tokens": self._config.answer_tokens,
            "response_format": _FORMAT,
        }
        try:
            with self._client.chat.completions.with_streaming_response.create(
                model=self._config.model, messages=(), extra_body=body
            ) as response:
                return _bounded(response.iter_bytes(), deadline)
        except self._status_error as error:
            raise self._status_failure(error) from error
        except self._timeout_error as error:
            raise _Failed("time-out", again=True) from error
        except _Failed:
            raise
        except Exception as error:  # the transport's own types differ between versions of the client
            timed_out = "timeout" in type(error).__name__.lower()
            raise _Failed("time-out" if timed_out else "connection", again=True) from error

    def _status_failure(self, error: Any) -> Exception:
        status = int(error.status_code)
        if status in _REFUSED:
            return ConfigurationError(
                f"the language model's server answers {status} at {self._config.endpoint()}",
                f"Check base URL, model '{self._config.model}' and key",
            )
        pause = _seconds(error.response.headers.get("retry-after"))
        return _Failed(f"status {status}", again=status in _TRANSIENT or status >= 500, pause=pause)

    def _pause(self, attempt: int, asked: float | None) -> float:
        with self._lock:
            jitter = self._rng.uniform(0.5, 1.0)
        pause: float = self._config.backoff * 2.0**attempt * jitter
        return min(max(pause, asked or 0.0), self._config.max_backoff)


def _bounded(chunks: Any, deadline: float) -> bytes:
    """All bytes of an answer, unless there are too many or they take too long."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > _MAX_BYTES:
            raise _Failed("endless answer", again=False)
        if time.monotonic() > deadline:
            raise _Failed("time-out", again=True)
    return bytes(body)


def _seconds(text: str | None) -> float | None:
    """A Retry-After header in seconds; ``None`` where it is a date or nonsense."""
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None
