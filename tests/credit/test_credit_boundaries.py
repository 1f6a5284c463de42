"""Values worked out by hand for every rule at a boundary, and the faults that such code is known for, on all
backends."""

import math

import pytest
import torch

from keygrasp.credit import (
    Carry,
    discounted_returns,
    eligibility_traces,
    episodic_prefix_sum,
    gae,
    retrace,
    td_lambda_returns,
    vtrace,
)

BACKENDS = ("reference", "torch", "triton")
NAN = math.nan


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float32).unsqueeze(1)


def flags(*numbers):
    return torch.tensor(numbers, dtype=torch.bool).unsqueeze(1)


def row(number):
    return torch.tensor([number], dtype=torch.float32)


def check(found, *expected):
    torch.testing.assert_close(found, column(*expected))


pytestmark = pytest.mark.parametrize("backend", BACKENDS)
NONE = flags(0, 0, 0)
R, V = column(1, 2, 3), column(10, 20, 30)


def test_gae_goes_on_behind_the_window(backend):
    # δ = 1+.5*20-10, 2+.5*30-20, 3+.5*40-30 = 1, -3, -7; A = δ + .25 A'
    found = gae(R, V, NONE, gamma=0.5, lam=0.5, last_value=row(40), backend=backend)
    check(found.advantages, 1 + 0.25 * (-3 - 1.75), -3 - 1.75, -7)
    check(found.returns, 10 + 1 + 0.25 * (-3 - 1.75), 20 - 3 - 1.75, 30 - 7)


def test_gae_at_a_terminated_step(backend):
    found = gae(R, V, flags(0, 1, 0), gamma=0.5, lam=0.5, last_value=row(40), backend=backend)
    check(found.advantages, 1 + 0.25 * (2 - 20), 2 - 20, -7)


def test_gae_at_a_truncated_step(backend):
    cut = column(NAN, 50, NAN)  # read at the truncated step only
    found = gae(
        R, V, NONE, flags(0, 1, 0), gamma=0.5, lam=0.5, last_value=row(40), truncated_values=cut, backend=backend
    )
    check(found.advantages, 1 + 0.25 * (2 + 25 - 20), 2 + 25 - 20, -7)


def test_gae_with_dense_successors(backend):
    found = gae(R, V, NONE, flags(0, 1, 0), gamma=0.5, lam=0.5, next_values=column(20, 50, 40), backend=backend)
    check(found.advantages, 1 + 0.25 * 7, 7, -7)


def test_the_last_transition_counts_when_it_is_flagged_too(backend):
    found = gae(R, V, flags(0, 0, 1), gamma=0.5, lam=0.5, last_value=row(NAN), backend=backend)
    check(found.advantages, 1 + 0.25 * (-3 + 0.25 * -27), -3 + 0.25 * -27, -27)


def test_vtrace_by_hand(backend):
    # ratios 2, .5, 1 clipped at 1 -> ρ = c = 1, .5, 1; δ as in GAE times ρ; x = ρδ + .5 c x'
    logs, zero = column(2, 0.5, 1).log(), column(0, 0, 0)
    found = vtrace(R, V, logs, zero, NONE, gamma=0.5, last_value=row(40), backend=backend)
    x2, x1 = -7, -1.5 + 0.25 * -7
    x0 = 1 + 0.5 * x1
    check(found.targets, 10 + x0, 20 + x1, 30 + x2)
    check(found.advantages, 1 + 0.5 * (20 + x1) - 10, 0.5 * (2 + 0.5 * (30 + x2) - 20), 3 + 20 - 30)


def test_vtrace_at_both_kinds_of_end(backend):
    zero = column(0, 0, 0)
    cut = column(50, NAN, NAN)
    found = vtrace(
        R,
        V,
        zero,
        zero,
        flags(0, 1, 0),
        flags(1, 0, 0),
        gamma=0.5,
        last_value=row(40),
        truncated_values=cut,
        backend=backend,
    )
    check(found.targets, 1 + 25, 2, 23)
    check(found.advantages, 1 + 25 - 10, 2 - 20, -7)


def test_retrace_by_hand(backend):
    # c = .5 min(1, ratio) = .5, .25, .5; x = r + .5 E - q + .5 c' x'
    logs, zero = column(2, 0.5, 1).log(), column(0, 0, 0)
    expected = column(20, 30, 40)
    found = retrace(R, V, expected, logs, zero, NONE, gamma=0.5, lam=0.5, backend=backend)
    x2 = -7
    x1 = -3 + 0.5 * 0.5 * x2
    x0 = 1 + 0.5 * 0.25 * x1
    check(found.targets, 10 + x0, 20 + x1, 30 + x2)
    check(found.advantages, x0, 0.5 * x1, x2)


def test_retrace_takes_the_expectation_itself(backend):
    zero = column(0, 0, 0)
    q = torch.tensor([[[10.0, 30.0]], [[0.0, 60.0]], [[40.0, NAN]]])
    q[2, 0, 1] = 40
    probs = torch.tensor([[[0.5, 0.5]], [[0.5, 0.5]], [[0.25, 0.75]]])
    found = retrace(R, V, q, zero, zero, NONE, next_probs=probs, gamma=0.5, backend=backend)
    same = retrace(R, V, column(20, 30, 40), zero, zero, NONE, gamma=0.5, backend=backend)
    torch.testing.assert_close(found.targets, same.targets)


def test_td_lambda_by_hand(backend):
    found = td_lambda_returns(R, NONE, gamma=0.5, lam=0.5, values=V, last_value=row(40), backend=backend)
    g2 = 3 + 20
    g1 = 2 + 0.25 * 30 + 0.25 * g2
    check(found, 1 + 0.25 * 20 + 0.25 * g1, g1, g2)


def test_td_lambda_at_both_kinds_of_end(backend):
    found = td_lambda_returns(
        R, flags(0, 1, 0), flags(1, 0, 0), gamma=0.5, lam=0.5, values=V, last_value=row(40),
        truncated_values=column(50, NAN, NAN), backend=backend,
    )  # fmt: skip
    check(found, 1 + 25, 2, 23)


def test_discounted_returns_by_hand(backend):
    found = discounted_returns(
        R,
        flags(0, 1, 0),
        flags(1, 0, 0),
        gamma=0.5,
        last_value=row(40),
        truncated_values=column(50, NAN, NAN),
        backend=backend,
    )
    check(found, 1 + 25, 2, 3 + 20)


def test_discounted_returns_from_a_number(backend):
    check(discounted_returns(R, NONE, gamma=0.5, last_value=0.0, backend=backend), 1 + 1 + 0.75, 2 + 1.5, 3)


def test_traces_start_afresh_after_a_done_step_not_at_it(backend):
    ones = column(1, 1, 1)
    check(eligibility_traces(ones, flags(0, 1, 0), gamma=0.9, lam=1.0, backend=backend), 1, 1.9, 1)
    check(eligibility_traces(ones, NONE, flags(0, 1, 0), gamma=0.9, lam=1.0, backend=backend), 1, 1.9, 1)
    check(episodic_prefix_sum(R, flags(0, 1, 0), backend=backend), 1, 3, 3)


# ---- faults that such code is known for ----


@pytest.mark.parametrize("function", [vtrace, retrace])
def test_fault_truncated_advantage_uses_the_target_of_the_next_trajectory(backend, function):
    reward, value, zero = column(0, 0), column(1, 100), column(0, 0)
    cut = flags(1, 1)
    if function is vtrace:
        more = {"last_value": row(NAN), "truncated_values": value}
        found = vtrace(reward, value, zero, zero, flags(0, 0), cut, gamma=1.0, backend=backend, **more)
    else:
        found = retrace(reward, value, value, zero, zero, flags(0, 0), cut, gamma=1.0, backend=backend)
    check(found.advantages, 0, 0)


def test_fault_bootstrap_at_a_step_that_is_terminal_and_truncated(backend):
    both = flags(0, 1)
    values = column(NAN, 100)
    found = discounted_returns(
        column(1, 1), both, both, gamma=1.0, last_value=row(7), truncated_values=values, backend=backend
    )
    check(found, 2, 1)
    found = gae(
        column(1, 1),
        column(0, 0),
        both,
        both,
        gamma=1.0,
        lam=1.0,
        last_value=row(7),
        truncated_values=values,
        backend=backend,
    )
    check(found.advantages, 2, 1)


@pytest.mark.parametrize("bad", [NAN, math.inf])
def test_fault_nan_of_the_next_episode_poisons_the_one_before(backend, bad):
    reward, value, zero = column(1, 1, bad), column(0, 0, bad), column(0, 0, 0)
    done = flags(0, 1, 0)
    options = {"gamma": 1.0, "last_value": row(bad), "backend": backend}
    check(gae(reward, value, done, lam=1.0, **options).advantages[:2], 2, 1)
    check(discounted_returns(reward, done, **options)[:2], 2, 1)
    check(td_lambda_returns(reward, done, lam=0.5, values=value, **options)[:2], 1 + 0.5, 1)
    found = vtrace(reward, value, zero, zero, done, **options)
    check(found.targets[:2], 2, 1)
    check(found.advantages[:2], 2, 1)
    found = retrace(reward, value, column(0, bad, bad), zero, zero, done, gamma=1.0, backend=backend)
    check(found.targets[:2], 2, 1)
    traces = eligibility_traces(column(bad, 1, 1), flags(1, 0, 0), gamma=1.0, lam=1.0, backend=backend)
    check(traces[1:], 1, 2)


def test_fault_time_out_bootstraps_from_the_state_before_the_step(backend):
    found = discounted_returns(
        column(0), flags(0), flags(1), gamma=0.5, last_value=row(NAN), truncated_values=column(8), backend=backend
    )
    check(found, 4)


def test_fault_non_contiguous_views_give_other_numbers(backend):
    torch.manual_seed(0)
    reward, value = torch.randn(5, 4), torch.randn(5, 4)
    done = torch.rand(5, 4) < 0.3
    expected = gae(reward, value, done, last_value=value[0], backend=backend).advantages
    strided = torch.zeros(10, 12)[::2, ::3]
    strided.copy_(reward)
    found = gae(strided, value.T.contiguous().T, done.T.contiguous().T, last_value=value[0], backend=backend)
    torch.testing.assert_close(found.advantages, expected)
    rows = gae(reward.T, value.T, done.T, last_value=value[0], time_dim=1, backend=backend)
    torch.testing.assert_close(rows.advantages.T, expected)


def test_fault_last_column_is_left_at_zero(backend):
    found = gae(column(5), column(1), flags(0), gamma=0.5, lam=0.5, last_value=row(4), backend=backend)
    check(found.advantages, 5 + 2 - 1)


def test_fault_td_lambda_with_a_tensor_gamma(backend):
    gamma, lam = column(0.5, 0.9, 0.1), column(0.3, 0.6, 0.2)
    found = td_lambda_returns(R, NONE, gamma=gamma, lam=lam, values=V, last_value=row(40), backend=backend)
    g2 = 3 + 0.1 * 40
    g1 = 2 + 0.9 * (0.4 * 30 + 0.6 * g2)
    check(found, 1 + 0.5 * (0.7 * 20 + 0.3 * g1), g1, g2)


@pytest.mark.parametrize("bar", [1.0, math.inf])
def test_fault_large_log_ratio_overflows(backend, bar):
    logs = column(1000, 1000, -1000)
    found = vtrace(
        column(0, 0, 0),
        column(0, 0, 0),
        logs,
        -logs,
        flags(0, 1, 0),
        rho_bar=bar,
        c_bar=bar,
        last_value=row(0),
        backend=backend,
    )
    check(found.targets, 0, 0, 0)
    check(found.advantages, 0, 0, 0)


def test_fault_integer_rewards_give_integer_returns(backend):
    reward = torch.tensor([[1], [1]])
    found = discounted_returns(reward, flags(0, 0), gamma=0.5, last_value=1, backend=backend)
    check(found, 1.75, 1.5)


def test_masked_steps_are_as_if_they_were_not_there(backend):
    keep = flags(1, 0, 1, 1, 0)

    def spread(x, filler):
        return column(x[0], filler, x[1], x[2], filler)

    found = gae(
        spread((1, 2, 3), NAN), spread((10, 20, 30), NAN), flags(0, 1, 0, 0, 1), gamma=0.5, lam=0.5,
        last_value=row(40), mask=keep, backend=backend,
    )  # fmt: skip
    check(found.advantages, 1 + 0.25 * (-3 - 1.75), 0, -3 - 1.75, -7, 0)
    sums = episodic_prefix_sum(spread((1, 2, 3), NAN), flags(0, 1, 0, 0, 1), mask=keep, backend=backend)
    check(sums, 1, 0, 3, 6, 0)


def test_a_carry_of_a_finished_episode_has_no_influence(backend):
    carry = Carry()
    episodic_prefix_sum(column(1, 1), flags(0, 1), carry=carry, backend=backend)
    assert carry.value.tolist() == [0]
    check(episodic_prefix_sum(column(1, 1), flags(0, 0), carry=carry, backend=backend), 1, 2)
    assert carry.value.tolist() == [2]
