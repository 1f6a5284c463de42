"""What the credit benchmarks run: shapes, inputs, calls and the fewest bytes that each must move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from keygrasp import credit

#: (rows, steps): the shapes of RL on one GPU, from many short rollouts to one long sequence.
SHAPES = (
    (4096, 1), (4096, 32), (65536, 32), (32768, 8), (16384, 16), (4096, 128), (16384, 128), (16384, 1024), (8192, 2048),
    (512, 4096), (64, 16384), (16, 131072), (1, 1048576),
)  # fmt: skip
OPS = ("gae", "vtrace", "retrace", "td_lambda", "discounted", "traces", "prefix_sum")
BACKWARD = OPS[:5]
LAYOUTS = ("time-major", "batch-major")
ACTIONS = 4
GAMMA, LAM = 0.99, 0.95
#: Share of the steps that end an episode, of each kind.
RATE = 1 / 200
#: What a standard normal number exceeds at that rate.
RARE = 2.5758

#: Bytes an element that must move once (float32 data, flags of one byte).
_BYTES = {
    "gae": 13, "vtrace": 25, "retrace": 8 * ACTIONS + 25, "td_lambda": 13, "discounted": 9, "traces": 9,
    "prefix_sum": 9,
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """One measured case."""

    op: str
    rows: int
    steps: int
    truncation: bool
    layout: str

    @property
    def bytes(self) -> float:
        """Fewest bytes to move: values at truncations count where an episode was cut, everything else once."""
        each: float = _BYTES[self.op]
        if self.truncation:
            each += 1
            if self.op in ("gae", "vtrace", "td_lambda", "discounted"):
                each += 4 * RATE
        return each * self.rows * self.steps

    @property
    def name(self) -> str:
        """As it is shown in tables."""
        return f"{self.op} {self.rows}x{self.steps}{' truncated' if self.truncation else ''} {self.layout}"


def make_inputs(work: Workload, device: str, seed: int = 0, *, filled: bool = True) -> dict[str, Tensor]:
    """Random inputs ([T, N] or [N, T] as the workload's layout says), or only memory for them if not ``filled``."""
    generator = torch.Generator(device).manual_seed(seed)
    shape = (work.steps, work.rows) if work.layout == "time-major" else (work.rows, work.steps)
    names = ["rewards"]
    if work.op in ("gae", "vtrace", "td_lambda", "retrace"):
        names.append("values")
    if work.op in ("vtrace", "retrace"):
        names += ["log_probs", "behavior"]
    if work.truncation and work.op in ("gae", "vtrace", "td_lambda", "discounted"):
        names.append("cut")

    def normal(*size: int) -> Tensor:
        return torch.randn(size, generator=generator, device=device) if filled else torch.empty(size, device=device)

    found = {name: normal(*shape) for name in names}
    if work.op == "retrace":
        found["next_q"] = normal(*shape, ACTIONS)
        found["probs"] = normal(*shape, ACTIONS).abs_()
    for name in ("terminated", "truncated"):
        found[name] = normal(*shape) > RARE
    found["last"] = normal(work.rows)
    return found


def our_call(work: Workload, x: dict[str, Tensor], backend: Any = None) -> Callable[[], Any]:
    """The call of this library on these inputs."""
    flags = (x["terminated"], x["truncated"] if work.truncation else None)
    keep: dict[str, Any] = {"time_dim": LAYOUTS.index(work.layout), "backend": backend}
    cut = {"truncated_values": x["cut"]} if "cut" in x else {}
    rewards = x["rewards"]
    if work.op == "gae":
        return lambda: credit.gae(
            rewards, x["values"], *flags, gamma=GAMMA, lam=LAM, last_value=x["last"], returns=False, **cut, **keep
        )
    if work.op == "vtrace":
        return lambda: credit.vtrace(
            rewards,
            x["values"],
            x["log_probs"],
            x["behavior"],
            *flags,
            gamma=GAMMA,
            last_value=x["last"],
            **cut,
            **keep,
        )
    if work.op == "retrace":
        return lambda: credit.retrace(
            rewards, x["values"], x["next_q"], x["log_probs"], x["behavior"], *flags, next_probs=x["probs"],
            gamma=GAMMA, lam=LAM, **keep,
        )  # fmt: skip
    if work.op == "td_lambda":
        return lambda: credit.td_lambda_returns(
            rewards, *flags, gamma=GAMMA, lam=LAM, values=x["values"], last_value=x["last"], **cut, **keep
        )
    if work.op == "discounted":
        return lambda: credit.discounted_returns(rewards, *flags, gamma=GAMMA, last_value=x["last"], **cut, **keep)
    if work.op == "traces":
        return lambda: credit.eligibility_traces(rewards, *flags, gamma=GAMMA, lam=LAM, **keep)
    return lambda: credit.episodic_prefix_sum(rewards, *flags, **keep)
