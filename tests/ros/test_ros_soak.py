"""A short soak: latency and memory stay what they are. Ten minutes: ``benchmarks/ros_soak.py``."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.slow]
SOAK = Path(__file__).parents[2] / "benchmarks" / "ros_soak.py"


def test_depth_at_30_hz_is_understood_with_stable_latency_and_memory(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "0")  # the soak chooses its own; this puts it back
    spec = importlib.util.spec_from_file_location("ros_soak", SOAK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figures = module.soak(8.0, 30.0)
    assert figures["results_hz"] > 2.0, figures
    # A queue that grows would end with seconds; a leak of each image would be 1.2 MB × 30 a second.
    assert figures["p99_ms"] < 1500.0, figures
    memory = [row["memory_mb"] for row in figures["bins"]]
    assert max(memory[5:]) - max(memory[:5]) < 60.0, figures
