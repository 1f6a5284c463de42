"""The recurrences as torch operators, and the way from a call to a backend.

``keygrasp::credit`` is one fused call without gradients, ``keygrasp::linear_scan`` the bare recurrence, whose
derivative is the same recurrence in the other direction. torch.compile and CUDA graphs take both without a graph
break. An eager call on plain tensors goes to its backend directly: the dispatcher would cost more than the rest of the
call.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor
from torch.library import Library

from keygrasp.credit import reference, stepwise, vectorised
from keygrasp.credit.problem import Inputs, Kind, Numbers, Wanted, check
from keygrasp.credit.scans import blocked_scan, log_depth_scan
from keygrasp.errors import InputError

Backend = Literal["reference", "torch", "triton"]

#: Whether Triton is there; it is imported at its first use only.
_HAS_TRITON = importlib.util.find_spec("triton") is not None

_LIBRARY = Library("keygrasp", "FRAGMENT")
_LIBRARY.define(
    "credit(int kind, Tensor?[] inputs, float[] numbers, int time_dim, bool second, bool final, str backend)"
    " -> Tensor[]"
)
_LIBRARY.define("linear_scan(Tensor u, Tensor v, Tensor carry, bool forward, str backend) -> Tensor")


def run(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted, backend: Backend | None) -> Sequence[Tensor]:
    """Results of one call: the first, then the second and the final carry where wanted.

    Raises:
        InputError: If the inputs don't go together or the backend can't take them.
    """
    data = inputs.data
    if torch.compiler.is_compiling():
        return _compiling(kind, inputs, numbers, wanted, backend or _default(inputs))
    plain = type(data) is Tensor and not torch._C._len_torch_dispatch_stack()
    if plain and (backend == "triton" or (backend is None and data.is_cuda and _HAS_TRITON)):
        found: list[Tensor] | None = _launch().solve(kind, inputs, numbers, wanted, refuse=False)
        if found is not None:
            return found
    backend = backend or _default(inputs)
    if torch.is_grad_enabled() and _differentiable(inputs):
        return _differentiably(kind, inputs, numbers, wanted, backend)
    if plain:
        return _solve(kind, inputs, numbers, wanted, backend)
    return _through_dispatcher(kind, inputs, numbers, wanted, backend)


def _compiling(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted, backend: Backend) -> Sequence[Tensor]:
    if torch.is_grad_enabled() and _differentiable(inputs):
        return _differentiably(kind, inputs, numbers, wanted, backend)
    if backend == "torch":
        return vectorised.solve(kind, inputs, numbers, wanted, log_depth_scan)
    return _through_dispatcher(kind, inputs, numbers, wanted, backend)


def _differentiable(inputs: Inputs) -> bool:
    return any(tensor is not None and tensor.requires_grad for tensor in inputs)


def _default(inputs: Inputs) -> Backend:
    """The fastest backend that can take the inputs."""
    double = any(tensor is not None and tensor.dtype is torch.float64 for tensor in inputs)
    return "triton" if inputs.data.is_cuda and not double and _HAS_TRITON else "torch"


def _through_dispatcher(
    kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted, backend: Backend
) -> Sequence[Tensor]:
    results: list[Tensor] = torch.ops.keygrasp.credit(
        int(kind), list(inputs), list(numbers), wanted.time_dim, wanted.second, wanted.final, backend
    )
    return results


def _differentiably(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted, backend: Backend) -> Sequence[Tensor]:
    if backend == "reference":
        return reference.solve(kind, inputs, numbers, wanted)
    if backend == "torch" and torch.compiler.is_compiling():
        return vectorised.solve(kind, inputs, numbers, wanted, log_depth_scan)

    def scan(u: Tensor, v: Tensor, carry: Tensor, forward: bool) -> Tensor:
        found: Tensor = torch.ops.keygrasp.linear_scan(u, v, carry, forward, backend)
        return found

    return vectorised.solve(kind, inputs, numbers, wanted, scan)


def _solve(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted, backend: str) -> list[Tensor]:
    if backend == "triton":
        found: list[Tensor] = _launch().solve(kind, inputs, numbers, wanted)
        return found
    if backend == "torch":
        with torch.no_grad():
            if stepwise.suits(kind, inputs, numbers, wanted):
                return stepwise.solve(kind, inputs, numbers, wanted)
            return vectorised.solve(kind, inputs, numbers, wanted, blocked_scan)
    if backend == "reference":
        with torch.no_grad():
            return reference.solve(kind, inputs, numbers, wanted)
    raise InputError(f"backend is {backend!r}, expected 'reference', 'torch' or 'triton'")


@functools.cache
def _launch() -> ModuleType:
    """The Triton backend, imported at its first use: importing this library needs torch alone."""
    if not _HAS_TRITON:
        raise InputError("backend='triton' needs the package triton", "Install it with: pip install triton")
    from keygrasp.credit import launch

    return launch


def _credit(
    kind: int,
    inputs: Sequence[Tensor | None],
    numbers: Sequence[float],
    time_dim: int,
    second: bool,
    final: bool,
    backend: str,
) -> list[Tensor]:
    return _solve(Kind(kind), _named(inputs), Numbers(*numbers), Wanted(time_dim, second, final), backend)


def _credit_fake(
    kind: int,
    inputs: Sequence[Tensor | None],
    numbers: Sequence[float],
    time_dim: int,
    second: bool,
    final: bool,
    backend: str,
) -> list[Tensor]:
    named, wanted = _named(inputs), Wanted(time_dim, second, final)
    layout = check(Kind(kind), named, wanted)
    results = [torch.empty_like(named.data, dtype=layout.result) for _ in range(1 + second)]
    if final:
        results.append(named.data.new_empty(layout.rows, dtype=layout.accumulate))
    return results


def _named(inputs: Sequence[Tensor | None]) -> Inputs:
    data, *others = inputs
    if data is None:
        raise InputError("the first input of keygrasp::credit is missing")
    return Inputs(data, *others)


def _linear_scan(u: Tensor, v: Tensor, carry: Tensor, forward: bool, backend: str) -> Tensor:
    if backend != "triton":
        return blocked_scan(u, v, carry, forward)
    kind = Kind.LINEAR_FORWARD if forward else Kind.LINEAR
    solved: list[Tensor] = _launch().solve(kind, Inputs(u, values=v, carry=carry), Numbers(), Wanted())
    return solved[0]


def _linear_scan_fake(u: Tensor, v: Tensor, carry: Tensor, forward: bool, backend: str) -> Tensor:
    return torch.empty_like(u)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, v, carry, ctx.forward_in_time, ctx.backend = inputs
    ctx.save_for_backward(v, carry, output)


def _linear_scan_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """With x[t] = u[t] + v[t] x[t+1]: du[t] = dx[t] + v[t-1] du[t-1], dv[t] = du[t] x[t+1], dcarry = v[T-1] du[T-1]."""
    v, carry, x = ctx.saved_tensors
    forward = ctx.forward_in_time
    if v.shape[0] == 0:
        return grad, torch.zeros_like(v), torch.zeros_like(carry), None, None
    edge = torch.zeros_like(v[:1])
    factors = torch.cat((v[1:], edge)) if forward else torch.cat((edge, v[:-1]))
    du = torch.ops.keygrasp.linear_scan(grad, factors, torch.zeros_like(carry), not forward, ctx.backend)
    entering = torch.cat((carry.unsqueeze(0), x[:-1])) if forward else torch.cat((x[1:], carry.unsqueeze(0)))
    first = 0 if forward else v.shape[0] - 1
    dcarry = torch.where(v[first] == 0, 0.0, v[first] * du[first])
    return du, du * entering, dcarry, None, None


_LIBRARY.impl("credit", _credit, "CompositeExplicitAutograd")
_LIBRARY.impl("linear_scan", _linear_scan, "CompositeExplicitAutograd")
torch.library.register_fake("keygrasp::credit", _credit_fake, lib=_LIBRARY)
torch.library.register_fake("keygrasp::linear_scan", _linear_scan_fake, lib=_LIBRARY)
torch.library.register_autograd("keygrasp::linear_scan", _linear_scan_backward, setup_context=_keep, lib=_LIBRARY)
