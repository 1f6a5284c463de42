"""Other implementations of the same estimators, called on the same numbers in the layout and types that they ask for.

Each is used where it can be imported: rl-triton (rl_triton), TorchRL (torchrl), PufferLib's CUDA kernel (built from the
sources in the folder PUFFERLIB_EXT), and torch.compile of two ways to write GAE.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from credit_workloads import GAMMA, LAM, Workload
from torch import Tensor

Call = Callable[[], Any]
Inputs = dict[str, Tensor]


def rl_triton(work: Workload, x: Inputs) -> Call | None:
    """rl-triton: [N, T], flags in float32, values of all successors."""
    try:
        import rl_triton as peer
    except ImportError:
        return None
    rewards, term, trunc = x["rewards"], x["terminated"].float(), x["truncated"].float()
    flags = (term, trunc if work.truncation else None)
    boot = torch.where(x["truncated"], x["cut"], 0.0) if "cut" in x else None
    if boot is not None:
        boot[:, -1] = x["last"]
    edge: dict[str, Any] = {"bootstrap_values": boot} if work.truncation else {"last_value": x["last"]}
    if work.op == "gae":
        return lambda: peer.compute_gae(rewards, x["values"], *flags, GAMMA, LAM, **edge)
    if work.op == "vtrace":
        return lambda: peer.compute_vtrace(x["log_probs"], x["behavior"], x["values"], rewards, *flags, GAMMA, **edge)
    if work.op == "retrace":
        behavior = x["behavior"].sigmoid()
        actions = torch.zeros_like(rewards, dtype=torch.int64)
        return lambda: peer.compute_retrace(
            x["probs"], behavior, x["values"], x["next_q"], actions, rewards, term, trunc, GAMMA, LAM
        )
    if work.op == "td_lambda":
        following = torch.cat((x["values"][:, 1:], x["last"].unsqueeze(1)), 1)
        return lambda: peer.compute_lambda_returns(rewards, following, *flags, GAMMA, LAM, bootstrap_values=boot)
    if work.op == "discounted":
        if boot is None:
            boot = torch.zeros_like(rewards)
            boot[:, -1] = x["last"]
        return lambda: peer.compute_discounted_returns(rewards, *flags, GAMMA, bootstrap_values=boot)
    if work.op == "traces":
        return lambda: peer.compute_eligibility_traces(rewards, term, GAMMA, LAM)
    return lambda: peer.compute_episodic_prefix_sum(rewards, term)


def torchrl(work: Workload, x: Inputs) -> Call | None:
    """TorchRL's vectorised functions: [N, T, 1], values of all successors."""
    try:
        from torchrl.objectives.value import functional as peer
    except Exception:  # the package has needs of its own, which fail in several ways
        return None
    wide = {name: tensor.unsqueeze(-1) for name, tensor in x.items() if tensor.dim() == 2}
    following = torch.cat((x["values"][:, 1:], x["last"].unsqueeze(1)), 1)
    if "cut" in x:
        following = torch.where(x["truncated"], x["cut"], following)
    following = following.unsqueeze(-1)
    term = wide["terminated"]
    done = term | wide["truncated"] if work.truncation else term
    rewards, values = wide["rewards"], wide["values"]
    if work.op == "gae":
        return lambda: peer.vec_generalized_advantage_estimate(GAMMA, LAM, values, following, rewards, done, term)
    if work.op == "td_lambda":
        return lambda: peer.vec_td_lambda_return_estimate(GAMMA, LAM, following, rewards, done, term)
    return lambda: peer.vtrace_advantage_estimate(
        GAMMA, wide["log_probs"], wide["behavior"], values, following, rewards, done, term
    )


@functools.cache
def _puffer() -> Any:
    folder = os.environ.get("PUFFERLIB_EXT")
    if not folder:
        return None
    from torch.utils.cpp_extension import load

    sources = [str(Path(folder) / name) for name in ("pufferlib.cpp", "pufferlib.cu")]
    load(name="_C", sources=sources, extra_cflags=["-O3"], extra_cuda_cflags=["-O3"], is_python_module=False)
    return torch.ops.pufferlib.compute_puff_advantage


def pufferlib(work: Workload, x: Inputs) -> Call | None:
    """PufferLib's advantage kernel: GAE with the flags one step later; one thread a row."""
    kernel = _puffer()
    if kernel is None:
        return None
    done, ones = x["terminated"].float(), torch.ones_like(x["rewards"])
    out = torch.zeros_like(ones)
    return lambda: kernel(x["values"], x["rewards"], done, ones, out, GAMMA, LAM, 1.0, 1.0)


def _delta(rewards: Tensor, values: Tensor, term: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    following = torch.cat((values[1:], last.unsqueeze(0)))
    alive = 1.0 - term.float()
    return rewards + GAMMA * alive * following - values, GAMMA * LAM * alive


def gae_loop(rewards: Tensor, values: Tensor, term: Tensor, last: Tensor) -> Tensor:
    """GAE as most training scripts write it: a loop over time, [T, N]."""
    advantages = torch.zeros_like(rewards)
    carry = torch.zeros_like(last)
    for t in reversed(range(rewards.shape[0])):
        following = last if t == rewards.shape[0] - 1 else values[t + 1]
        alive = 1.0 - term[t].float()
        delta = rewards[t] + GAMMA * following * alive - values[t]
        advantages[t] = carry = delta + GAMMA * LAM * alive * carry
    return advantages


def gae_log_depth(rewards: Tensor, values: Tensor, term: Tensor, last: Tensor) -> Tensor:
    """GAE by recursive doubling, [T, N]."""
    u, v = _delta(rewards, values, term, last)
    reach = 1
    while reach < u.shape[0]:
        u = torch.cat((u[:-reach] + v[:-reach] * u[reach:], u[-reach:]))
        v = torch.cat((v[:-reach] * v[reach:], v[-reach:]))
        reach *= 2
    return u


def _compiled(function: Callable[..., Tensor], x: Inputs) -> Call:
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, dynamic=False)
    return lambda: compiled(x["rewards"], x["values"], x["terminated"], x["last"])


def compile_log_depth(work: Workload, x: Inputs) -> Call | None:
    """torch.compile of recursive doubling."""
    return _compiled(gae_log_depth, x)


def compile_loop(work: Workload, x: Inputs) -> Call | None:
    """torch.compile of the loop, which it unrolls: minutes for more than a few steps."""
    return _compiled(gae_loop, x)


PEERS: dict[str, Callable[[Workload, Inputs], Call | None]] = {
    "rl-triton": rl_triton,
    "pufferlib": pufferlib,
    "torchrl": torchrl,
    "compile-log-depth": compile_log_depth,
    "compile-loop": compile_loop,
}


def takes(who: str, work: Workload) -> bool:
    """Whether one of the peers has a function for a workload, in the layout that it asks for."""
    if who in ("rl-triton", "torchrl"):
        slow = work.op == "vtrace" and work.steps > 128  # TorchRL's is a Python loop over time
        known = who == "rl-triton" or (work.op in ("gae", "td_lambda", "vtrace") and not slow)
        return known and work.layout == "batch-major"
    if work.op != "gae" or work.truncation:
        return False
    if who == "pufferlib":
        return work.layout == "batch-major"
    longest = 16 if who == "compile-loop" else 2048  # beyond, compiling takes minutes
    return work.layout == "time-major" and work.steps <= longest
