"""Launching the kernel: what a call needs is worked out once for each combination of shapes, strides and types."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import torch
import triton
import triton.language as tl
from torch import Tensor

from keygrasp.credit import kernels, parts
from keygrasp.credit.heuristics import Tiling, choose_tiling
from keygrasp.credit.problem import ACTIONS, FORWARD, VECTORS, Inputs, Kind, Layout, Numbers, Wanted, check
from keygrasp.credit.views import initial_carry_is_a_value, log_bound
from keygrasp.errors import InputError

#: Interpreted kernels run on the CPU, and have no compiled form to keep.
INTERPRETED = not isinstance(kernels.scan_kernel, triton.runtime.JITFunction)
#: Plans kept; a program that meets more shapes than this starts over.
_MOST_PLANS = 4096
#: Logarithms of the clips where there are no ratios.
_NO_BOUNDS = (0.0, 0.0, 0.0)
_plans: dict[Any, _Plan] = {}


class _Launch(NamedTuple):
    """One launch of the kernel: its grid and its compile-time arguments."""

    grid: tuple[int, int, int]
    constants: tuple[int, ...]
    warps: int
    early: bool  # whether it begins before the launch before it has ended


@dataclass
class _Plan:
    """Everything about a call that doesn't depend on the data."""

    layout: Layout
    strides: tuple[int | None, ...]  # of the inputs
    result_strides: tuple[int | None, ...]
    launches: tuple[_Launch, ...]
    sizes: tuple[int, int, int, int]  # steps, rows, steps of a part, parts
    between: tuple[tuple[int, ...], torch.dtype] | None  # shape and type of what the parts tell each other
    repeats: list[Callable[..., None]]  # each launch once compiled; empty before


def solve(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted, *, refuse: bool = True) -> list[Tensor] | None:
    """Results of one call: the first, then the second and the final carry where wanted.

    Args:
        kind: The recurrence.
        inputs: Its tensors.
        numbers: Its scalar parameters.
        wanted: Which results.
        refuse: Whether inputs that the kernel can't take are an error; if not, the result is ``None`` for them and for
            inputs whose gradients are wanted.
    """
    key: list[Any] = [kind, wanted]
    addresses: list[int | None] = []
    graded = False
    for tensor in inputs:
        if tensor is None:
            key.append(None)
            addresses.append(None)
        else:
            address = tensor.data_ptr()
            addresses.append(address)
            strides = tensor.is_contiguous() or tensor.stride()
            key += (tensor.shape, strides, tensor.dtype, tensor.get_device(), address & 15)
            graded = graded or tensor.requires_grad
    if graded and not refuse and torch.is_grad_enabled():
        return None
    data = inputs.data
    frozen = tuple(key)
    plan = _plans.get(frozen)
    if plan is None:
        plan = _keep_plan(frozen, kind, inputs, wanted)
    if plan.layout.accumulate is torch.float64:
        return _refuse_double() if refuse else None
    dtype = plan.layout.result
    first = torch.empty_like(data) if data.dtype is dtype else torch.empty_like(data, dtype=dtype)
    results = [first]
    if wanted.second:
        results.append(torch.empty_like(first))
    if wanted.final:
        results.append(torch.empty(plan.layout.rows, dtype=torch.float32, device=data.device))
    if not plan.launches:
        if wanted.final:
            _initial_carry(kind, inputs, results[-1])
        return results
    device = data.get_device()
    if device < 0 or device == torch._C._cuda_getDevice():
        _run(plan, inputs, tuple(addresses), results, wanted, numbers)
    else:  # launches go to the current device
        with torch.cuda.device(device):
            _run(plan, inputs, tuple(addresses), results, wanted, numbers)
    return results


def _initial_carry(kind: Kind, inputs: Inputs, out: Tensor) -> None:
    """The carry of a call without steps is the one that it got."""
    initial = inputs.carry
    if initial is None and initial_carry_is_a_value(kind):
        initial = inputs.last_value
    if initial is None:
        out.zero_()
    else:
        out.copy_(initial)


def _run(
    plan: _Plan,
    inputs: Inputs,
    addresses: tuple[int | None, ...],
    results: list[Tensor],
    wanted: Wanted,
    numbers: Numbers,
) -> None:
    """Launch; the results are in place when the current stream has come so far."""
    second = results[1] if wanted.second else None
    final = results[-1] if wanted.final else None
    written = (results[0], second, final)
    aggregates = results[0]
    if plan.between is not None:
        shape, dtype = plan.between
        aggregates = torch.empty(shape, dtype=dtype, device=inputs.data.device)
    bounds = _NO_BOUNDS
    if inputs.log_probs is not None:
        bounds = (log_bound(numbers.rho_bar), log_bound(numbers.c_bar), log_bound(numbers.pg_rho_bar))
    numeric = (*plan.sizes, (numbers.gamma, numbers.lam, *bounds))
    if plan.repeats:  # addresses in place of tensors spare the launcher a question to the driver for each
        places = tuple([None if tensor is None else tensor.data_ptr() for tensor in written])
        raw = (addresses, plan.strides, places, plan.result_strides, aggregates.data_ptr(), *numeric)
        for repeat in plan.repeats:
            repeat(*raw)
    else:
        tensors = (tuple(inputs), plan.strides, written, plan.result_strides, aggregates, *numeric)
        repeats = [_first_run(launch, tensors) for launch in plan.launches]
        plan.repeats = [repeat for repeat in repeats if repeat is not None]


def _first_run(launch: _Launch, arguments: tuple[Any, ...]) -> Callable[..., None] | None:
    """Compile and run; returns what repeats the launch without looking at the arguments again."""
    early = {"launch_pdl": True} if launch.early else {}
    compiled = kernels.scan_kernel[launch.grid](*arguments, *launch.constants, num_warps=launch.warps, **early)
    if INTERPRETED or compiled is None:
        return None
    start, function, packed = compiled.run, compiled.function, compiled.packed_metadata
    grid, constants = launch.grid, launch.constants
    current_device, current_stream = torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream
    hooks = (None, None, None)  # Triton's own see the first launch of each kind only
    version = triton.__version__[:4]
    if version not in ("3.6.", "3.7.") or start.global_scratch_size or start.profile_scratch_size:

        def repeat(*raw: Any) -> None:
            start(*grid, current_stream(current_device()), function, packed, *hooks, *raw, *constants)

        return repeat
    # What these versions' launcher passes on where no scratch memory is wanted; going through it costs a µs.
    begin, flags = start.launch, (start.launch_cooperative_grid, start.launch_pdl)
    if version == "3.6.":
        flat = (function, *flags, None, None, packed, *hooks)

        def repeat_flat(*raw: Any) -> None:
            begin(*grid, current_stream(current_device()), *flat, *raw, *constants)

        return repeat_flat
    nested = (function, *flags, packed, *hooks, None, None, start.arg_annotations, start.kernel_signature)

    def repeat_nested(*raw: Any) -> None:
        begin(*grid, current_stream(current_device()), *nested, (*raw, *constants))

    return repeat_nested


def _refuse_double() -> NoReturn:
    raise InputError(
        "the triton backend accumulates in float32, but an input is float64",
        "Give float32, bfloat16 or float16, or choose backend='torch' or 'reference'",
    )


def _keep_plan(key: tuple[Any, ...], kind: Kind, inputs: Inputs, wanted: Wanted) -> _Plan:
    plan = _make_plan(kind, inputs, wanted)
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return plan


def _make_plan(kind: Kind, inputs: Inputs, wanted: Wanted) -> _Plan:
    layout = check(kind, inputs, wanted)
    if not inputs.data.is_cuda and not INTERPRETED:
        raise InputError(
            f"the triton backend needs CUDA tensors, but the inputs are on {inputs.data.device}",
            "Choose backend='torch', or set TRITON_INTERPRET=1 before the first use to interpret the kernels",
        )
    time, row = inputs.data.stride(wanted.time_dim), inputs.data.stride(1 - wanted.time_dim)
    strides, result_strides = _strides(inputs, wanted)
    plan = _Plan(layout, strides, result_strides, (), (layout.steps, layout.rows, layout.steps, 1), None, [])
    if layout.steps == 0 or layout.rows == 0 or layout.accumulate is torch.float64:
        return plan
    splittable = inputs.mask is None or inputs.values is None or inputs.next_values is not None
    tiling = choose_tiling(
        kind,
        layout.steps,
        layout.rows,
        time_contiguous=time <= row,
        actions=layout.actions,
        splittable=splittable,
        groupable=splittable and (time == 1 or time > row),
        processors=_processors(inputs.data),
    )
    vector = tiling.group == 4 and layout.steps % 4 == 0 and _rows_are_vectors(layout, strides)
    plan.launches, plan.sizes, plan.between = _launches(kind, layout, tiling, (*strides, *result_strides), vector)
    return plan


def _strides(inputs: Inputs, wanted: Wanted) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Strides of the inputs, those over actions behind them, and strides of the results; as the kernel takes them."""
    time, row = wanted.time_dim, 1 - wanted.time_dim
    own = (inputs.data.stride(time), inputs.data.stride(row))

    def pair(tensor: Tensor | None) -> tuple[int | None, int | None]:
        if tensor is None:
            return None, None
        if tensor.dim() == 1:
            return 1, tensor.stride(0)
        found = (tensor.stride(time), tensor.stride(row))
        return (None, None) if found == own and tensor.dim() == 2 else found

    found: list[int | None] = [*own]
    for tensor in inputs[1:]:
        found += pair(tensor)
    for tensor in (inputs.next_values, inputs.next_probs):
        found.append(tensor.stride(2) if tensor is not None and tensor.dim() == 3 else 1)
    return tuple(found), pair(torch.empty_like(inputs.data, device="meta"))


def _rows_are_vectors(layout: Layout, strides: tuple[int | None, ...]) -> bool:
    """Whether every four steps of a row are side by side, in each [T, N] tensor and from a multiple of four on."""
    apart = (*VECTORS, *(ACTIONS if layout.actions else ()))
    pairs = [strides[2 * index : 2 * index + 2] for index in range(len(Inputs._fields)) if index not in apart]
    return all(
        time == 1 and row is not None and (row % 4 == 0 or layout.rows == 1) for time, row in pairs if time is not None
    )


def _actions_at_once(layout: Layout, strides: tuple[int | None, ...]) -> int:
    """How many actions of a step are read at once: neighbours in memory, from a multiple of their number on."""
    pairs = [strides[2 * index : 2 * index + 2] for index in ACTIONS]
    last = strides[2 * len(Inputs._fields) : 2 * len(Inputs._fields) + 2]
    if layout.actions == 0 or set(last) != {1}:
        return 1
    return math.gcd(4, layout.actions, *(stride for pair in pairs for stride in pair if stride is not None))


def _launches(
    kind: Kind, layout: Layout, tiling: Tiling, strides: tuple[int | None, ...], vector: bool
) -> tuple[tuple[_Launch, ...], tuple[int, int, int, int], tuple[tuple[int, ...], torch.dtype] | None]:
    """The launches of a call, its sizes, and the memory between its parts."""
    bt, bn = tiling.steps, tiling.rows
    tiles = -(-layout.steps // bt)
    part_tiles = 1 if tiling.window else -(-tiles // tiling.parts)
    count = -(-tiles // part_tiles)
    chained = tiling.window > 0 and count > 1
    part_block = triton.next_power_of_2(-(-count // tiling.window) if chained else max(count, parts.FOLD.value))
    wide = (bt + bn + layout.actions) * max(abs(stride) for stride in strides if stride is not None) >= 2**31
    action_block = _actions_at_once(layout, strides)
    full = layout.steps % bt == 0 and layout.rows % bn == 0
    overlap = count > 1 and not INTERPRETED

    def launch(stage: tl.constexpr, grid: tuple[int, int, int], early: bool = False) -> _Launch:
        constants = (
            int(kind),
            int(kind in FORWARD),
            stage.value,
            int(part_tiles == 1),
            layout.actions,
            action_block,
            bt,
            bn,
            tiling.group,
            int(vector),
            int(full),
            tiling.window,
            part_block,
            tiling.pipeline,
            int(wide),
            int(overlap),
        )
        return _Launch(grid, constants, tiling.warps, early)

    grid = (-(-layout.rows // bn), count, 1)
    sizes = (layout.steps, layout.rows, part_tiles * bt if count > 1 else layout.steps, count)
    if count == 1:
        return (launch(kernels.WHOLE, grid),), sizes, None
    if not chained:
        launches = (launch(kernels.REDUCE, grid), launch(kernels.APPLY, grid, overlap))
        return launches, sizes, ((2, count, layout.rows), torch.float32)
    words = (layout.rows, count + part_block)
    cleared = (-(-math.prod(words) // parts.CLEARED.value), 1, 1)
    launches = (launch(kernels.CLEAR, cleared), launch(kernels.CHAIN, grid, overlap))
    return launches, sizes, (words, torch.int64)


def _processors(tensor: Tensor) -> int:
    if not tensor.is_cuda:
        return 132
    return int(torch.cuda.get_device_properties(tensor.device).multi_processor_count)
