"""Returns, eligibility traces and sums along episodes."""

from __future__ import annotations

from torch import Tensor

from keygrasp.credit.call import Carry, check_successors, parameter, solve
from keygrasp.credit.operators import Backend
from keygrasp.credit.problem import Inputs, Kind, Numbers
from keygrasp.errors import InputError


def td_lambda_returns(
    rewards: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    gamma: float | Tensor = 0.99,
    lam: float | Tensor = 0.95,
    values: Tensor | None = None,
    next_values: Tensor | None = None,
    last_value: Tensor | None = None,
    truncated_values: Tensor | None = None,
    mask: Tensor | None = None,
    carry: Carry | None = None,
    time_dim: int = 0,
    backend: Backend | None = None,
) -> Tensor:
    """TD(λ) returns, or λ-returns (Sutton and Barto 2018, eq. 12.18 in its recursive form).

    ``G[t] = r[t] + γ ((1 - λ) V(s[t+1]) + λ G[t+1])``; a terminated step gives r[t], a truncated one ``r[t] + γ V``
    of the
    state in which the episode was cut, and so does the window's last step with the state after the window. The
    arguments
    are those of :func:`keygrasp.credit.gae`, except that ``values`` is needed only without ``next_values``.

    Args:
        rewards: r[t], [T, N] or [N, T].
        terminated: Whether the episode ended with step t.
        truncated: Whether the episode was cut after step t.
        gamma: Discount.
        lam: Trace parameter λ.
        values: V(s[t]), from which ``values[t+1]`` is read.
        next_values: V of every step's true successor.
        last_value: V of the state after the window, [N]; with ``next_values``, only where ``mask`` is given.
        truncated_values: V of the state in which an episode was cut.
        mask: Which steps count.
        carry: State from the piece after this one.
        time_dim: Dimension of time, 0 or 1.
        backend: ``"reference"``, ``"torch"`` or ``"triton"``.

    Returns:
        G[t], in the rewards' type and memory layout.

    Raises:
        InputError: If an argument has a wrong shape, type or device, or the successors' values are missing or given
            twice.
    """
    if next_values is None:
        if values is None:
            raise InputError("the successors' values are missing", "Give next_values, or values and last_value")
        check_successors(None, last_value, truncated, truncated_values)
    elif values is not None:
        raise InputError("both values and next_values are given", "Give only one of them")
    elif mask is None:
        check_successors(next_values, last_value, truncated, truncated_values)
    elif last_value is None and (carry is None or carry.value is None):
        raise InputError(
            "with mask and next_values, the value of the state after the last step that counts is missing",
            "Give last_value [N]",
        )
    gamma_number, gamma_tensor = parameter("gamma", gamma, rewards)
    lam_number, lam_tensor = parameter("lam", lam, rewards)
    return solve(
        Kind.TD_LAMBDA,
        Inputs(
            rewards, values, next_values, last_value, truncated_values, terminated, truncated, mask,
            gamma_tensor, lam_tensor, carry=carry.value if carry else None,
        ),
        Numbers(gamma_number, lam_number),
        time_dim=time_dim,
        carry=carry,
        backend=backend,
    )[0]  # fmt: skip


def discounted_returns(
    rewards: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    gamma: float | Tensor = 0.99,
    last_value: Tensor | float | None = None,
    truncated_values: Tensor | None = None,
    mask: Tensor | None = None,
    carry: Carry | None = None,
    time_dim: int = 0,
    backend: Backend | None = None,
) -> Tensor:
    """Discounted returns with bootstraps: ``G[t] = r[t] + γ G[t+1]``.

    A terminated step gives r[t], a truncated one ``r[t] + γ V`` of the state in which the episode was cut (terminated
    wins
    where both are set). Behind the window, G is ``last_value``. The arguments are those of :func:`keygrasp.credit.gae`.

    Args:
        rewards: r[t], [T, N] or [N, T].
        terminated: Whether the episode ended with step t.
        truncated: Whether the episode was cut after step t.
        gamma: Discount.
        last_value: V of the state after the window, [N] or one number (0 if nothing follows).
        truncated_values: V of the state in which an episode was cut, read at truncated steps only.
        mask: Which steps count.
        carry: State from the piece after this one, in place of ``last_value``.
        time_dim: Dimension of time, 0 or 1.
        backend: ``"reference"``, ``"torch"`` or ``"triton"``.

    Returns:
        G[t], in the rewards' type and memory layout.

    Raises:
        InputError: If an argument has a wrong shape, type or device, or a value is missing.
    """
    if carry is None or carry.value is None:
        check_successors(None, rewards if last_value is not None else None, truncated, truncated_values)
    elif truncated is not None:
        check_successors(None, carry.value, truncated, truncated_values)
    if isinstance(last_value, (int, float)):
        rows = rewards.shape[1 - time_dim % 2] if rewards.dim() == 2 else 1
        kind = None if rewards.dtype.is_floating_point else rewards.new_empty(0).float().dtype
        last_value = rewards.new_full((), last_value, dtype=kind).expand(rows)
    gamma_number, gamma_tensor = parameter("gamma", gamma, rewards)
    return solve(
        Kind.DISCOUNTED,
        Inputs(
            rewards, None, None, last_value, truncated_values, terminated, truncated, mask, gamma_tensor,
            carry=carry.value if carry else None,
        ),
        Numbers(gamma_number),
        time_dim=time_dim,
        carry=carry,
        backend=backend,
    )[0]  # fmt: skip


def eligibility_traces(
    gradients: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    gamma: float | Tensor = 0.99,
    lam: float | Tensor = 0.95,
    mask: Tensor | None = None,
    carry: Carry | None = None,
    time_dim: int = 0,
    backend: Backend | None = None,
) -> Tensor:
    """Accumulating eligibility traces (Sutton and Barto 2018, eq. 12.5): ``e[t] = g[t] + γ λ e[t-1]``.

    The trace starts afresh after a terminated or truncated step: ``e[t] = g[t]`` if step t - 1 was one. γ and λ given
    as
    tensors are those of the transition from t - 1 to t, at index t - 1, as in the backward functions.

    Args:
        gradients: g[t], [T, N] or [N, T].
        terminated: Whether the episode ended with step t.
        truncated: Whether the episode was cut after step t.
        gamma: Discount.
        lam: Trace parameter λ.
        mask: Which steps count.
        carry: State from the piece before this one.
        time_dim: Dimension of time, 0 or 1.
        backend: ``"reference"``, ``"torch"`` or ``"triton"``.

    Returns:
        e[t], in the gradients' type and memory layout.

    Raises:
        InputError: If an argument has a wrong shape, type or device.
    """
    gamma_number, gamma_tensor = parameter("gamma", gamma, gradients)
    lam_number, lam_tensor = parameter("lam", lam, gradients)
    return solve(
        Kind.TRACES,
        Inputs(
            gradients, None, None, None, None, terminated, truncated, mask, gamma_tensor, lam_tensor,
            carry=carry.value if carry else None,
        ),
        Numbers(gamma_number, lam_number),
        time_dim=time_dim,
        carry=carry,
        backend=backend,
    )[0]  # fmt: skip


def episodic_prefix_sum(
    inputs: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    carry: Carry | None = None,
    time_dim: int = 0,
    backend: Backend | None = None,
) -> Tensor:
    """Sums since the start of the episode: ``s[t] = x[t] + s[t-1]``, afresh after a terminated or truncated step.

    Args:
        inputs: x[t], [T, N] or [N, T]; integers are summed as float32.
        terminated: Whether the episode ended with step t.
        truncated: Whether the episode was cut after step t.
        mask: Which steps count.
        carry: State from the piece before this one.
        time_dim: Dimension of time, 0 or 1.
        backend: ``"reference"``, ``"torch"`` or ``"triton"``.

    Returns:
        s[t], in the inputs' type and memory layout.

    Raises:
        InputError: If an argument has a wrong shape, type or device.
    """
    return eligibility_traces(
        inputs, terminated, truncated, gamma=1.0, lam=1.0, mask=mask, carry=carry, time_dim=time_dim, backend=backend
    )
