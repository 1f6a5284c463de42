"""What the public functions share: parameters given as numbers or tensors, carries, and the rules for successors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from keygrasp.credit.operators import Backend, run
from keygrasp.credit.problem import Inputs, Kind, Numbers, Wanted
from keygrasp.errors import InputError

#: All that a call can want: looking one up is cheaper than making one.
_WANTED = {flags: Wanted(*flags) for flags in itertools.product((0, 1), (False, True), (False, True))}


@dataclass
class Carry:
    """State of a recurrence between the pieces of one long rollout.

    Give the same object to the calls on all pieces, in the order of the recurrence: last piece first for everything but
    eligibility traces and prefix sums, which start with the first piece. Each call continues from it and then replaces
    it; together they give what one call on the whole rollout gives.

    Attributes:
        value: The state, [N], or ``None`` before the first piece.
    """

    value: Tensor | None = None


def solve(
    kind: Kind,
    inputs: Inputs,
    numbers: Numbers,
    *,
    time_dim: int,
    carry: Carry | None,
    backend: Backend | None,
    second: bool = False,
) -> Sequence[Tensor]:
    """Run a call; returns the first result and, if wanted, the second."""
    if time_dim not in (0, 1, -1, -2):
        raise InputError(f"time_dim is {time_dim!r}, expected 0 for [T, N] or 1 for [N, T]")
    results = run(kind, inputs, numbers, _WANTED[time_dim % 2, second, carry is not None], backend)
    if carry is not None:
        carry.value = results[-1]
    return results


def parameter(name: str, value: float | Tensor, like: Tensor) -> tuple[float, Tensor | None]:
    """Split a discount or trace parameter into its number and its tensor, expanded to the shape of ``like``."""
    if not isinstance(value, Tensor):
        if 0.0 <= value <= 1.0:
            return float(value), None
        raise InputError(f"{name} is {value}, expected a number in [0, 1] or a tensor")
    if value.shape == like.shape:
        return 1.0, value
    try:
        return 1.0, value.expand(like.shape)
    except RuntimeError as error:
        raise InputError(
            f"{name} has shape {tuple(value.shape)}, which doesn't broadcast to {tuple(like.shape)}"
        ) from error


def clip(name: str, value: float) -> float:
    """Check the clip of an importance ratio."""
    if math.isnan(value) or value < 0:
        raise InputError(f"{name} is {value}, expected a number that isn't negative (inf for no clip)")
    return value


def check_successors(
    next_values: Tensor | None, last_value: Tensor | None, truncated: Tensor | None, truncated_values: Tensor | None
) -> None:
    """Check that the successors' values are given in exactly one of the two ways.

    Raises:
        InputError: If something is missing (nothing is taken as 0 silently) or given twice.
    """
    if next_values is not None:
        if last_value is not None or truncated_values is not None:
            raise InputError(
                "next_values already holds every successor's value, but there is also last_value or truncated_values",
                "Give either next_values, or last_value and truncated_values",
            )
        return
    if last_value is None:
        raise InputError(
            "the value of the state after the window is missing",
            "Give last_value [N] (zeros if every row ends with a terminated step) or next_values [T, N]",
        )
    if truncated is not None and truncated_values is None:
        raise InputError(
            "truncated is given, but not the values of the states in which episodes were cut",
            "Give truncated_values [T, N], read at truncated steps only, or next_values [T, N]; "
            "values[t + 1] belongs to the next episode there",
        )
