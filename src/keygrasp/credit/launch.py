"""Launching the kernel: what a call needs is worked out once for each combination of shapes, strides and types."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from keygrasp.credit import kernels
from keygrasp.credit.heuristics import Tiling, choose_tiling
from keygrasp.credit.problem import FORWARD, Inputs, Kind, Layout, Numbers, Wanted, check
from keygrasp.credit.views import log_bound
from keygrasp.errors import InputError

#: Interpreted kernels run on the CPU, and have no compiled form to keep.
INTERPRETED = not isinstance(kernels.scan_kernel, triton.runtime.JITFunction)
#: Plans kept; a program that meets more shapes than this starts over.
_MOST_PLANS = 4096
_NOTHING = contextlib.nullcontext()
#: Logarithms of the clips where there are no ratios.
_NO_BOUNDS = (0.0, 0.0, 0.0)
_plans: dict[Any, _Plan] = {}


class _Launch(NamedTuple):
    """One launch of the kernel: its grid and its compile-time arguments."""

    grid: tuple[int, int, int]
    constants: tuple[int, ...]
    warps: int


@dataclass
class _Plan:
    """Everything about a call that doesn't depend on the data."""

    layout: Layout
    strides: tuple[int | None, ...]  # as the kernel takes them, the results' last
    launches: tuple[_Launch, ...]
    sizes: tuple[int, int, int, int]  # steps, rows, steps of a part, parts
    compiled: list[Callable[..., None] | None]


def solve(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted) -> list[Tensor]:
    """Results of one call: the first, then the second and the final carry where wanted.

    Args:
        kind: The recurrence.
        inputs: Its tensors.
        numbers: Its scalar parameters.
        wanted: Which results.
    """
    data = inputs.data
    first = torch.empty_like(data) if data.dtype.is_floating_point else torch.empty_like(data, dtype=torch.float32)
    key: list[Any] = [int(kind), wanted, first.stride()]
    addresses: list[int | None] = []
    for tensor in inputs:
        if tensor is None:
            key.append(None)
            addresses.append(None)
        else:
            address = tensor.data_ptr()
            key += (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), address & 15)
            addresses.append(address)
    frozen = tuple(key)
    plan = _plans.get(frozen)
    if plan is None:
        plan = _make_plan(kind, inputs, wanted, first)
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[frozen] = plan
    results = [first]
    second = torch.empty_like(first) if wanted.second else None
    if second is not None:
        results.append(second)
    final = None
    if wanted.final:
        final = torch.empty(plan.layout.rows, dtype=torch.float32, device=data.device)
        results.append(final)
    if plan.launches:
        with _on_device_of(data):
            _run(plan, inputs, tuple(addresses), (first, second, final), numbers)
    elif final is not None:
        initial = inputs.carry if inputs.carry is not None else inputs.last_value
        if initial is None or (inputs.carry is None and kind not in (Kind.TD_LAMBDA, Kind.DISCOUNTED)):
            final.zero_()
        else:
            final.copy_(initial)
    return results


def _run(
    plan: _Plan,
    inputs: Inputs,
    addresses: tuple[int | None, ...],
    results: tuple[Tensor | None, ...],
    numbers: Numbers,
) -> None:
    aggregates = results[0]
    if plan.sizes[3] > 1:
        shape = (2, plan.sizes[3], plan.layout.rows)
        aggregates = torch.empty(shape, dtype=torch.float32, device=inputs.data.device)
    bounds = _NO_BOUNDS
    if inputs.log_probs is not None:
        bounds = (log_bound(numbers.rho_bar), log_bound(numbers.c_bar), log_bound(numbers.pg_rho_bar))
    # Floats throughout: a compiled launch keeps the types that it first met.
    scalars = (float(numbers.gamma), float(numbers.lam), *bounds)
    strides = plan.strides
    tensors = (tuple(inputs), strides[:-2], results, strides[-2:], aggregates, *plan.sizes, 1, *scalars)
    if None in plan.compiled:
        for index, launch in enumerate(plan.launches):
            plan.compiled[index] = _first_run(launch, tensors)
        return
    # Addresses in place of tensors spare the launcher a question to the driver for each.
    written = tuple(None if result is None else result.data_ptr() for result in results)
    raw = (addresses, strides[:-2], written, strides[-2:], _address(aggregates), *plan.sizes, 1, *scalars)
    for launch, repeat in zip(plan.launches, plan.compiled, strict=True):
        if repeat is not None:
            repeat(*raw, *launch.constants)


def _on_device_of(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Launches go to the current device: make it the tensors' own, if it isn't already."""
    if not tensor.is_cuda or tensor.get_device() == torch.cuda.current_device():
        return _NOTHING
    return torch.cuda.device(tensor.device)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _first_run(launch: _Launch, arguments: tuple[Any, ...]) -> Callable[..., None] | None:
    """Compile and run; returns what repeats the launch without looking at the arguments again."""
    compiled = kernels.scan_kernel[launch.grid](*arguments, *launch.constants, num_warps=launch.warps)
    if INTERPRETED or compiled is None:
        return None
    repeat: Callable[..., None] = compiled[launch.grid]
    return repeat


def _make_plan(kind: Kind, inputs: Inputs, wanted: Wanted, first: Tensor) -> _Plan:
    layout = check(kind, inputs, wanted)
    if layout.accumulate == torch.float64:
        raise InputError(
            "the triton backend accumulates in float32, but an input is float64",
            "Give float32, bfloat16 or float16, or choose backend='torch' or 'reference'",
        )
    if not inputs.data.is_cuda and not INTERPRETED:
        raise InputError(
            f"the triton backend needs CUDA tensors, but the inputs are on {inputs.data.device}",
            "Choose backend='torch', or set TRITON_INTERPRET=1 before the first use to interpret the kernels",
        )
    strides = _strides(inputs, wanted, first)
    if layout.steps == 0 or layout.rows == 0:
        return _Plan(layout, strides, (), (layout.steps, layout.rows, 0, 1), [])
    splittable = inputs.mask is None or inputs.values is None or inputs.next_values is not None
    tiling = choose_tiling(
        kind,
        layout.steps,
        layout.rows,
        time_contiguous=strides[0] <= strides[1],
        actions=layout.actions,
        splittable=splittable,
        groupable=splittable and strides[0] == 1,
        processors=_processors(inputs.data),
    )
    return _plan_of(kind, layout, strides, tiling)


def _strides(inputs: Inputs, wanted: Wanted, first: Tensor) -> tuple[int | None, ...]:
    """Strides over time and rows of each input, those over actions, and those of the results; as the kernel takes them."""
    time, row = wanted.time_dim, 1 - wanted.time_dim
    own = (inputs.data.stride(time), inputs.data.stride(row))
    found: list[int | None] = [*own]
    for tensor in (*inputs[1:], first):
        if tensor is None:
            found += (None, None)
        elif tensor.dim() == 1:
            found += (1, tensor.stride(0))
        else:
            pair = (tensor.stride(time), tensor.stride(row))
            found += (None, None) if pair == own and tensor.dim() == 2 else pair
    actions = [
        tensor.stride(2) if tensor is not None and tensor.dim() == 3 else 1
        for tensor in (inputs.next_values, inputs.next_probs)
    ]
    return (*found[:-2], *actions, *found[-2:])


def _plan_of(kind: Kind, layout: Layout, strides: tuple[int | None, ...], tiling: Tiling) -> _Plan:
    bt, bn = tiling.steps, tiling.rows
    tiles = -(-layout.steps // bt)
    part_tiles = -(-tiles // tiling.parts)
    parts = -(-tiles // part_tiles)
    wide = (bt + bn + layout.actions) * max(abs(stride) for stride in strides if stride is not None) >= 2**31
    action_block = min(triton.next_power_of_2(layout.actions), 16) if layout.actions else 1

    def launch(stage: int) -> _Launch:
        constants = (
            int(kind),
            int(kind in FORWARD),
            stage,
            int(part_tiles == 1),
            layout.actions,
            action_block,
            bt,
            bn,
            tiling.group,
            int(tiling.strip),
            triton.next_power_of_2(parts),
            tiling.pipeline,
            int(wide),
        )
        return _Launch((-(-layout.rows // bn), parts, 1), constants, tiling.warps)

    stages = (kernels.REDUCE.value, kernels.APPLY.value) if parts > 1 else (kernels.WHOLE.value,)
    launches = tuple(launch(stage) for stage in stages)
    sizes = (layout.steps, layout.rows, part_tiles * bt if parts > 1 else layout.steps, parts)
    return _Plan(layout, strides, launches, sizes, [None] * len(launches))


def _processors(tensor: Tensor) -> int:
    if not tensor.is_cuda:
        return 132
    return int(torch.cuda.get_device_properties(tensor.device).multi_processor_count)
