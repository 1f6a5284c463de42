"""Random inputs for the credit functions, and each function called on them in the same way."""

from dataclasses import dataclass, field, replace

import torch

from keygrasp import credit

BACKENDS = ("torch", "triton")
FUNCTIONS = (
    "gae", "vtrace", "retrace", "retrace_actions", "td_lambda", "discounted", "traces", "prefix_sum",
)  # fmt: skip
FORWARD = ("traces", "prefix_sum")


@dataclass(frozen=True)
class Case:
    """Inputs of one call, in the layout that ``time_dim`` says."""

    time_dim: int
    tensors: dict
    dense: bool = False
    masked: bool = False
    truncations: bool = True
    gamma: object = 0.9
    lam: object = 0.8
    options: dict = field(default_factory=dict)

    def __getitem__(self, name):
        return self.tensors[name]

    def piece(self, begin, end):
        """Steps [begin, end) of a sparse case, with the value that follows them as its last value."""
        cut = {}
        for name, tensor in self.tensors.items():
            cut[name] = tensor if name == "last" else tensor.narrow(self.time_dim, begin, end - begin)
        if end < self["rewards"].shape[self.time_dim]:
            cut["last"] = self["values"].select(self.time_dim, end)
        return replace(self, tensors=cut)


def make_case(steps, rows, *, time_dim=0, seed=0, device="cpu", dtype=torch.float32, flags=torch.bool, layout="plain",
              tensor_parameters=False, actions=3, rate=0.15, **options):  # fmt: skip
    """Random inputs; ``layout`` is plain, transposed (time and rows swapped in memory) or strided (every second
    one)."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def placed(draw, *extra):
        shape = (steps, rows) if time_dim == 0 else (rows, steps)
        if layout == "transposed":
            return draw(shape[::-1] + extra).transpose(0, 1)
        if layout == "strided":
            return draw((2 * shape[0], 3 * shape[1], *extra))[::2, 1::3]
        return draw(shape + extra)

    def normal(shape):
        return torch.randn(shape, generator=generator, device=device).to(dtype)

    def uniform(shape):
        return torch.rand(shape, generator=generator, device=device).to(dtype)

    def flag(share):
        return lambda shape: (torch.rand(shape, generator=generator, device=device) < share).to(flags)

    tensors = {name: placed(normal) for name in ("rewards", "values", "next", "cut", "log_probs", "behavior")}
    tensors |= {"next_q": placed(normal, actions), "probs": placed(uniform, actions)}
    tensors |= {"terminated": placed(flag(rate)), "truncated": placed(flag(rate)), "mask": placed(flag(0.7))}
    tensors["last"] = normal((rows,))
    if tensor_parameters:
        options |= {"gamma": placed(uniform), "lam": placed(uniform)}
    return Case(time_dim, tensors, **options)


def call(name, case, backend, carry=None, **options):
    """Results of one function as a list."""
    keep = {
        "mask": case["mask"] if case.masked else None,
        "carry": carry,
        "time_dim": case.time_dim,
        "backend": backend,
        **options,
    }
    both = {"gamma": case.gamma, "lam": case.lam}
    truncated = case["truncated"] if case.truncations else None
    flags = (case["terminated"], truncated)
    cut = {"truncated_values": case["cut"]} if case.truncations else {}
    successors = {"next_values": case["next"]} if case.dense else {"last_value": case["last"], **cut}
    ratios = (case["log_probs"], case["behavior"])
    if name == "gae":
        found = credit.gae(case["rewards"], case["values"], *flags, **successors, **both, **keep)
    elif name == "vtrace":
        found = credit.vtrace(
            case["rewards"], case["values"], *ratios, *flags, pg_rho_bar=1.7, c_bar=1.2, **successors, **both, **keep
        )
    elif name == "retrace":
        found = credit.retrace(case["rewards"], case["values"], case["next"], *ratios, *flags, **both, **keep)
    elif name == "retrace_actions":
        found = credit.retrace(
            case["rewards"], case["values"], case["next_q"], *ratios, *flags, next_probs=case["probs"], **both, **keep
        )
    elif name == "td_lambda":
        own = {"last_value": case["last"]} if case.dense and case.masked else {}
        own = {**successors, **own} if case.dense else {"values": case["values"], **successors}
        found = credit.td_lambda_returns(case["rewards"], *flags, **own, **both, **keep)
    elif name == "discounted":
        found = credit.discounted_returns(
            case["rewards"], *flags, gamma=case.gamma, last_value=case["last"], **cut, **keep
        )
    elif name == "traces":
        found = credit.eligibility_traces(case["rewards"], *flags, **both, **keep)
    else:
        found = credit.episodic_prefix_sum(case["rewards"], *flags, **keep)
    return [found] if isinstance(found, torch.Tensor) else [tensor for tensor in found if tensor is not None]


def assert_same(found, expected, tolerance=1e-5, context=""):
    """Equal up to rounding, relative to the largest magnitude, with NaN only where it is expected."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape, context
        scale = 1 + (other.double().abs().max().item() if other.numel() else 0)
        torch.testing.assert_close(
            one.double(),
            other.double(),
            rtol=tolerance,
            atol=tolerance * scale,
            equal_nan=True,
            msg=lambda m: f"{context}: {m}",
        )
