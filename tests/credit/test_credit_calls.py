"""What a call refuses, differentiates, registers and imports."""

import json
import math
import subprocess
import sys

import pytest
import torch
from credit_cases import FUNCTIONS, assert_same, call, make_case

from keygrasp.credit import discounted_returns, eligibility_traces, gae, retrace, td_lambda_returns, vtrace
from keygrasp.credit.heuristics import choose_tiling
from keygrasp.credit.problem import Kind
from keygrasp.errors import InputError

T, N = 4, 3
X = torch.ones(T, N)
DONE = torch.zeros(T, N, dtype=torch.bool)
LAST = torch.ones(N)


def run_gae(**changes):
    given = {"rewards": X, "values": X, "terminated": DONE, "last_value": LAST} | changes
    return gae(**given)


REFUSED = {
    "values has shape (4, 2), expected (4, 3)": lambda: run_gae(values=X[:, :2]),
    "terminated has shape (3, 3), expected (4, 3)": lambda: run_gae(terminated=DONE[:3]),
    "last_value has shape (4,), expected (3,)": lambda: run_gae(last_value=torch.ones(4)),
    "last_value has shape (3,), expected (4,)": lambda: run_gae(time_dim=1),
    "must be two-dimensional, but its shape is (4,)": lambda: run_gae(rewards=X[:, 0]),
    "terminated is torch.float32, expected torch.bool or torch.uint8": lambda: run_gae(terminated=DONE.float()),
    "values is torch.complex64": lambda: run_gae(values=X.to(torch.complex64)),
    "values is on meta": lambda: run_gae(values=X.to("meta")),
    "time_dim is 2": lambda: run_gae(time_dim=2),
    "gamma is 1.5": lambda: run_gae(gamma=1.5),
    "lam is nan": lambda: run_gae(lam=math.nan),
    "gamma has shape (2,)": lambda: run_gae(gamma=torch.ones(2)),
    "backend is 'cuda'": lambda: run_gae(backend="cuda"),
    "the value of the state after the window is missing": lambda: run_gae(last_value=None),
    "not the values of the states in which episodes were cut": lambda: run_gae(truncated=DONE),
    "next_values already holds": lambda: run_gae(next_values=X),
    "both values and next_values": lambda: td_lambda_returns(X, DONE, values=X, next_values=X),
    "the successors' values are missing": lambda: td_lambda_returns(X, DONE),
    "after the last step that counts": lambda: td_lambda_returns(X, DONE, next_values=X, mask=~DONE),
    "rho_bar is -1": lambda: vtrace(X, X, X, X, DONE, last_value=LAST, rho_bar=-1),
    "next_probs is missing": lambda: retrace(X, X, torch.ones(T, N, 2), X, X, DONE),
    "has no action dimension": lambda: retrace(X, X, X, X, X, DONE, next_probs=torch.ones(T, N, 2)),
    "next_probs has shape (4, 3, 1), expected (4, 3, 2)": lambda: retrace(
        X, X, torch.ones(T, N, 2), X, X, DONE, next_probs=torch.ones(T, N, 1)
    ),
    "an input is float64": lambda: run_gae(rewards=X.double(), backend="triton"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_the_argument_and_what_was_expected(message):
    with pytest.raises(InputError) as caught:
        REFUSED[message]()
    assert message in str(caught.value)


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_fault_a_mismatched_shape_is_read_out_of_bounds(backend):
    run_gae(backend=backend)  # also after a call whose plan is kept
    with pytest.raises(InputError, match="values has shape"):
        run_gae(values=torch.ones(T, N + 1), backend=backend)


@pytest.mark.parametrize("backend", ["reference", "torch", "triton"])
@pytest.mark.parametrize(("steps", "rows"), [(0, 3), (3, 0), (0, 0), (1, 1), (1, 3)])
def test_empty_and_single_sizes(backend, steps, rows):
    case = make_case(steps, rows)
    for name in FUNCTIONS:
        assert_same(call(name, case, backend), call(name, case, "reference"))


@pytest.mark.parametrize("backend", ["torch", "reference"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, backend):
    case = make_case(4, 2, dtype=torch.float64, tensor_parameters=True, seed=2, actions=2)
    names = [key for key, tensor in case.tensors.items() if tensor.is_floating_point()]
    parameters = [case.gamma.requires_grad_(), case.lam.requires_grad_()]
    inputs = [case[key].requires_grad_() for key in names]

    def results(*_):
        return tuple(call(name, case, backend))

    assert torch.autograd.gradcheck(results, (*inputs, *parameters))


def test_second_derivatives():
    case = make_case(4, 2, dtype=torch.float64)
    values = case["values"].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda *_: call("vtrace", case, "torch")[0], (values,))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_triton_gradients_are_those_of_the_reference(name):
    grads = []
    for backend in ("triton", "reference"):
        case = make_case(6, 2, masked=True)
        case["rewards"].requires_grad_()
        sum(tensor.square().sum() for tensor in call(name, case, backend)).backward()
        grads.append([case["rewards"].grad])
    assert_same(*grads)


def test_nan_beyond_an_end_has_no_gradient():
    reward = torch.tensor([[1.0], [math.nan]], requires_grad=True)
    gamma = torch.full((2, 1), 0.5, requires_grad=True)
    found = discounted_returns(reward, torch.tensor([[True], [False]]), gamma=gamma, last_value=0.0)
    found[0].sum().backward()
    assert reward.grad.tolist() == [[1.0], [0.0]]
    assert gamma.grad[0].tolist() == [0.0]


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "names"), [("torch", ("gae", "vtrace", "traces")), ("triton", ("vtrace",))])
def test_torch_compile_without_a_graph_break(backend, names):
    case = make_case(9, 3)
    torch._dynamo.reset()
    for name in names:
        compiled = torch.compile(lambda name=name: call(name, case, backend), fullgraph=True, backend="aot_eager")
        assert_same(compiled(), call(name, case, "reference"))


@pytest.mark.slow
def test_torch_compile_takes_gradients_and_carries():
    from keygrasp.credit import Carry

    case = make_case(9, 3)
    case["rewards"].requires_grad_()
    carry, expected = Carry(), Carry()
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, backend="aot_eager")
    def compiled():
        return call("gae", case, None, carry)[0].sum()

    compiled().backward()
    call("gae", case, "reference", expected)
    assert_same([carry.value.detach()], [expected.value.detach()])
    assert torch.isfinite(case["rewards"].grad).all()


def test_the_operators_keep_their_promises():
    u, v, carry = torch.randn(5, 2), torch.rand(5, 2), torch.randn(2)
    torch.library.opcheck(torch.ops.keygrasp.linear_scan, (u.requires_grad_(), v, carry, False, "torch"))
    inputs = [X, X, None, LAST, None, DONE, *[None] * 8]
    torch.library.opcheck(torch.ops.keygrasp.credit, (0, inputs, [0.9, 0.8, 1.0, 1.0, 1.0], 0, True, True, "torch"))


def test_fake_tensors_go_through_the_dispatcher():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        reward = torch.empty(7, 2)
        done = torch.empty(7, 2, dtype=torch.bool)
        found = eligibility_traces(reward, done, backend="triton")
    assert found.shape == (7, 2)


def test_importing_imports_torch_and_numpy_alone():
    code = (
        "import json, sys, torch; before = set(sys.modules); import keygrasp.credit; "
        "print(json.dumps([n for n in set(sys.modules) - before if not n.startswith('torch')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    new = {name for name in json.loads(done.stdout) if name.split(".")[0] not in sys.stdlib_module_names}
    new = {name for name in new if name.split(".")[0] != "numpy" and not name.startswith("keygrasp.credit")}
    assert new <= {"keygrasp", "keygrasp.errors"}


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("time_contiguous", [False, True])
def test_tilings_are_powers_of_two_of_bounded_size(kind, time_contiguous):
    for steps in (1, 3, 16, 100, 128, 1024, 4096, 5000, 131072, 1048576):
        for rows in (1, 16, 64, 512, 4096, 65536):
            for actions in (0, 4, 18):
                tiling = choose_tiling(kind, steps, rows, time_contiguous=time_contiguous, actions=actions)
                for size in (tiling.steps, tiling.rows, tiling.warps):
                    assert size >= 1
                    assert size & (size - 1) == 0
                assert tiling.steps * tiling.rows <= 512 * tiling.warps  # sixteen elements a thread
                assert 1 <= tiling.parts <= 1024
                assert tiling.warps <= 16


def test_few_long_rows_are_split_over_the_sequence():
    for rows, steps in ((16, 131072), (1, 1048576), (64, 16384)):
        tiling = choose_tiling(Kind.GAE, steps, rows, time_contiguous=True)
        assert tiling.parts * rows >= 132


def test_measured_tilings_are_the_ones_that_are_chosen():
    def cut(kind, rows, steps, contiguous, actions=0):
        found = choose_tiling(kind, steps, rows, time_contiguous=contiguous, actions=actions)
        return found.steps, found.rows, found.warps, found.parts, found.group

    assert cut(Kind.RETRACE, 16384, 1024, False, 4) == (16, 32, 8, 1, 2)
    assert cut(Kind.RETRACE, 8192, 2048, False, 4) == (16, 32, 8, 1, 2)
    assert cut(Kind.RETRACE, 16, 131072, False, 4) == (16, 16, 4, 512, 2)
    assert cut(Kind.VTRACE, 16, 131072, False) == (32, 16, 8, 512, 2)
    assert cut(Kind.GAE, 16, 131072, False) == (64, 16, 4, 512, 8)
    assert cut(Kind.GAE, 1, 1048576, True) == (1024, 1, 8, 512, 4)
