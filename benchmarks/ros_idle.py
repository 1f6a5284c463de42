"""What the graph with the simulator takes of a core while nobody asks anything of it, in both ways to run it.

. scripts/env.sh
python benchmarks/ros_idle.py --json benchmarks/results/ros-idle.json
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from keygrasp_ros.client import PickClient
from keygrasp_ros.isolation import isolated_environment
from rich.console import Console
from rich.table import Table

from keygrasp.files import write_json
from keygrasp.provenance import provenance

_MODES = {"one process": [], "a process a node": ["--processes"]}
#: Seconds from a complete graph until it has come to rest.
_REST_SECONDS = 3.0


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(member for child in children for member in family(int(child)))]


def processor_seconds(pids: list[int]) -> float:
    """Processor time so far of all threads of some processes."""
    stats = (file for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in stats) / 1e9


def measure(options: list[str], seconds: float) -> dict[str, float]:
    """Start the graph, let it rest, and look at it for a while."""
    process = subprocess.Popen([sys.executable, "-m", "keygrasp_ros.up", "sim", *options])  # noqa: S603 - our own
    try:
        with PickClient("idle") as client:
            client.wait_ready(120.0)
        time.sleep(_REST_SECONDS)
        pids = family(process.pid)
        before, began = processor_seconds(pids), time.monotonic()
        time.sleep(seconds)
        share = (processor_seconds(pids) - before) / (time.monotonic() - began)
        return {"percent_of_a_core": 100.0 * share, "processes": len(pids)}
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to look, each time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.update(isolated_environment())
    figures: dict[str, Any] = {mode: measure(options, arguments.seconds) for mode, options in _MODES.items()}
    table = Table("graph", "processes", "% of a core", title="Idle")
    for mode, row in figures.items():
        table.add_row(mode, str(row["processes"]), f"{row['percent_of_a_core']:.1f}")
    Console().print(table)
    if arguments.json:
        write_json(arguments.json, {"seconds": arguments.seconds, "idle": figures, "provenance": provenance()})


if __name__ == "__main__":
    main()
