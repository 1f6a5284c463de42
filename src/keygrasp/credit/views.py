"""The inputs of a call as [T, N] views in the precision of the accumulation, with helpers that read single steps."""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from keygrasp.credit.problem import Inputs, Kind, Layout, Numbers, Wanted, check

#: exp of more than this overflows float32: the bound of a ratio whose clip is infinite.
_LARGEST_LOG = 88.0


@functools.lru_cache(maxsize=64)
def log_bound(bar: float) -> float:
    """Logarithm of the clip of an importance ratio, finite so that ``exp`` never overflows."""
    return min(math.log(bar), _LARGEST_LOG) if bar > 0 else -math.inf


def initial_carry_is_a_value(kind: Kind) -> bool:
    """Whether the state of the recurrence is itself a value, so that without a carry it starts from the last value."""
    return kind in (Kind.TD_LAMBDA, Kind.DISCOUNTED)


@dataclass(frozen=True)
class Steps:
    """Time-major views of the inputs of one call."""

    kind: Kind
    layout: Layout
    numbers: Numbers
    wanted: Wanted
    like: Tensor  # the first input as given: results have its shape and memory layout
    data: Tensor
    values: Tensor | None
    next_values: Tensor | None
    last_value: Tensor | None
    truncated_values: Tensor | None
    terminated: Tensor | None
    truncated: Tensor | None
    mask: Tensor | None
    gammas: Tensor | None
    lams: Tensor | None
    log_ratios: Tensor | None
    carry: Tensor | None

    @property
    def count(self) -> int:
        """Number of steps."""
        return self.layout.steps

    def rows_together(self) -> Steps:
        """The same with the rows of each step side by side in memory."""
        found = copy.copy(self)
        for name, tensor in vars(self).items():
            if isinstance(tensor, Tensor) and name not in ("like", "last_value", "carry"):
                object.__setattr__(found, name, tensor.contiguous())
        return found

    def initial_carry(self) -> Tensor:
        """State before the first processed step, [N]."""
        if self.carry is not None:
            return self.carry
        if initial_carry_is_a_value(self.kind):
            if self.last_value is not None:
                return self.last_value
            if self.next_values is not None and self.count:
                return self.next_values[-1]
        return self.data.new_zeros(self.layout.rows)

    def select(self, t: int, new: Tensor, old: Tensor | None) -> Tensor:
        """``new`` where step t counts, ``old`` where it is masked."""
        return new if self.mask is None or old is None else torch.where(self.mask[t], new, old)

    def done(self, t: int) -> Tensor:
        """Whether the episode ends with step t, [N]."""
        flags = [flag[t] for flag in (self.terminated, self.truncated) if flag is not None]
        if not flags:
            return torch.zeros(self.layout.rows, dtype=torch.bool, device=self.data.device)
        return flags[0] if len(flags) == 1 else flags[0] | flags[1]

    def value(self, t: int) -> Tensor:
        """Value of the state of step t, [N]."""
        if self.values is None:
            raise RuntimeError("this kind has no values")
        return self.values[t]

    def gamma(self, t: int) -> Tensor:
        """Discount between step t and its successor, [N] or a single number."""
        return self.data.new_tensor(self.numbers.gamma) if self.gammas is None else self.gammas[t]

    def lam(self, t: int) -> Tensor:
        """Trace parameter between step t and its successor, [N] or a single number."""
        return self.data.new_tensor(self.numbers.lam) if self.lams is None else self.lams[t]

    def ratio(self, t: int, bar: float) -> Tensor:
        """Importance ratio of step t, clipped from above at ``bar``, [N]."""
        if self.log_ratios is None:
            raise RuntimeError("this kind has no importance ratios")
        return self.log_ratios[t].clamp(max=log_bound(bar)).exp()

    def result(self, rows: list[Tensor] | Tensor) -> Tensor:
        """A result in the caller's shape, type and memory layout, from [T, N] or its T rows."""
        out = torch.empty_like(self.like, dtype=self.layout.result)
        if isinstance(rows, list):
            rows = torch.stack(rows) if rows else self.data
        found = rows.T if self.wanted.time_dim else rows
        if found.requires_grad or (found.dtype == out.dtype and found.stride() == out.stride() and found.numel()):
            return found.to(self.layout.result)
        return out.copy_(found)


def steps_of(kind: Kind, inputs: Inputs, numbers: Numbers, wanted: Wanted) -> Steps:
    """Check the inputs and view them time-major.

    Raises:
        InputError: If they don't go together.
    """
    layout = check(kind, inputs, wanted)

    def timed(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        return (tensor.transpose(0, 1) if wanted.time_dim else tensor).to(layout.accumulate)

    def flag(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        viewed = tensor.transpose(0, 1) if wanted.time_dim else tensor
        return viewed if viewed.dtype == torch.bool else viewed != 0

    data = timed(inputs.data)
    if data is None:
        raise RuntimeError("every call has data")
    next_values, probs = timed(inputs.next_values), timed(inputs.next_probs)
    if next_values is not None and probs is not None:
        next_values = (next_values * probs).sum(-1)
    log_ratios = timed(inputs.log_probs)
    behavior = timed(inputs.behavior_log_probs)
    if log_ratios is not None and behavior is not None:
        log_ratios = log_ratios - behavior
    return Steps(
        kind,
        layout,
        numbers,
        wanted,
        inputs.data,
        data,
        timed(inputs.values),
        next_values,
        None if inputs.last_value is None else inputs.last_value.to(layout.accumulate),
        timed(inputs.truncated_values),
        flag(inputs.terminated),
        flag(inputs.truncated),
        flag(inputs.mask),
        timed(inputs.gamma),
        timed(inputs.lam),
        log_ratios,
        None if inputs.carry is None else inputs.carry.to(layout.accumulate),
    )
