"""Advantages and off-policy targets: GAE, V-trace, Retrace(λ)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from keygrasp.credit.call import Carry, check_successors, clip, parameter, solve
from keygrasp.credit.operators import Backend
from keygrasp.credit.problem import Inputs, Kind, Numbers


class Advantages(NamedTuple):
    """Result of :func:`gae`.

    Attributes:
        advantages: A[t], shaped like the rewards.
        returns: A[t] + V(s[t]), the targets of the value function; ``None`` if not asked for.
    """

    advantages: Tensor
    returns: Tensor | None


class Targets(NamedTuple):
    """Result of :func:`vtrace` and :func:`retrace`.

    Attributes:
        targets: Targets of the value function, shaped like the rewards.
        advantages: Advantages for the policy gradient; ``None`` if not asked for.
    """

    targets: Tensor
    advantages: Tensor | None


def gae(
    rewards: Tensor,
    values: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    gamma: float | Tensor = 0.99,
    lam: float | Tensor = 0.95,
    next_values: Tensor | None = None,
    last_value: Tensor | None = None,
    truncated_values: Tensor | None = None,
    mask: Tensor | None = None,
    carry: Carry | None = None,
    time_dim: int = 0,
    returns: bool = True,
    backend: Backend | None = None,
) -> Advantages:
    """Generalised advantage estimation (Schulman et al. 2016, https://arxiv.org/abs/1506.02438, eq. 16).

    ``A[t] = δ[t] + γ λ A[t+1]`` with ``δ[t] = r[t] + γ V(s[t+1]) - V(s[t])``. A terminated step has a successor of
    value 0; a terminated or truncated step cuts the sum. Flags belong to the step whose action ended the episode.

    The values of the successors are given either densely (``next_values``) or as ``last_value`` with, if episodes can
    be truncated, ``truncated_values``; elsewhere V(s[t+1]) is ``values[t+1]``. The window's last step isn't an end of
    the episode unless it is flagged.

    Args:
        rewards: r[t], [T, N] ([N, T] with ``time_dim=1``), any strides; float32, bfloat16, float16 or float64; integers
            count as float32.
        values: V(s[t]), shaped like the rewards.
        terminated: Whether the episode ended with step t, bool or uint8.
        truncated: Whether the episode was cut after step t (a time limit). Where both are set, terminated wins.
        gamma: Discount, in [0, 1] or a tensor that broadcasts to the rewards' shape; of step t to its successor.
        lam: Trace parameter λ, likewise.
        next_values: V of the true successor of every step, shaped like the rewards.
        last_value: V of the state after the window, [N].
        truncated_values: V of the state in which an episode was cut, shaped like the rewards; read at truncated steps
            only.
        mask: Which steps count, bool or uint8. The others (padding) are as if they weren't there; their results are 0.
        carry: State from the piece after this one, of a rollout processed in pieces.
        time_dim: Dimension of time, 0 or 1.
        returns: Whether to give the returns too, in the same pass.
        backend: ``"reference"``, ``"torch"`` or ``"triton"``; chosen by device if ``None``.

    Returns:
        Advantages and returns, in the rewards' type and memory layout.

    Raises:
        InputError: If an argument has a wrong shape, type or device, or the successors' values are missing.
    """
    check_successors(next_values, last_value, truncated, truncated_values)
    gamma_number, gamma_tensor = parameter("gamma", gamma, rewards)
    lam_number, lam_tensor = parameter("lam", lam, rewards)
    results = solve(
        Kind.GAE,
        Inputs(
            rewards, values, next_values, last_value, truncated_values, terminated, truncated, mask,
            gamma_tensor, lam_tensor, carry=carry.value if carry else None,
        ),
        Numbers(gamma_number, lam_number),
        time_dim=time_dim,
        carry=carry,
        backend=backend,
        second=returns,
    )  # fmt: skip
    return Advantages(results[0], results[1] if returns else None)


def vtrace(
    rewards: Tensor,
    values: Tensor,
    log_probs: Tensor,
    behavior_log_probs: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    gamma: float | Tensor = 0.99,
    lam: float | Tensor = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    pg_rho_bar: float | None = None,
    next_values: Tensor | None = None,
    last_value: Tensor | None = None,
    truncated_values: Tensor | None = None,
    mask: Tensor | None = None,
    carry: Carry | None = None,
    time_dim: int = 0,
    advantages: bool = True,
    backend: Backend | None = None,
) -> Targets:
    """V-trace targets and advantages (Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, eq. 1 and section 4.2).

    ``vs[t] = V(s[t]) + x[t]`` with ``x[t] = ρ[t] δ[t] + γ λ c[t] x[t+1]``, ``δ`` as in :func:`gae`, and the ratio of
    the policies' probabilities clipped from above: ``ρ[t] = min(ρ̄, π/μ)``, ``c[t] = min(c̄, π/μ)``. The advantage is
    ``ρ[t] (r[t] + γ vs[t+1] - V(s[t]))``, where ``vs[t+1]`` is the successor's value at a truncated step and 0 at a
    terminated one. The arguments not named here are those of :func:`gae`.

    Args:
        rewards: r[t], [T, N] or [N, T].
        values: V(s[t]).
        log_probs: log π(a[t] | s[t]) of the target policy, shaped like the rewards.
        behavior_log_probs: log μ(a[t] | s[t]) of the policy that acted.
        terminated: Whether the episode ended with step t.
        truncated: Whether the episode was cut after step t.
        gamma: Discount.
        lam: Trace parameter λ.
        rho_bar: Clip ρ̄ of the corrections; ``inf`` for none.
        c_bar: Clip c̄ of the traces.
        pg_rho_bar: Clip of the ratio in the advantage; ``rho_bar`` if ``None``.
        next_values: V of every step's true successor.
        last_value: V of the state after the window, [N].
        truncated_values: V of the state in which an episode was cut.
        mask: Which steps count.
        carry: State from the piece after this one.
        time_dim: Dimension of time, 0 or 1.
        advantages: Whether to give the advantages too, in the same pass.
        backend: ``"reference"``, ``"torch"`` or ``"triton"``.

    Returns:
        Targets vs[t] and advantages.

    Raises:
        InputError: If an argument has a wrong shape, type or device, or the successors' values are missing.
    """
    check_successors(next_values, last_value, truncated, truncated_values)
    gamma_number, gamma_tensor = parameter("gamma", gamma, rewards)
    lam_number, lam_tensor = parameter("lam", lam, rewards)
    rho = clip("rho_bar", rho_bar)
    pg_rho = rho if pg_rho_bar is None else clip("pg_rho_bar", pg_rho_bar)
    results = solve(
        Kind.VTRACE,
        Inputs(
            rewards, values, next_values, last_value, truncated_values, terminated, truncated, mask,
            gamma_tensor, lam_tensor, log_probs, behavior_log_probs, carry=carry.value if carry else None,
        ),
        Numbers(gamma_number, lam_number, rho, clip("c_bar", c_bar), pg_rho),
        time_dim=time_dim,
        carry=carry,
        backend=backend,
        second=advantages,
    )  # fmt: skip
    return Targets(results[0], results[1] if advantages else None)


def retrace(
    rewards: Tensor,
    q_values: Tensor,
    next_q_values: Tensor,
    log_probs: Tensor,
    behavior_log_probs: Tensor,
    terminated: Tensor,
    truncated: Tensor | None = None,
    *,
    next_probs: Tensor | None = None,
    gamma: float | Tensor = 0.99,
    lam: float | Tensor = 1.0,
    c_bar: float = 1.0,
    rho_bar: float = 1.0,
    mask: Tensor | None = None,
    carry: Carry | None = None,
    time_dim: int = 0,
    advantages: bool = True,
    backend: Backend | None = None,
) -> Targets:
    """Retrace(λ) targets (Munos et al. 2016, https://arxiv.org/abs/1606.02647, eq. 3 and 4).

    ``Qret[t] = Q[t] + x[t]`` with ``x[t] = r[t] + γ E_π Q(s[t+1], ·) - Q[t] + γ c[t+1] x[t+1]`` and
    ``c[t] = λ min(c̄, π/μ)``. The advantage is ``min(ρ̄, π/μ) x[t]``. The arguments not named here are those of
    :func:`gae`; the successors' values are always dense here, also where an episode was cut.

    Args:
        rewards: r[t], [T, N] or [N, T].
        q_values: Q(s[t], a[t]) of the action taken.
        next_q_values: E_π Q(s[t+1], ·) under the target policy, shaped like the rewards; or Q(s[t+1], a) of all A
            actions
            with A as a third dimension, together with ``next_probs``.
        log_probs: log π(a[t] | s[t]) of the target policy.
        behavior_log_probs: log μ(a[t] | s[t]) of the policy that acted.
        terminated: Whether the episode ended with step t.
        truncated: Whether the episode was cut after step t.
        next_probs: π(a | s[t+1]) of all actions, shaped like ``next_q_values``.
        gamma: Discount.
        lam: Trace parameter λ.
        c_bar: Clip c̄ of the traces; ``inf`` for none.
        rho_bar: Clip ρ̄ of the ratio in the advantage.
        mask: Which steps count.
        carry: State from the piece after this one.
        time_dim: Dimension of time, 0 or 1.
        advantages: Whether to give the advantages too, in the same pass.
        backend: ``"reference"``, ``"torch"`` or ``"triton"``.

    Returns:
        Targets Qret[t] and advantages.

    Raises:
        InputError: If an argument has a wrong shape, type or device.
    """
    gamma_number, gamma_tensor = parameter("gamma", gamma, rewards)
    lam_number, lam_tensor = parameter("lam", lam, rewards)
    results = solve(
        Kind.RETRACE,
        Inputs(
            rewards, q_values, next_q_values, None, None, terminated, truncated, mask,
            gamma_tensor, lam_tensor, log_probs, behavior_log_probs, next_probs, carry.value if carry else None,
        ),
        Numbers(gamma_number, lam_number, 1.0, clip("c_bar", c_bar), clip("rho_bar", rho_bar)),
        time_dim=time_dim,
        carry=carry,
        backend=backend,
        second=advantages,
    )  # fmt: skip
    return Targets(results[0], results[1] if advantages else None)
