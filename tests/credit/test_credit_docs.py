"""The examples of docs/credit.md run, and give what they say."""

import re
from pathlib import Path

import pytest
import torch

from keygrasp.credit import gae

PAGE = Path(__file__).parents[2] / "docs" / "credit.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def run(text):
    names = {}
    exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102
    return names


def test_there_are_examples():
    assert len(EXAMPLES) == 3


def test_cleanrl_example_is_its_loop_over_time():
    x = run(EXAMPLES[0])
    carry, expected = torch.zeros(x["N"]), torch.zeros(x["T"], x["N"])
    for t in reversed(range(x["T"])):
        following = x["last_value"] if t == x["T"] - 1 else x["values"][t + 1]
        following = torch.where(x["truncated"][t], x["final_values"][t], following) * ~x["terminated"][t]
        delta = x["rewards"][t] + 0.99 * following - x["values"][t]
        expected[t] = carry = delta + 0.99 * 0.95 * ~(x["terminated"][t] | x["truncated"][t]) * carry
    torch.testing.assert_close(x["advantages"], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(x["returns"], expected + x["values"], rtol=1e-4, atol=1e-4)


def test_torchrl_example_is_torchrl():
    x = run(EXAMPLES[1])
    functional = pytest.importorskip("torchrl.objectives.value.functional")
    expected, target = functional.generalized_advantage_estimate(
        0.99, 0.95, x["value"], x["next_value"], x["reward"], x["done"], x["terminated"]
    )
    torch.testing.assert_close(x["advantage"], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(x["value_target"].unsqueeze(-1), target, rtol=1e-4, atol=1e-4)


def test_pieces_example_is_the_whole():
    x = run(EXAMPLES[2])
    whole = gae(x["rewards"], x["values"][:-1], x["done"], last_value=x["values"][-1]).advantages
    torch.testing.assert_close(x["advantages"], whole)
