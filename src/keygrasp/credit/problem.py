"""What one call asks for, in the form that all backends share, and the checks that it makes sense.

Everything is a linear recurrence along time, ``x[t] = u[t] + v[t] * x[t ± 1]``; the kinds differ in how ``u``, ``v``
and the results are made from the inputs.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import torch
from torch import Tensor

from keygrasp.errors import InputError


class Kind(enum.IntEnum):
    """The recurrences; the kernels dispatch on these numbers."""

    GAE = 0
    VTRACE = 1
    RETRACE = 2
    TD_LAMBDA = 3
    DISCOUNTED = 4
    TRACES = 5
    LINEAR = 6  # the bare recurrence: u and v are given
    LINEAR_FORWARD = 7  # the same in the other direction


#: Kinds that run from the first step to the last; the others run from the last to the first.
FORWARD = (Kind.TRACES, Kind.LINEAR_FORWARD)

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
_FLAGS = (torch.bool, torch.uint8)


class Inputs(NamedTuple):
    """Tensors of a call, as the caller gave them; ``None`` where absent.

    Time and batch are the two dimensions of all but ``last_value`` and ``carry`` (batch only) and, for Retrace with
    several actions, ``next_values`` and ``next_probs`` (actions last).
    """

    data: Tensor  # rewards; gradients or inputs of the forward kinds; u of LINEAR
    values: Tensor | None = None  # of the state of each step; v of LINEAR
    next_values: Tensor | None = None  # of the true successor of each step
    last_value: Tensor | None = None  # of the state after the window
    truncated_values: Tensor | None = None  # of the successor, read at truncated steps only
    terminated: Tensor | None = None  # of the forward kinds: done
    truncated: Tensor | None = None
    mask: Tensor | None = None
    gamma: Tensor | None = None
    lam: Tensor | None = None
    log_probs: Tensor | None = None
    behavior_log_probs: Tensor | None = None
    next_probs: Tensor | None = None
    carry: Tensor | None = None


#: Position of the batch-only inputs.
VECTORS = (Inputs._fields.index("last_value"), Inputs._fields.index("carry"))
#: Position of the inputs that may have a third dimension, over actions.
ACTIONS = (Inputs._fields.index("next_values"), Inputs._fields.index("next_probs"))
_FLAG_FIELDS = ("terminated", "truncated", "mask")


class Numbers(NamedTuple):
    """Scalar parameters of a call; ``gamma`` and ``lam`` are used where no tensor is given."""

    gamma: float = 1.0
    lam: float = 1.0
    rho_bar: float = 1.0
    c_bar: float = 1.0
    pg_rho_bar: float = 1.0


class Wanted(NamedTuple):
    """Which results a call returns besides the first, and where time is.

    Attributes:
        time_dim: 0 for [T, N], 1 for [N, T].
        second: Also the second result (returns of GAE, advantages of V-trace and Retrace).
        final: Also the final carry, [N], in the precision of the accumulation.
    """

    time_dim: int = 0
    second: bool = False
    final: bool = False


class Layout(NamedTuple):
    """Sizes and types that follow from the inputs of a call."""

    steps: int
    rows: int
    actions: int  # 0 where the inputs have no action dimension
    result: torch.dtype
    accumulate: torch.dtype


def check(kind: Kind, inputs: Inputs, wanted: Wanted) -> Layout:
    """Check the tensors of a call against each other.

    Raises:
        InputError: If a tensor has a wrong shape, type or device; the message names it.
    """
    data = inputs.data
    if data.dim() != 2:
        raise InputError(
            f"{_name(kind)} must be two-dimensional, but its shape is {tuple(data.shape)}",
            "Give [T, N] (or [N, T] with time_dim=1): add a dimension, or join batch dimensions by reshape",
        )
    actions = _check_actions(inputs)
    rows = data.shape[1 - wanted.time_dim]
    floats = []
    for position, (field, tensor) in enumerate(zip(Inputs._fields, inputs, strict=True)):
        if tensor is None:
            continue
        label = _name(kind) if position == 0 else field
        if position in VECTORS:
            expected: tuple[int, ...] = (rows,)
        elif position in ACTIONS and actions:
            expected = (*data.shape, actions)
        else:
            expected = tuple(data.shape)
        if tuple(tensor.shape) != expected:
            raise InputError(
                f"{label} has shape {tuple(tensor.shape)}, expected {expected} to go with {_name(kind)} "
                f"{tuple(data.shape)} and time_dim={wanted.time_dim}"
            )
        if tensor.device != data.device:
            raise InputError(f"{label} is on {tensor.device}, but {_name(kind)} is on {data.device}")
        if field in _FLAG_FIELDS:
            _check_flag(field, tensor)
        else:
            floats.append(_float_type(label, tensor))
    return Layout(
        data.shape[wanted.time_dim],
        rows,
        actions,
        result=_float_type(_name(kind), data),
        accumulate=torch.float64 if torch.float64 in floats else torch.float32,
    )


def _check_actions(inputs: Inputs) -> int:
    """Number of actions; 0 without an action dimension."""
    q, probs = inputs.next_values, inputs.next_probs
    if q is None or q.dim() != 3:
        if probs is not None:
            raise InputError(
                "next_probs goes with the values of all actions, but next_q_values has no action dimension",
                "Give next_q_values as [T, N, A], or the expectation alone",
            )
        return 0
    if probs is None:
        raise InputError(
            f"next_q_values has shape {tuple(q.shape)}, with an action dimension, but next_probs is missing",
            "Give the target policy's probabilities of the successor states as next_probs [T, N, A]",
        )
    if q.shape[2] == 0:
        raise InputError("next_q_values has no action at all")
    return int(q.shape[2])


def _check_flag(name: str, tensor: Tensor) -> None:
    if tensor.dtype not in _FLAGS:
        raise InputError(f"{name} is {tensor.dtype}, expected torch.bool or torch.uint8", f"Give {name} != 0")


def _float_type(name: str, tensor: Tensor) -> torch.dtype:
    """Type to compute with; integers count as float32, so that their results aren't cut to integers."""
    if tensor.dtype in _FLOATS:
        return tensor.dtype
    if tensor.dtype in _INTEGERS:
        return torch.float32
    raise InputError(f"{name} is {tensor.dtype}, expected a floating-point or integer tensor")


def _name(kind: Kind) -> str:
    return {Kind.TRACES: "the input", Kind.LINEAR: "u", Kind.LINEAR_FORWARD: "u"}.get(kind, "rewards")
