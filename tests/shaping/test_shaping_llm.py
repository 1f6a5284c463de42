"""The language model's potential against a real HTTP server that misbehaves in every way that was reported."""

import dataclasses
import logging
import subprocess
import sys
import time

import numpy as np
import pytest
from chat_server import ChatServer, send, send_half, send_white_space
from hypothesis import given
from hypothesis import strategies as st

from keygrasp.errors import ConfigurationError, StorageError
from keygrasp.scene import SymbolicState, Task
from keygrasp.scene.symbols import dequantise, quantise
from keygrasp.shaping import RulePotential, ShapingTerm
from keygrasp.shaping.llm import LLMPotential, language_model_potential
from keygrasp.shaping.llm_cache import cache_key
from keygrasp.shaping.llm_client import LLMConfig
from keygrasp.shaping.llm_prompt import PROMPT_VERSION, parse_score

TASK = Task()
BASE = SymbolicState(
    object_x=0.0, object_y=0.0, object_z=0.03, object_yaw=0.0, object_length=0.1, object_width=0.04,
    object_height=0.06, object_shape="flat", object_colour="blue", gripper_x=0.3, gripper_y=0.0, gripper_z=0.1,
    gripper_yaw=0.0, gripper_width=0.08,
)  # fmt: skip


def rows(count):
    return np.stack([BASE.replace(gripper_x=0.3 - 0.01 * i).to_row() for i in range(count)])


@pytest.fixture
def ask(tmp_path):
    """Scores of some rows from a server that behaves as given, and the potential that asked."""
    opened = []

    def start(behave, count=1, **changes):
        server = ChatServer(behave).__enter__()
        settings = {"timeout": 2.0, "backoff": 0.01, "max_backoff": 0.05, **changes}
        config = LLMConfig(base_url=server.url, model="m", cache=tmp_path / "scores.db", **settings)
        potential = LLMPotential(config)
        opened.extend([server, potential])
        return potential.values(rows(count), TASK), potential, server

    yield start
    for thing in opened:
        thing.__exit__(None, None, None)


def rule_scores(count=1):
    return RulePotential().values(dequantise(quantise(rows(count))), TASK)


def test_a_good_server_is_asked_once_a_state_with_schema_and_temperature_0(ask):
    scores, potential, server = ask(lambda *_: '{"score": 0.25}', 3)
    assert scores.tolist() == [0.25] * 3
    assert potential.values(rows(3), TASK).tolist() == [0.25] * 3
    assert len(server.requests) == 3
    request = server.requests[0]
    assert request["temperature"] == 0
    assert request["response_format"]["json_schema"]["schema"]["required"] == ["score"]
    assert "gripper_x" in request["messages"][1]["content"]
    assert TASK.text() in request["messages"][1]["content"]
    counters = potential.counters
    assert (counters.calls, counters.answers, counters.cached, counters.tokens) == (3, 3, 3, 360)
    assert counters.malformed_rate == 0


@pytest.mark.parametrize(
    "content",
    [
        "about 0.7", "90%", "8/10", "Step 1 of 3: 0.4", '{"progress": 0.7}', '{"score": "0.7"}', '{"score": true}',
        '{"score": NaN}', '{"score": 0.7, "why": "near"}', '{"score": 0.1, "score": 0.9}', "[0.7]", "",
        'Sure! {"score": 0.7}', '```json\n{"score": 0.7}\n```', '{"score": 1e999}', " " * 40,
        '{"score": ' + "9" * 400 + "}",
    ],
)  # fmt: skip
def test_what_is_not_exactly_the_schema_gets_the_fallback_for_good(ask, content):
    """The server ignores the schema and answers 200, or puts text around the JSON."""
    scores, potential, server = ask(lambda *_: content)
    assert scores == rule_scores()
    assert potential.counters.malformed == 1
    assert potential.counters.malformed_rate == 1
    assert potential.values(rows(1), TASK) == scores
    assert len(server.requests) == 1


def test_an_answer_that_is_no_chat_completion_gets_the_fallback(ask):
    def behave(handler, number, request):
        send(handler, 200, {"choices": []} if number == 1 else ["?"])

    scores, potential, _ = ask(behave, 2, concurrency=1)
    assert scores.tolist() == rule_scores(2).tolist()
    assert potential.counters.malformed == 2


def test_scores_outside_the_range_are_clipped_and_counted(ask):
    answers = iter(['{"score": 1.5}', '{"score": -3}'])
    scores, potential, _ = ask(lambda *_: next(answers), 2, concurrency=1)
    assert scores.tolist() == [1.0, 0.0]
    assert potential.counters.clipped == 2


@pytest.mark.parametrize("pause", [0.0, 0.2], ids=["fast", "slow"])
def test_endless_white_space_ends(ask, pause):
    """Fast, it meets the size limit; slow, the deadline of the whole answer: each byte comes in time."""
    begin = time.monotonic()
    size = 1 << 14 if pause == 0 else 1
    timeout = 2.0 if pause == 0 else 0.5
    scores, potential, _ = ask(lambda h, *_: send_white_space(h, 20, size, pause), attempts=1, timeout=timeout)
    assert time.monotonic() - begin < 8
    assert scores == rule_scores()
    assert set(potential.counters.failures) == {"endless answer" if pause == 0 else "time-out"}


def test_a_time_out_is_tried_again_and_then_falls_back_for_good(ask):
    def behave(handler, number, request):
        time.sleep(0.6)
        return '{"score": 0.5}'

    config = {"attempts": 2}
    server = ChatServer(behave)
    with server:
        potential = LLMPotential(LLMConfig(base_url=server.url, timeout=0.2, backoff=0.01, max_backoff=0.05, **config))
        with potential:
            assert potential.values(rows(1), TASK) == rule_scores()
            assert potential.values(rows(1), TASK) == rule_scores()
    assert potential.counters.failures["time-out"] == 2
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_or_broken_server_is_asked_again(ask, status):
    def behave(handler, number, request):
        if number > 2:
            return '{"score": 0.5}'
        return send(handler, status, {"error": {"message": "later"}}, [("Retry-After", "0.02")])

    scores, potential, server = ask(behave)
    assert scores == 0.5
    assert potential.counters.calls == 3
    assert potential.counters.failures[f"status {status}"] == 2


def test_a_pause_that_the_server_asks_for_is_bounded(ask):
    def behave(handler, number, request):
        if number > 1:
            return '{"score": 0.5}'
        return send(handler, 429, {}, [("Retry-After", "3600")])

    begin = time.monotonic()
    assert ask(behave)[0] == 0.5
    assert time.monotonic() - begin < 5


def test_half_an_answer_is_asked_for_again(ask):
    def behave(handler, number, request):
        return send_half(handler) if number == 1 else '{"score": 0.5}'

    scores, potential, _ = ask(behave)
    assert scores == 0.5
    assert potential.counters.failures["connection"] == 1


def test_another_score_for_the_same_state_changes_nothing(ask):
    scores, potential, server = ask(lambda h, number, r: f'{{"score": 0.{number}}}')
    assert scores == 0.1
    assert potential.values(rows(1), TASK) == 0.1
    other = LLMPotential(potential.config)  # another process with the same cache
    with other:
        assert other.values(rows(1), TASK) == 0.1
    assert len(server.requests) == 1


def test_the_first_of_two_processes_decides(ask, tmp_path):
    scores, potential, _ = ask(lambda *_: '{"score": 0.1}')
    key = cache_key("m", PROMPT_VERSION, quantise(rows(1)).tobytes(), repr(TASK))
    assert potential._store.add({key: (0.9, "model")}) == {key: 0.1}


def test_a_fallback_is_stored_for_good_even_when_the_server_recovers(ask):
    answers = iter(["nonsense", '{"score": 0.9}', '{"score": 0.9}'])
    scores, potential, _ = ask(lambda *_: next(answers))
    assert scores == rule_scores()
    with LLMPotential(potential.config) as other:
        assert other.values(rows(1), TASK) == rule_scores()


def test_the_budget_of_calls_and_of_tokens_is_kept(ask):
    scores, potential, server = ask(lambda *_: '{"score": 0.5}', 6, max_calls=4, concurrency=1)
    assert len(server.requests) == 4
    assert scores[:4].tolist() == [0.5] * 4
    assert scores[4:].tolist() == rule_scores(6)[4:].tolist()


def test_the_budget_of_tokens_is_kept(ask):
    _, potential, server = ask(lambda *_: '{"score": 0.5}', 6, max_tokens=300, concurrency=1)
    assert len(server.requests) == 3  # 120 tokens each: the third goes over, the fourth isn't sent
    assert potential.counters.fallbacks == 3


def test_no_more_requests_at_once_than_allowed(ask):
    def behave(*_):
        time.sleep(0.05)
        return '{"score": 0.5}'

    _, _, server = ask(behave, 12, concurrency=3)
    assert 2 <= server.most_at_once <= 3


def test_equal_states_in_a_batch_are_asked_about_once(ask):
    with ChatServer(lambda *_: '{"score": 0.5}') as server, LLMPotential(LLMConfig(base_url=server.url)) as potential:
        near = np.repeat(rows(1), 5, axis=0) + np.linspace(0, 1e-5, 5)[:, None]
        assert potential.values(near, TASK).tolist() == [0.5] * 5
        assert len(server.requests) == 1


def test_another_goal_is_another_question(ask):
    _, potential, server = ask(lambda *_: '{"score": 0.5}')
    potential.values(rows(1), Task("reach"))
    assert len(server.requests) == 2


def test_a_wrong_key_is_said_and_nothing_is_stored(ask):
    with pytest.raises(ConfigurationError, match="401"):
        ask(lambda h, *_: send(h, 401, {"error": {"message": "no"}}))


def test_a_dead_server_is_given_up_after_a_while(caplog):
    config = LLMConfig(base_url="http://127.0.0.1:9/v1", attempts=1, give_up_after=3, timeout=1.0, concurrency=1)
    with LLMPotential(config) as potential:
        for i in range(6):
            assert potential.values(rows(6)[i : i + 1], TASK) == rule_scores(6)[i]
    assert potential.counters.calls == 3
    assert potential.counters.fallbacks == 6


def test_without_an_endpoint_the_rules_are_used_and_that_is_said_once(monkeypatch, caplog):
    for name in ("KEYGRASP_LLM_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("keygrasp.shaping.llm._SAID", set())
    with caplog.at_level(logging.WARNING):
        assert isinstance(language_model_potential(), RulePotential)
        assert isinstance(language_model_potential(), RulePotential)
    assert caplog.text.count("rule-based progress is used") == 1


def test_the_endpoint_may_come_from_the_environment(monkeypatch):
    with ChatServer(lambda *_: '{"score": 0.5}') as server:
        monkeypatch.setenv("KEYGRASP_LLM_URL", server.url)
        potential = language_model_potential()
        with potential:
            assert potential.values(rows(1), TASK) == 0.5


def test_memory_stays_bounded_and_scores_stay_what_they_were(ask):
    scores, potential, server = ask(lambda h, number, r: f'{{"score": 0.{number}}}', 6, remembered=4, concurrency=1)
    assert sum(map(len, potential._known.values())) == 4
    assert potential.values(rows(6), TASK).tolist() == scores.tolist()
    assert len(server.requests) == 6


def test_without_a_file_states_beyond_the_memory_get_the_fallback_always():
    server = ChatServer(lambda h, number, r: f'{{"score": 0.{number}}}')
    with server, LLMPotential(LLMConfig(base_url=server.url, remembered=4, concurrency=1)) as potential:
        first = potential.values(rows(6), TASK).tolist()
        assert potential.values(rows(6), TASK).tolist() == first
        assert first[4:] == rule_scores(6)[4:].tolist()
        assert sum(map(len, potential._known.values())) <= 4


def test_a_damaged_cache_is_named(tmp_path):
    path = tmp_path / "scores.db"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageError, match=r"scores\.db"):
        LLMPotential(LLMConfig(base_url="http://127.0.0.1:9/v1", cache=path))


def test_shaping_with_the_model_never_asks_about_terminal_states(ask):
    _, potential, server = ask(lambda *_: '{"score": 0.5}')
    term = ShapingTerm(potential, 0.9)
    term.reset(rows(1), [TASK])
    step = term.step(rows(2)[1:], [True], [False])
    assert step.shaping == pytest.approx(-0.5)
    assert len(server.requests) == 1


@given(st.text(max_size=40))
def test_no_text_makes_the_parser_fail(text):
    score = parse_score(text)
    assert score is None or np.isfinite(score)


@given(st.floats(0, 1))
def test_a_score_in_the_schema_is_read_to_the_bit(score):
    assert parse_score(f'{{"score": {score!r}}}') == score


def test_settings_out_of_range_are_refused():
    for name in ("attempts", "concurrency", "timeout", "remembered"):
        with pytest.raises(ConfigurationError):
            dataclasses.replace(LLMConfig(), **{name: 0})


def test_the_room_needs_no_extra_to_be_imported():
    code = "import sys, keygrasp.shaping; print(sorted({'openai', 'gymnasium', 'sqlite_utils'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
