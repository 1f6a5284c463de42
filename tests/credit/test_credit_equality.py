"""Every backend gives what the reference gives, over shapes, memory layouts, types, flags and parameters."""

import dataclasses
import itertools

import pytest
import torch
from credit_cases import BACKENDS, FORWARD, FUNCTIONS, assert_same, call, make_case
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.credit import Carry, gae, launch
from keygrasp.credit.heuristics import Tiling


@st.composite
def cases(draw, most=12, most_rows=5):
    return make_case(
        draw(st.integers(0, most)),
        draw(st.integers(0, most_rows)),
        time_dim=draw(st.sampled_from([0, 1])),
        seed=draw(st.integers(0, 1000)),
        flags=draw(st.sampled_from([torch.bool, torch.uint8])),
        layout=draw(st.sampled_from(["plain", "transposed", "strided"])),
        tensor_parameters=draw(st.booleans()),
        dense=draw(st.booleans()),
        masked=draw(st.booleans()),
        truncations=draw(st.booleans()),
    )


@pytest.mark.parametrize("name", FUNCTIONS)
@given(case=cases())
@settings(max_examples=15, deadline=None)
def test_torch_is_the_reference(name, case):
    expected_carry, carry = Carry(), Carry()
    expected = call(name, case, "reference", expected_carry)
    assert_same(call(name, case, "torch", carry), expected)
    assert_same([carry.value], [expected_carry.value])


@pytest.mark.parametrize("name", FUNCTIONS)
@given(case=cases(most_rows=3))
@settings(max_examples=3, deadline=None)
def test_triton_is_the_reference(name, case):
    expected_carry, carry = Carry(), Carry()
    expected = call(name, case, "reference", expected_carry)
    assert_same(call(name, case, "triton", carry), expected)
    assert_same([carry.value], [expected_carry.value])


@pytest.mark.parametrize("name", FUNCTIONS)
@given(case=cases(most=150))
@settings(max_examples=3, deadline=None)
def test_torch_in_blocks_is_the_reference(name, case):
    assert_same(call(name, case, "torch"), call(name, case, "reference"))


@pytest.mark.parametrize("layout", ["plain", "transposed", "strided"])
@pytest.mark.parametrize("name", ["gae", "td_lambda", "discounted"])
def test_many_rows_step_by_step_are_the_reference(name, layout):
    for seed, (time_dim, dense, truncations) in enumerate(itertools.product((0, 1), (False, True), (False, True))):
        case = make_case(6, 513, time_dim=time_dim, layout=layout, seed=seed, dense=dense, truncations=truncations)
        expected_carry, carry = Carry(), Carry()
        expected = call(name, case, "reference", expected_carry)
        assert_same(call(name, case, "torch", carry), expected)
        assert_same([carry.value], [expected_carry.value])


def test_nan_beyond_an_end_stays_there_in_many_rows():
    done = torch.zeros(3, 600, dtype=torch.bool)
    done[1] = True
    rewards, values = torch.ones(3, 600), torch.ones(3, 600)
    rewards[2] = values[2] = torch.nan
    for name in ("terminated", "truncated"):
        flags = {"terminated": torch.zeros_like(done), "truncated": torch.zeros_like(done), name: done}
        found = gae(rewards, values, **flags, last_value=torch.ones(600), truncated_values=values[:1].expand(3, 600))
        assert found.advantages[:2].isfinite().all()
        assert found.advantages[2].isnan().all()


#: Between them: one part and several, more parts than there are tiles, rows in one block and in several, loads one by
#: one and in groups, parts that look back within one group and over several. A single tile is what small inputs get
#: anyway (above).
TILINGS = (
    Tiling(8, 2, 1), Tiling(4, 4, 1, 3), Tiling(4, 4, 2, 5, group=4), Tiling(8, 4, 1, 2, group=2),
    Tiling(4, 2, 1, window=4), Tiling(4, 4, 2, group=4, window=2), Tiling(2, 4, 1, group=2, window=2),
)  # fmt: skip


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_way_to_cut_the_work_up_gives_the_same(name, tiling, monkeypatch):
    launch._plans.clear()
    monkeypatch.setattr(launch, "choose_tiling", lambda *_, **__: tiling)
    layout = "transposed" if tiling.group == 2 else "plain"
    case = make_case(12, 3, time_dim=1, layout=layout, dense=tiling.parts == 3, actions=tiling.group)
    expected_carry, carry = Carry(), Carry()
    expected = call(name, case, "reference", expected_carry)
    found = call(name, case, "triton", carry)
    launch._plans.clear()
    assert_same([*found, carry.value], [*expected, expected_carry.value])


def four_actions(steps, rows, stride, first, time_dim):
    """[T, N, 4] or [N, T, 4] in one piece of memory, its steps ``stride`` elements apart from element ``first`` on."""
    shape = (steps, rows) if time_dim == 0 else (rows, steps)
    storage = torch.randn(first + steps * rows * stride, generator=torch.Generator().manual_seed(stride + first))
    return storage.as_strided((*shape, 4), (shape[1] * stride, stride, 1), first)


#: Stride of a step, first element, and how many of four actions are read at once: what divides the stride, whatever the
#: address of the first element, which the compiler looks at by itself.
ALIGNMENTS = ((4, 0, 4), (8, 0, 4), (6, 0, 2), (5, 0, 1), (4, 1, 4), (5, 1, 1))


@pytest.mark.parametrize(("name", "time_dim"), [("next_q", 0), ("probs", 1)])
@pytest.mark.parametrize(("stride", "first", "at_once"), ALIGNMENTS)
def test_actions_are_read_at_once_only_where_strides_allow(stride, first, at_once, name, time_dim, monkeypatch):
    launch._plans.clear()
    blocks = []
    rule = launch._actions_at_once
    monkeypatch.setattr(launch, "_actions_at_once", lambda *given: blocks.append(rule(*given)) or blocks[-1])
    case = make_case(8, 3, time_dim=time_dim, actions=4)
    case.tensors[name] = four_actions(8, 3, stride, first, time_dim)
    assert_same(call("retrace_actions", case, "triton"), call("retrace_actions", case, "reference"))
    assert set(blocks) == {at_once}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_floats_are_accumulated_in_float32(backend, dtype):
    case = make_case(9, 4, dtype=dtype)
    wide = dataclasses.replace(
        case, tensors={k: v.float() if v.is_floating_point() else v for k, v in case.tensors.items()}
    )
    for name in FUNCTIONS:
        found = call(name, case, backend)
        assert {tensor.dtype for tensor in found} == {dtype}
        expected = [tensor.to(dtype) for tensor in call(name, wide, "reference")]
        assert_same(found, expected, tolerance=2 * torch.finfo(dtype).eps)


def test_the_reference_takes_double_precision():
    case = make_case(40, 3, dtype=torch.float64)
    for name in FUNCTIONS:
        found = call(name, case, "torch")
        assert found[0].dtype == torch.float64
        assert_same(found, call(name, case, "reference"), tolerance=1e-12)


@pytest.mark.parametrize("backend", ["reference", *BACKENDS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_pieces_give_what_the_whole_gives(name, backend):
    # On the interpreter, slow as it is, only with a mask: without one is a part of that.
    for masked in (True,) if backend == "triton" else (False, True):
        case = make_case(7, 2, time_dim=1, seed=4, masked=False if name == "td_lambda" else masked)
        if masked:  # the first step of a piece counts, so that its value is the last value of the piece before it
            case["mask"][:, 2] = case["mask"][:, 5] = True
        whole, end = Carry(), Carry()
        expected = call(name, case, backend, whole)
        pieces = [case.piece(0, 2), case.piece(2, 5), case.piece(5, 7)]
        order = (0, 1, 2) if name in FORWARD else (2, 1, 0)
        found = {index: call(name, pieces[index], backend, end) for index in order}
        for position, one in enumerate(expected):
            assert_same([torch.cat([found[index][position] for index in range(3)], dim=1)], [one])
        assert_same([end.value], [whole.value])


@pytest.mark.parametrize("backend", ["reference", *BACKENDS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_packed_trajectories_give_what_each_gives_alone(name, backend):
    case = make_case(9, 2, rate=0.0, seed=7)
    case["terminated"][3] = True
    case["truncated"][6] = True
    expected = call(name, case, backend)
    ends = ((0, 4), (4, 7), (7, 9))
    alone = [call(name, case.piece(*end), backend) for end in ends]
    for position, one in enumerate(expected):
        assert_same([torch.cat([found[position] for found in alone])], [one])


@pytest.mark.parametrize("backend", ["reference", *BACKENDS])
def test_results_have_the_memory_layout_of_the_input(backend):
    for layout, strides in (("plain", (3, 1)), ("transposed", (1, 5)), ("strided", (3, 1))):
        case = make_case(5, 3, layout=layout)
        assert call("gae", case, backend)[0].stride() == strides


@pytest.mark.parametrize("backend", ["reference", *BACKENDS])
def test_the_same_call_gives_the_same_bits(backend):
    case = make_case(24 if backend == "triton" else 50, 3)
    for name in FUNCTIONS:
        first, second = call(name, case, backend), call(name, case, backend)
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("backend", ["reference", *BACKENDS])
def test_inputs_are_left_alone(backend):
    case = make_case(6, 3, masked=True, tensor_parameters=True)
    before = {name: tensor.clone() for name, tensor in case.tensors.items()}
    for name in FUNCTIONS:
        call(name, case, backend)
    assert all(torch.equal(tensor, before[name]) for name, tensor in case.tensors.items())
