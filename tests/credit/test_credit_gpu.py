"""The kernels on a GPU: at the benchmarks' shapes, beyond 2^31 elements, in CUDA graphs and under torch.compile."""

import dataclasses

import pytest
import torch
from credit_cases import FUNCTIONS, assert_same, call, make_case

from keygrasp.credit import Carry, gae, heuristics, launch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
SHAPES = (
    (1, 4096), (32, 4096), (32, 65536), (8, 32768), (16, 16384), (128, 4096), (128, 16384), (1024, 16384), (2048, 8192),
    (4096, 512), (16384, 64), (131072, 16), (1048576, 1),
)  # fmt: skip


def doubled(case):
    return dataclasses.replace(
        case, tensors={k: v.double() if v.is_floating_point() else v for k, v in case.tensors.items()}
    )


@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize(("steps", "rows"), SHAPES)
def test_every_function_at_the_shapes_of_the_benchmarks(steps, rows, layout):
    case = make_case(steps, rows, device="cuda", layout=layout, actions=2, rate=0.01)
    for name in FUNCTIONS:
        torch.cuda.empty_cache()
        carry, expected_carry = Carry(), Carry()
        expected = call(name, doubled(case), "torch", expected_carry)
        assert_same(call(name, case, "triton", carry), expected, 2e-5, f"{name} {steps}x{rows} {layout}")
        assert_same([carry.value], [expected_carry.value], 2e-5, f"carry of {name}")


@pytest.mark.parametrize("layout", ["plain", "transposed"])
@pytest.mark.parametrize(("steps", "rows"), SHAPES[-4:])
def test_parts_that_look_back(steps, rows, layout, monkeypatch):
    """Right, and the same bits each time: alone, in a graph, and beside the same calls on other streams."""
    launch._plans.clear()
    monkeypatch.setattr(heuristics, "CHAINED", True)
    test_every_function_at_the_shapes_of_the_benchmarks(steps, rows, layout)
    case = make_case(steps, rows, device="cuda", layout=layout, actions=2, rate=0.01)
    expected = {name: call(name, case, "triton") for name in FUNCTIONS}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = {name: call(name, case, "triton") for name in FUNCTIONS}
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(10):
        graph.replay()
        torch.cuda.synchronize()
        every = [found]
        for stream in streams:
            with torch.cuda.stream(stream):
                every.append({name: call(name, case, "triton") for name in FUNCTIONS})
        torch.cuda.synchronize()
        for one in every:
            for name in FUNCTIONS:
                assert all(torch.equal(a, b) for a, b in zip(one[name], expected[name], strict=True)), name
    launch._plans.clear()


@pytest.mark.parametrize("seed", range(12))
def test_odd_shapes_layouts_masks_and_parameters(seed):
    generator = torch.Generator().manual_seed(seed)
    steps, rows = (int(torch.randint(1, 700, (), generator=generator)) for _ in range(2))
    case = make_case(
        steps, rows, device="cuda", seed=seed, time_dim=seed % 2, layout=("plain", "transposed", "strided")[seed % 3],
        masked=seed % 4 > 1, dense=seed % 5 > 2, tensor_parameters=seed % 7 > 3,
        flags=(torch.bool, torch.uint8)[seed % 2],
    )  # fmt: skip
    for name in FUNCTIONS:
        assert_same(call(name, case, "triton"), call(name, doubled(case), "torch"), 2e-5, f"{name} {steps}x{rows}")


@pytest.mark.parametrize("time_dim", [0, 1])
def test_more_elements_than_32_bits_can_count(time_dim):
    steps, rows = 32768, 70000
    shape = (steps, rows) if time_dim == 0 else (rows, steps)
    ones = torch.ones(shape, dtype=torch.bfloat16, device="cuda")
    done = torch.zeros(shape, dtype=torch.bool, device="cuda")
    last = torch.zeros(rows, dtype=torch.bfloat16, device="cuda")
    found = gae(ones, ones, done, gamma=0.5, lam=0.5, last_value=last, time_dim=time_dim, returns=False).advantages
    expected = torch.tensor(2 / 3, dtype=torch.bfloat16, device="cuda")
    early = found.narrow(time_dim, 0, steps - 16)
    assert early.eq(expected).all()
    assert found.select(time_dim, steps - 1).eq(0).all()


def test_a_cuda_graph_takes_the_calls():
    case = make_case(128, 512, device="cuda")
    expected = {name: call(name, case, "triton") for name in FUNCTIONS}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = {name: call(name, case, "triton") for name in FUNCTIONS}
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        for name in FUNCTIONS:
            assert all(torch.equal(one, other) for one, other in zip(found[name], expected[name], strict=True))


@pytest.mark.parametrize("backend", ["torch", "triton"])
def test_torch_compile_takes_the_calls_without_a_graph_break(backend):
    case = make_case(16, 64, device="cuda")
    compiled = torch.compile(lambda: call("gae", case, backend), fullgraph=True)
    assert_same(compiled(), call("gae", case, "reference"), 1e-4)


def test_gradients_are_those_of_the_reference():
    grads = []
    for backend in ("triton", "reference"):
        case = make_case(40, 16, device="cuda")
        case["values"].requires_grad_()
        case["rewards"].requires_grad_()
        sum(tensor.square().sum() for tensor in call("vtrace", case, backend)).backward()
        grads.append([case["values"].grad, case["rewards"].grad])
    assert_same(*grads, 1e-4)


def test_the_same_call_gives_the_same_bits():
    for steps, rows in ((128, 4096), (131072, 16)):
        case = make_case(steps, rows, device="cuda")
        first, second = call("gae", case, "triton"), call("gae", case, "triton")
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_another_stream_is_respected():
    case = make_case(64, 256, device="cuda")
    expected = call("gae", case, "triton")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(1_000_000)
        case["rewards"].mul_(2.0)
        found = call("gae", case, "triton")
        case["rewards"].mul_(0.5)
    stream.synchronize()
    assert not torch.equal(found[0], expected[0])
