"""Scores a millisecond of the language model's potential: cached in batches, and uncached against a local server.

python benchmarks/shaping.py --json benchmarks/results/shaping-client.json
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
import tracemalloc
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.scene import Task
from keygrasp.scene.symbols import COLUMN
from keygrasp.shaping.grasp_mdp import grasp_mdp
from keygrasp.shaping.llm import LLMPotential
from keygrasp.shaping.llm_client import LLMConfig

# The server that misbehaves in the tests behaves here.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from chat_server import ChatServer

_BATCH = 4096
#: Seconds that the server takes, and requests at once.
_SETTINGS = ((0.05, 1), (0.05, 4), (0.05, 16), (0.2, 1), (0.2, 8), (0.2, 32))


def states(count: int) -> np.ndarray:
    """So many states that differ after quantisation."""
    rows = np.repeat(grasp_mdp().rows[:1], count, axis=0)
    rows[:, COLUMN["gripper_x"]] = 0.005 * (np.arange(count) % 200)
    rows[:, COLUMN["gripper_y"]] = 0.005 * (np.arange(count) // 200)
    return rows


def serve(server_seconds: float, pipe: Connection) -> None:
    """A server in a process of its own, until the other end of the pipe says something."""

    def behave(*_: Any) -> str:
        time.sleep(server_seconds)
        return '{"score": 0.5}'

    with ChatServer(behave) as server:
        pipe.send(server.url)
        pipe.recv()
        pipe.send(len(server.requests))


def uncached(server_seconds: float, concurrency: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Scores a second of states that were never seen, once connections are open."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(server_seconds, there))
    server.start()
    count, first = round(seconds / server_seconds) * concurrency, 2 * concurrency
    rows = states(first + count)
    config = {"cache": folder / f"{server_seconds}-{concurrency}.db", "concurrency": concurrency}
    with LLMPotential(LLMConfig(base_url=here.recv(), **config)) as potential:
        potential.values(rows[:first], Task())
        begin, used = time.perf_counter(), time.process_time()
        potential.values(rows[first:], Task())
        wall, cpu = time.perf_counter() - begin, time.process_time() - used
    here.send("end")
    assert here.recv() == first + count
    server.join()
    limit = concurrency / server_seconds
    return {
        "server_seconds": server_seconds,
        "concurrency": concurrency,
        "scores_a_second": count / wall,
        "limit_of_the_server": limit,
        "share_of_the_limit": count / wall / limit,
        "cpu_milliseconds_a_score": cpu / count * 1e3,
    }


def cached(seconds: float, folder: Path) -> dict[str, Any]:
    rows = states(_BATCH)
    with (
        ChatServer(lambda *_: '{"score": 0.5}') as server,
        LLMPotential(LLMConfig(base_url=server.url, cache=folder / "cached.db", max_calls=0)) as potential,
    ):
        potential.values(rows, Task())  # the budget is 0: all get the fallback, which is cached like a score
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        potential.values(rows, Task())
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        calls, begin, used = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < seconds:
            potential.values(rows, Task())
            calls += 1
        wall, cpu = time.perf_counter() - begin, time.process_time() - used
    scores = calls * _BATCH
    return {
        "batch": _BATCH,
        "scores_a_millisecond": scores / wall / 1e3,
        "scores_a_cpu_millisecond": scores / cpu / 1e3,
        "bytes_grown_by_a_repeated_batch": grown,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each measurement")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = cached(arguments.seconds, folder)
        new = [uncached(*setting, arguments.seconds, folder) for setting in _SETTINGS]
    print(f"cached, batches of {_BATCH}: {known['scores_a_millisecond']:.0f} scores/ms wall clock, ", end="")
    print(f"{known['scores_a_cpu_millisecond']:.0f} scores a ms of processor time")
    for row in new:
        print(
            f"uncached, server takes {1e3 * row['server_seconds']:.0f} ms, {row['concurrency']:2d} at once: "
            f"{row['scores_a_second']:6.1f} scores/s, {100 * row['share_of_the_limit']:.0f}% of the server's limit, "
            f"{row['cpu_milliseconds_a_score']:.1f} ms of processor time each"
        )
    if arguments.json:
        write_json(arguments.json, {"cached": known, "uncached": new, "provenance": provenance()})


if __name__ == "__main__":
    main()
