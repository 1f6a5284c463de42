"""Parts that look back: the rules of the other tests hold across them, and so does the order in which they publish."""

import math

import pytest
import test_credit_boundaries as boundaries
import test_credit_equality as equality
import torch
import triton
import triton.language as tl
from credit_cases import assert_same, call, make_case

from keygrasp.credit import kernels, launch, parts
from keygrasp.credit.heuristics import Tiling, choose_tiling, choose_window
from keygrasp.credit.problem import Inputs, Kind, Numbers, Wanted

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU, test_credit_gpu.py has larger ones")


@pytest.fixture
def stages(monkeypatch):
    """Every call in tiles of two steps, each a part; the stages that were launched."""
    launch._plans.clear()
    monkeypatch.setattr(launch, "choose_tiling", lambda *_, **__: Tiling(2, 2, 1, window=2))
    found = []
    first_run = launch._first_run
    monkeypatch.setattr(launch, "_first_run", lambda *given: found.append(given[0].constants[2]) or first_run(*given))
    yield found
    launch._plans.clear()


@pytest.mark.parametrize("name", ["vtrace", "retrace_actions", "prefix_sum"])
def test_packed_trajectories_give_what_each_gives_alone(name, stages):
    equality.test_packed_trajectories_give_what_each_gives_alone(name, "triton")
    assert {kernels.CLEAR.value, kernels.CHAIN.value} <= set(stages)


@pytest.mark.parametrize("name", ["vtrace", "retrace", "traces"])
def test_a_carry_goes_in_and_out(name, stages):
    case = make_case(7, 2, time_dim=1, seed=4)
    whole, end = equality.Carry(), equality.Carry()
    expected = call(name, case, "reference", whole)
    order = ((0, 4), (4, 7)) if name == "traces" else ((4, 7), (0, 4))
    found = [call(name, case.piece(*part), "triton", end) for part in order]
    if name != "traces":
        found.reverse()
    for position, one in enumerate(expected):
        assert_same([torch.cat([piece[position] for piece in found], dim=1)], [one])
    assert_same([end.value], [whole.value])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_stays_behind_an_end(bad, stages):
    boundaries.test_fault_nan_of_the_next_episode_poisons_the_one_before("triton", bad)


@pytest.mark.parametrize("function", [boundaries.vtrace, boundaries.retrace])
def test_an_advantage_needs_the_state_of_the_next_part(function, stages):
    boundaries.test_fault_truncated_advantage_uses_the_target_of_the_next_trajectory("triton", function)
    boundaries.test_vtrace_at_both_kinds_of_end("triton")


@pytest.mark.parametrize("bits", [-1, 0x7FC00000, 0x7F800000, 0, -(1 << 31)])
def test_every_factor_can_be_published(bits, stages):
    """Also the NaN of all ones, whose word would be the one that says that nothing has been published."""
    u, v = torch.arange(1.0, 9.0)[:, None], torch.full((8, 1), 0.5)
    v[4] = torch.tensor([bits], dtype=torch.int32).view(torch.float32)
    found = launch.solve(Kind.LINEAR_FORWARD, Inputs(u, v), Numbers(), Wanted())[0]
    state, expected = 0.0, []
    for one, factor in zip(u[:, 0].tolist(), v[:, 0].tolist(), strict=True):
        state = one if factor == 0 else one + factor * state
        expected.append(state)
    torch.testing.assert_close(found[:, 0], torch.tensor(expected), equal_nan=True)


def test_what_was_not_published_gives_nan(stages, monkeypatch):
    monkeypatch.setattr(parts, "_publish", triton.jit(_publish_nothing))
    case = make_case(8, 2, rate=0.0)
    assert call("gae", case, "triton")[0][:6].isnan().all()


def _publish_nothing(place, u, v, keep):
    tl.static_assert(True)


def test_the_window_is_a_word_a_thread_or_the_square_root():
    assert choose_window(100, Tiling(1024, 1, 4)) == 128
    assert choose_window(1024, Tiling(1024, 1, 4)) == 128
    assert choose_window(1024, Tiling(128, 16, 8)) == 32
    assert choose_window(1025, Tiling(128, 16, 8)) == 64


def test_a_sequence_is_chained_only_if_asked_for(monkeypatch):
    shape = {"steps": 131072, "rows": 16, "time_contiguous": True}
    assert choose_tiling(Kind.GAE, **shape).window == 0
    monkeypatch.setattr("keygrasp.credit.heuristics.CHAINED", True)
    tiling = choose_tiling(Kind.GAE, **shape)
    assert tiling.window > 1
    assert tiling.parts * tiling.steps == 131072
    assert choose_tiling(Kind.VTRACE, 131072, 16, time_contiguous=False).window == 0  # two launches are faster
    assert choose_tiling(Kind.RETRACE, 131072, 16, time_contiguous=False, actions=4).window > 1
    assert choose_tiling(Kind.GAE, 1 << 26, 16, time_contiguous=True).window == 0  # too many to look back at
