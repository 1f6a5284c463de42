"""Identities between the estimators."""

import pytest
import torch
from credit_cases import BACKENDS, make_case

from keygrasp import credit

pytestmark = pytest.mark.parametrize("backend", ["reference", *BACKENDS])


@pytest.fixture
def case():
    return make_case(13, 4, seed=3)


def successors(case):
    return {"last_value": case["last"], "truncated_values": case["cut"]}


def flags(case):
    return case["terminated"], case["truncated"]


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_gae_with_lambda_one_is_the_monte_carlo_return(case, backend):
    found = credit.gae(case["rewards"], case["values"], *flags(case), lam=1.0, backend=backend, **successors(case))
    same(found.returns, credit.discounted_returns(case["rewards"], *flags(case), backend=backend, **successors(case)))


def test_gae_and_td_lambda_differ_by_the_values(case, backend):
    found = credit.gae(case["rewards"], case["values"], *flags(case), backend=backend, **successors(case))
    expected = credit.td_lambda_returns(
        case["rewards"], *flags(case), values=case["values"], backend=backend, **successors(case)
    )
    same(found.returns, expected)


def test_td_lambda_with_lambda_zero_is_the_one_step_target(case, backend):
    found = credit.td_lambda_returns(case["rewards"], *flags(case), lam=0.0, next_values=case["next"], backend=backend)
    alive = (~case["terminated"]).float()
    same(found, case["rewards"] + 0.99 * alive * case["next"])


def test_vtrace_on_policy_is_td_one(case, backend):
    logs = case["log_probs"]
    found = credit.vtrace(
        case["rewards"], case["values"], logs, logs, *flags(case), backend=backend, **successors(case)
    )
    same(found.targets, credit.discounted_returns(case["rewards"], *flags(case), backend=backend, **successors(case)))


def test_retrace_on_policy_with_lambda_one_is_the_return(case, backend):
    """With E Q(s', .) = Q(s', a') between the ends, the corrections telescope to the return."""
    q = case["values"]
    following = torch.where(case["truncated"], case["cut"], torch.cat((q[1:], case["last"].unsqueeze(0))))
    logs = case["log_probs"]
    found = credit.retrace(case["rewards"], q, following, logs, logs, *flags(case), backend=backend)
    same(found.targets, credit.discounted_returns(case["rewards"], *flags(case), backend=backend, **successors(case)))


def test_traces_without_decay_are_prefix_sums(case, backend):
    found = credit.eligibility_traces(case["rewards"], *flags(case), gamma=1.0, lam=1.0, backend=backend)
    same(found, credit.episodic_prefix_sum(case["rewards"], *flags(case), backend=backend))


def test_constant_parameters_as_tensors_are_the_numbers(case, backend):
    whole = torch.full_like(case["rewards"], 0.99)
    one = credit.gae(
        case["rewards"],
        case["values"],
        *flags(case),
        gamma=whole,
        lam=torch.tensor(0.95),
        backend=backend,
        **successors(case),
    )
    other = credit.gae(case["rewards"], case["values"], *flags(case), backend=backend, **successors(case))
    same(one.advantages, other.advantages)
